"""From the front door to running pods and back, through every service, for real."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deploy.local.system import LocalSystem
from shared.core.model.nouns import (
    GpuChoice,
    GpuRequest,
    Level,
    PodRole,
    PodSet,
    Slice,
    TopologyRequest,
    WorkloadKind,
    WorkloadSpec,
)
from shared.core.model.value import replace
from shared.events.envelope import workload_id
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet

NODES = 64
RAISED_SECONDS = 1.5


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder: Path = tmp_path_factory.mktemp("whole-loop")
    overrides = {"simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}}
    system = launch(folder / "system", overrides=overrides)
    yield system
    system.discard()


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """With an organisation and its nodes."""
    await stage.organise()
    await stage.nodes(list(fleet(NODES)))
    return stage


def a_workload(name: str, gpus: int = 1, pods: int = 1, **more: Any) -> WorkloadSpec:
    pod_set = PodSet(
        name="worker",
        count=pods,
        gpu=more.pop("gpu", GpuRequest(count=gpus)),
        cpu_milli=4_000,
        memory_mib=8_192,
        image="registry.local/train:1",
    )
    kind = more.pop("kind", WorkloadKind.TRAINING)
    return WorkloadSpec(name=name, kind=kind, pod_sets=(pod_set,), **more)


async def submit(stage: Stage, spec: WorkloadSpec) -> str:
    assert await stage.submit_http(spec, spec.name) == 202
    return workload_id(TEAM, spec.name)


async def test_a_workload_runs_and_its_placement_can_be_read(stage: Stage) -> None:
    one = await submit(stage, a_workload("runs", gpus=8))

    found = await stage.reaches(one, "running")

    assert found["version"] >= 3
    rows = await stage.rows.fetch(
        "SELECT count(*) AS n, min(mask) AS mask FROM placement.allocation WHERE workload_id = $1",
        one,
    )
    assert (8, 255) == (rows[0]["n"], rows[0]["mask"])


async def test_a_gang_is_placed_whole_in_one_rack(stage: Stage) -> None:
    spec = a_workload("gang", gpus=8, pods=6, topology=TopologyRequest(required=Level.RACK))
    one = await submit(stage, spec)

    await stage.reaches(one, "running")

    racks = await stage.rows.fetchval(
        "SELECT count(DISTINCT (n.body::jsonb)->>'rack') FROM placement.allocation a"
        " JOIN placement.node n ON n.name = a.node WHERE a.workload_id = $1",
        one,
    )
    assert racks == 1


async def test_a_gang_with_a_shape_runs_as_large_as_its_quota_allows(stage: Stage) -> None:
    """Nominated for its least, charged for what was placed, and every pod of that runs."""
    limits = {"gpu_milli": 60_000, "cpu_milli": 2**62, "memory_mib": 2**62}
    queue = {"team": TEAM, "flavors": [{"flavor": "default", "nominal": limits}]}
    await stage.put("queues/elastic", queue)
    workers = PodSet(
        name="workers",
        count=10,
        min_count=2,
        gpu=GpuRequest(count=8),
        cpu_milli=4_000,
        memory_mib=8_192,
        image="registry.local/train:1",
        slices=(Slice(pods=2, level=Level.RACK),),
    )
    leader = replace(workers, name="leader", count=1, min_count=1, gpu=GpuRequest(), slices=())
    spec = WorkloadSpec(
        name="shaped",
        kind=WorkloadKind.TRAINING,
        queue="elastic",
        pod_sets=(replace(leader, role=PodRole.LEADER), workers),
        topology=TopologyRequest(numa_aligned=True),
    )

    one = await submit(stage, spec)
    await stage.reaches(one, "running")

    held = await stage.rows.fetchrow(
        "SELECT count(*) AS gpus, count(DISTINCT node) AS nodes FROM placement.allocation"
        " WHERE workload_id = $1 AND gpu >= 0",
        one,
    )
    assert (48, 6) == (held["gpus"], held["nodes"])


async def test_the_same_key_gives_one_workload_and_another_body_is_refused(stage: Stage) -> None:
    spec = a_workload("twice")

    first = [await stage.submit_http(spec, "twice") for _ in range(5)]
    other = await stage.submit_http(a_workload("another"), "twice")

    assert [202] * 5 == first
    assert other == 422
    await stage.reaches(workload_id(TEAM, "twice"), "running")
    queued = "SELECT count(*) FROM admission.audit WHERE subject = $1"
    assert await stage.rows.fetchval(queued, workload_id(TEAM, "twice")) == 1


async def test_a_workload_that_ends_gives_its_devices_back(stage: Stage) -> None:
    one = await submit(stage, a_workload("ends", expected_duration_seconds=1))

    await stage.reaches(one, "succeeded")

    held = "SELECT count(*) FROM placement.allocation WHERE workload_id = $1"
    assert await stage.rows.fetchval(held, one) == 0


async def test_cancel_stops_what_runs(stage: Stage) -> None:
    one = await submit(stage, a_workload("cancel-me"))
    await stage.reaches(one, "running")

    await stage.command(one, "cancel")

    await stage.reaches(one, "cancelled", 45)


async def test_hold_and_release_go_round(stage: Stage) -> None:
    one = await submit(stage, a_workload("hold-me"))
    await stage.reaches(one, "running")

    await stage.command(one, "hold")
    await stage.reaches(one, "held", 45)
    await stage.command(one, "release")

    found = await stage.reaches(one, "running")
    assert found["attempt"] == 2


async def test_an_evicted_workload_is_queued_and_runs_again(stage: Stage) -> None:
    one = await submit(stage, a_workload("evict-me"))
    await stage.reaches(one, "running")

    await stage.command(one, "evict", note="drain")

    deadline = 60
    while (found := await stage.reaches(one, "running", deadline))["attempt"] < 2:
        pass
    assert found["attempt"] == 2


async def test_what_can_never_run_is_refused_with_the_reason(stage: Stage) -> None:
    one = await submit(stage, a_workload("too-large", gpus=16))
    two = await submit(stage, a_workload("no-such-gpu", gpu_choice=GpuChoice(products=("Z9000",))))

    first = await stage.reaches(one, "rejected")
    second = await stage.reaches(two, "rejected")

    assert "8" in msgspec.json.encode(first).decode()
    assert "Z9000" in msgspec.json.encode(second).decode()


async def test_why_names_quota_with_numbers_and_a_raised_quota_takes_effect(stage: Stage) -> None:
    limits = {"gpu_milli": 4_000, "cpu_milli": 2**62, "memory_mib": 2**62}
    queue = {"team": TEAM, "flavors": [{"flavor": "default", "nominal": limits}]}
    await stage.put("queues/small", queue)
    one = await submit(stage, a_workload("fits", gpus=4, queue="small"))
    await stage.reaches(one, "running")

    two = await submit(stage, a_workload("waits", gpus=2, queue="small"))
    await stage.reaches(two, "queued")
    why = await wait_for_quota(stage, two)
    limits["gpu_milli"] = 6_000
    await stage.put("queues/small", queue)

    assert "4" in why["message"]
    await stage.reaches(two, "running", RAISED_SECONDS)


async def wait_for_quota(stage: Stage, one: str) -> dict[str, Any]:
    """What is told once quota has refused it; before that it has another reason."""
    async with asyncio.timeout(60):
        while (why := await stage.get(f"workloads/{one}/why")).get("reason") != "WaitingForQuota":
            await asyncio.sleep(0.05)
    return why
