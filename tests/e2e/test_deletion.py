"""Documents are deleted in a whole system: refused while work uses them, and no trace is wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from deploy.local.system import LocalSystem
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.support.killing import checked
from tests.support.system import TEAM, UNLIMITED, Stage, launch
from tests.support.work import fleet

LIMITS = {"gpu_milli": 8_000, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
QUOTA = [{"flavor": "default", "nominal": LIMITS}]


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder: Path = tmp_path_factory.mktemp("deletion")
    overrides = {"simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}}
    system = launch(folder / "system", overrides=overrides)
    yield system
    system.discard()


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """With an organisation and its nodes."""
    await stage.organise()
    await stage.nodes(list(fleet(2)))
    return stage


def a_workload(name: str, queue: str) -> WorkloadSpec:
    pod_set = PodSet(gpu=GpuRequest(count=1), cpu_milli=1_000, memory_mib=1_024, image="x")
    return WorkloadSpec(name=name, kind=WorkloadKind.TRAINING, queue=queue, pod_sets=(pod_set,))


async def delete(stage: Stage, path: str) -> tuple[int, dict[str, Any]]:
    async with stage.api.delete(f"/v1/{path}") as reply:
        return reply.status, {} if reply.status == 204 else await reply.json()


async def becomes(stage: Stage, condition: str, *arguments: Any) -> None:
    """Wait until a query answers true."""
    deadline = time.monotonic() + 30
    while not await stage.rows.fetchval(condition, *arguments):
        assert time.monotonic() < deadline, condition
        await asyncio.sleep(0.1)


async def test_a_queue_is_deleted_when_its_work_has_ended_and_can_be_made_again(
    stage: Stage,
) -> None:
    await stage.put("cohorts/lab", {"flavors": QUOTA})
    await stage.put("queues/night", {"team": TEAM, "cohort": "lab", "flavors": QUOTA})
    assert await stage.submit_http(a_workload("one", "night"), "one") == 202
    one = workload_id(TEAM, "one")
    await stage.reaches(one, "running", 60)

    used_status, used = await delete(stage, "queues/night")
    cohort_status, cohort = await delete(stage, "cohorts/lab")
    await stage.command(one, "cancel")
    await stage.reaches(one, "cancelled", 60)
    deleted = [(await delete(stage, path))[0] for path in ("queues/night", "cohorts/lab")]
    refused = await stage.submit_http(a_workload("two", "night"), "two")
    gone = "SELECT count(*) = 2 FROM gateway.quota_limit WHERE name IN ('night', 'lab')"
    await becomes(stage, f"{gone} AND body NOT LIKE '%default%' AND body NOT LIKE '%parent%'")
    await stage.put("queues/night", {"team": TEAM, "flavors": QUOTA})
    assert await stage.submit_http(a_workload("three", "night"), "three") == 202
    three = workload_id(TEAM, "three")
    await stage.reaches(three, "running", 60)
    await stage.command(three, "cancel")
    await stage.reaches(three, "cancelled", 60)

    assert (409, 409) == (used_status, cohort_status)
    assert one in used["errors"][0]["rule"]
    assert "Queue/night" == cohort["errors"][0]["value"]
    assert ([204, 204], 400) == (deleted, refused)
    assert "clean" == await asyncio.to_thread(checked, stage)


async def test_work_that_is_let_in_as_its_queue_is_deleted_runs_to_its_end(stage: Stage) -> None:
    """The gateway that deletes is told lies about living work, as a slow projection would tell."""
    await stage.put("queues/race", {"team": TEAM, "flavors": QUOTA})
    assert await stage.submit_http(a_workload("racer", "race"), "racer") == 202
    racer = workload_id(TEAM, "racer")
    await stage.reaches(racer, "running", 60)
    owner = stage.system.postgres.url()

    await _hide(owner, racer, live=False)
    status, _ = await delete(stage, "queues/race")
    await _hide(owner, racer, live=True)
    closed = "SELECT closed_version = 2 FROM quota.quota_node WHERE name = 'race'"
    await becomes(stage, closed)
    still = await stage.get(f"workloads/{racer}")
    await stage.command(racer, "cancel")
    await stage.reaches(racer, "cancelled", 60)
    await becomes(
        stage,
        "SELECT closed_version IS NULL AND version = 2 FROM quota.quota_node WHERE name = 'race'",
    )

    assert (204, "running") == (status, still["state"])
    assert "clean" == await asyncio.to_thread(checked, stage)


async def _hide(owner: str, identifier: str, *, live: bool) -> None:
    connection = await asyncpg.connect(owner)
    await connection.execute(
        "UPDATE gateway.workload SET live = $2 WHERE id = $1", identifier, live
    )
    await connection.close()
