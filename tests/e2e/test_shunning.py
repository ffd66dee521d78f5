"""A node on which nothing starts, in a whole system whose placement is killed meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deploy.local.system import LocalSystem
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet

NODES = 4
START_SECONDS = 5
"""Far more than a pod takes to start here, however busy the machine is."""
SETTINGS = {"MUSTER_START_SECONDS": str(START_SECONDS), "MUSTER_SHUN_SECONDS": "45"}
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder: Path = tmp_path_factory.mktemp("shunning")
    at_once = {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}
    overrides = {"simulated-cluster": at_once, "placement": SETTINGS}
    system = launch(folder / "system", overrides=overrides)
    yield system
    system.discard()


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """With an organisation and its nodes."""
    await stage.organise()
    await stage.nodes(list(fleet(NODES)))
    return stage


async def submit(stage: Stage, name: str, image: str, **more: Any) -> str:
    shape: dict[str, Any] = {"count": 1, "gpu": GpuRequest(count=1)} | more
    pod_set = PodSet(name="worker", cpu_milli=4_000, memory_mib=8_192, image=image, **shape)
    spec = WorkloadSpec(
        name=name,
        kind=WorkloadKind.TRAINING,
        pod_sets=(pod_set,),
        expected_duration_seconds=1,
    )
    assert await stage.submit_http(spec, name) == 202
    return workload_id(TEAM, name)


async def starts_nothing(stage: Stage, node: str, verb: str) -> None:
    """`down`: pods are bound there and never run; its agent goes on to say that it is ready."""
    address = f"{stage.system.url('simulated-cluster')}/v1/nodes/{node}/{verb}"
    async with aiohttp.ClientSession() as session, session.post(address) as reply:
        assert reply.status < 300, await reply.text()


async def until(found: Callable[[], Awaitable[Any]], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := await found()):
        assert time.monotonic() < deadline, "it did not come"
        await asyncio.sleep(0.1)
    return value


async def test_a_node_on_which_nothing_starts_is_shunned_across_a_kill_until_it_is_whole(
    stage: Stage,
) -> None:
    scout = await submit(stage, "scout", "registry.local/a:1")
    await stage.reaches(scout, "succeeded")
    bad = await stage.rows.fetchval(
        "SELECT (placement::jsonb)->'pods'->0->>'node' FROM gateway.workload WHERE id = $1", scout
    )
    await starts_nothing(stage, bad, "down")

    # Two of other images do not start there: both run elsewhere, and nobody goes there.
    names = [await submit(stage, f"w{image}", f"registry.local/{image}:1") for image in "bc"]

    async def shunned() -> Any:
        node = await stage.get(f"nodes/{bad}")
        return node if node["shunned_until_ms"] else None

    told = await until(shunned)
    for name in names:
        await stage.reaches(name, "succeeded", 30)
    stage.system.kill("placement")
    gang = await submit(stage, "gang", "registry.local/d:1", count=NODES, gpu=GpuRequest(count=8))

    async def refusal() -> str:
        why = str(await stage.get(f"workloads/{gang}/why"))
        return why if "shunned" in why else ""

    why = await until(refusal)
    await starts_nothing(stage, bad, "up")
    await stage.reaches(gang, "succeeded", 120)

    words = f"because 2 workloads did not start there within {START_SECONDS} s"
    assert words in told["shun_message"]
    assert (
        "1 node more is in quarantine, as nothing started there lately or no agent is heard" in why
    )
    assert (await stage.get(f"nodes/{bad}"))["shunned_until_ms"] is None
    assert 0 == await stage.rows.fetchval("SELECT count(*) FROM placement.suspicion")
    assert 0 == await stage.rows.fetchval("SELECT count(*) FROM placement.avoided")
    attempts = await stage.rows.fetch("SELECT id, attempt FROM placement.workload")
    assert {scout: 1, names[0]: 2, names[1]: 2, gang: 1} == {
        row["id"]: row["attempt"] for row in attempts
    }
