"""From a submission to Kafka to pods that are bound, through all services, until GPUs run out."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from tests.benchmarks.kube.place import Place, asked, now, per_second, used
from tests.benchmarks.pipeline import processes
from tests.support.costs import cpu_seconds, memory_mib
from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

NAMESPACE = "whole"
GANG = 8
BOUND = (
    "SELECT coalesce(sum(pods), 0)::int FROM gateway.workload"
    " WHERE state IN ('bound', 'running', 'succeeded')"
)
SECONDS_MAX = 1_200
RUN_SECONDS = 3_600
"""So short that it may use nodes that are kept for brief work; none ends while this runs."""
READY_SECONDS_MAX = 120


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """Half of the pods in gangs of eight, half alone, a GPU each."""
    async with place.namespace(NAMESPACE):
        with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
            return await _run(place, pods, Path(name) / "system")


async def _run(place: Place, pods: int, folder: Path) -> dict[str, Any]:
    """A system for this part alone, as `make up CLUSTER=kube` starts it."""
    system = await asyncio.to_thread(launch_on, place.plane.folder, folder, instance="bench-whole")
    stage = Stage(system)
    try:
        await stage.connect()
        return await _measured(stage, place, pods)
    finally:
        await stage.disconnect()
        await asyncio.to_thread(system.discard)


async def _measured(stage: Stage, place: Place, pods: int) -> dict[str, Any]:
    await stage.organise()
    await stage.put(f"teams/{TEAM}", {"namespace": NAMESPACE})
    known = "SELECT count(*) FROM placement.node"
    read_seconds = await stage.until(known, place.nodes, READY_SECONDS_MAX)
    before, told = place.cpu() | await _cpu(stage), await place.requests()
    start = now()
    workloads = await stage.submit(_submissions(pods), "kube")
    await stage.until(BOUND, pods, SECONDS_MAX, every_seconds=0.25)
    seconds = now() - start
    after = place.cpu() | await _cpu(stage)
    memory = {name: memory_mib(pids[0]) for name, pids in (await processes(stage)).items()}
    return {
        "pods": pods,
        "workloads": workloads,
        "pods_per_second": per_second(pods, seconds),
        "seconds": round(seconds, 2),
        "nodes_known_after_seconds": round(read_seconds, 2),
        "cpu_ms_per_pod": used(before, after, pods),
        "requests_per_pod": asked(told, await place.requests(), pods),
        "memory_mib": {name: memory[name] for name in ("binder", "placement", "cluster-watcher")},
    }


async def _cpu(stage: Stage) -> dict[str, float]:
    return {name: cpu_seconds(pids) for name, pids in (await processes(stage)).items()}


def _submissions(pods: int) -> Iterator[WorkloadSpec]:
    """A gang, then as many single pods as it has, and so on."""
    for number in range(pods // (2 * GANG)):
        yield _work(f"gang-{number}", GANG)
        for single in range(GANG):
            yield _work(f"single-{number}-{single}", 1)


def _work(name: str, count: int) -> WorkloadSpec:
    pod_set = PodSet(
        count=count,
        gpu=GpuRequest(count=1),
        cpu_milli=1_000,
        memory_mib=1_024,
        image="registry.example.org/a/b:1",
    )
    return WorkloadSpec(
        name=name,
        kind=WorkloadKind.TRAINING,
        queue=TEAM,
        pod_sets=(pod_set,),
        max_duration_seconds=RUN_SECONDS,
    )
