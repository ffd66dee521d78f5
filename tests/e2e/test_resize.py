"""Elastic gangs grow while they run, through every service, while services are killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deploy.local.system import LocalSystem
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet

GPUS, ELASTIC, FILLERS = 16, 4, 6
KILLS = {
    "placement": "unit.before_commit:0.03:kill,unit.after_commit:0.03:kill",
    "binder": "unit.before_commit:0.03:kill,unit.after_commit:0.03:kill",
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    overrides = {name: {"MUSTER_FAILPOINTS": kills} for name, kills in KILLS.items()}
    overrides["simulated-cluster"] = {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0.2"}
    folder: Path = tmp_path_factory.mktemp("resize")
    system = launch(folder / ".muster", overrides=overrides)
    yield system
    system.discard()


def a_gang(name: str, pods: int, least: int, seconds: int) -> WorkloadSpec:
    pod_set = PodSet(
        name="worker",
        count=pods,
        min_count=least,
        gpu=GpuRequest(count=1),
        cpu_milli=1_000,
        memory_mib=1_024,
        image="registry.local/train:1",
    )
    return WorkloadSpec(
        name=name,
        kind=WorkloadKind.TRAINING,
        pod_sets=(pod_set,),
        expected_duration_seconds=seconds,
    )


async def test_gangs_take_the_room_that_others_leave_and_every_size_is_accounted_for(
    system: LocalSystem,
) -> None:
    stage = Stage(system)
    await stage.connect()
    await stage.organise()
    await stage.nodes(list(fleet(GPUS // 8)))
    specs = [a_gang(f"filler-{n}", 2, 2, 2 + n) for n in range(FILLERS)]
    specs += [a_gang(f"elastic-{n}", 8, 1, 15) for n in range(ELASTIC)]
    for spec in specs:
        assert await stage.submit_http(spec, spec.name) == 202

    ids = [workload_id(TEAM, spec.name) for spec in specs]
    for one in ids:
        await stage.reaches(one, "succeeded", 120)

    await _nothing_is_held(stage)
    await _sizes_follow_each_other(stage)
    await stage.disconnect()
    checked = _check(system)
    assert checked.returncode == 0, checked.stdout[-4000:]


async def _nothing_is_held(stage: Stage) -> None:
    assert await stage.rows.fetchval("SELECT count(*) FROM placement.allocation") == 0
    resized = "SELECT count(*) FROM gateway.event WHERE type = 'muster.workload.resized.v1'"
    assert await stage.rows.fetchval(resized) > 0, "nobody grew: the test means nothing"


async def _sizes_follow_each_other(stage: Stage) -> None:
    """The intervals of an attempt touch, and quota's history says the same as the cost ledger."""
    query = (
        "SELECT workload_id, attempt, resizes, gpu_milli, started_at_ms, ended_at_ms FROM {}"
        " WHERE ended_at_ms IS NOT NULL ORDER BY workload_id, attempt, resizes"
    )
    costs: list[Any] = []
    history: list[Any] = [None]
    async with asyncio.timeout(60):
        while costs != history or len({row[0] for row in costs}) < ELASTIC + FILLERS:
            costs = [tuple(row) for row in await stage.rows.fetch(query.format(COSTS))]
            history = [tuple(row) for row in await stage.rows.fetch(query.format(HISTORY))]
            await asyncio.sleep(0.1)
    attempts = defaultdict(list)
    for row in costs:
        attempts[row[:2]].append(row)
    assert any(len(rows) > 1 for rows in attempts.values())
    for rows in attempts.values():
        assert [row[2] for row in rows] == list(range(len(rows)))
        assert all(a[5] == b[4] for a, b in pairwise(rows))


COSTS, HISTORY = "monitoring.cost_interval", "quota.usage_history"


def _check(system: LocalSystem) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("MUSTER_")}
    checkout = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-c", "from operations.cli import main; main()", "check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=system.folder.parent,
        env={**kept, "HOME": str(system.folder), "PYTHONPATH": checkout},
    )
