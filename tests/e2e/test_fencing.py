"""A node that died: its gang runs again once an operator says so, on the whole system."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from deploy.local.system import LocalSystem
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from shared.events.nodes import NodeInventoryReported
from shared.events.topics import NODE_FACTS
from tests.support.system import TEAM, Stage, launch, now_ms
from tests.support.work import fleet, record

NODES = 3
STUCK_SECONDS = 3


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder: Path = tmp_path_factory.mktemp("fencing")
    at_once = {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}
    system = launch(folder / "system", overrides={"simulated-cluster": at_once})
    yield system
    system.discard()


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """With an organisation and its nodes."""
    await stage.organise()
    await stage.nodes(list(fleet(NODES)))
    return stage


async def submit(stage: Stage, name: str, nodes: int) -> str:
    pod_set = PodSet(
        name="worker", count=nodes, gpu=GpuRequest(count=8), cpu_milli=4_000, memory_mib=8_192,
        image="registry.local/a:1",
    )  # fmt: skip
    spec = WorkloadSpec(name=name, kind=WorkloadKind.TRAINING, pod_sets=(pod_set,))
    assert await stage.submit_http(spec, name) == 202
    return workload_id(TEAM, name)


async def heard(stage: Stage, name: str, generation: int, *, ready: bool) -> None:
    """What becomes of a machine, as the cluster and its reporter see it."""
    verb = "up" if ready else "silent"
    address = f"{stage.system.url('simulated-cluster')}/v1/nodes/{name}/{verb}"
    async with aiohttp.ClientSession() as session, session.post(address) as reply:
        assert reply.status < 300, await reply.text()
    (node,) = (one for one in fleet(NODES) if one.name == name)
    fields = {one: getattr(node, one) for one in type(node).__struct_fields__} | {"ready": ready}
    fact = NodeInventoryReported(node=type(node)(**fields), generation=generation)
    cause = f"inventory-{name}-{generation}"
    await stage.publish([record(fact, NODE_FACTS, name, cause, now_ms(), generation)])


async def nodes_of(stage: Stage, workload: str) -> set[str]:
    rows = await stage.rows.fetch(
        "SELECT DISTINCT node FROM placement.allocation WHERE workload_id = $1", workload
    )
    return {row["node"] for row in rows}


async def told_of_loss(stage: Stage, workload: str, node: str) -> None:
    """Wait until the gateway, too, has heard that the node is lost."""
    async with asyncio.timeout(30):
        while f"{node} is lost" not in (await stage.get(f"workloads/{workload}/why"))["message"]:
            await asyncio.sleep(0.1)


async def operator(stage: Stage, node: str, verb: str) -> int:
    async with stage.api.post(f"/v1/nodes/{node}/{verb}", json={"note": "x"}) as reply:
        return reply.status


async def test_a_gang_leaves_a_dead_node_when_it_is_fenced_and_the_node_waits_for_an_operator(
    stage: Stage,
) -> None:
    gang = await submit(stage, "gang", 2)
    await stage.reaches(gang, "running", 30)
    dead, living = sorted(await nodes_of(stage, gang))
    before = await operator(stage, dead, "fence")

    await heard(stage, dead, 2, ready=False)
    await stage.reaches(gang, "evicting", 30)
    await told_of_loss(stage, gang, dead)
    await asyncio.sleep(STUCK_SECONDS)
    stuck = await stage.get(f"workloads/{gang}/why")
    held = await nodes_of(stage, gang)
    stage.system.kill("binder")
    fenced = await operator(stage, dead, "fence")
    await stage.reaches(gang, "running", 60)
    after = await nodes_of(stage, gang)

    # It is back: nothing starts there before an operator has looked at it.
    await heard(stage, dead, 3, ready=True)
    other = await submit(stage, "other", 1)
    await stage.reaches(other, "queued", 30)
    await asyncio.sleep(STUCK_SECONDS)
    waiting = (await stage.get(f"workloads/{other}"))["state"]
    uncordoned = await operator(stage, dead, "uncordon")
    await stage.reaches(other, "running", 30)

    assert (409, 202, 202) == (before, fenced, uncordoned)
    assert ("evicting", {dead, living}) == (stuck["state"], held)
    assert f"node {dead} is lost since" in stuck["message"]
    assert f"muster admin nodes fence {dead}" in stuck["next_step"]
    assert (dead in after, len(after)) == (False, 2)
    assert "queued" == waiting
    assert {dead} == await nodes_of(stage, other)
