"""Pods that name Muster as their scheduler: from the first creation to the last binding."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from shared.adapters.kubernetes.connection import Connection
from tests.benchmarks.kube.limit import create
from tests.benchmarks.kube.place import Place, asked, names_of, now, per_second, used
from tests.benchmarks.pipeline import processes
from tests.support.costs import cpu_seconds, memory_mib
from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

NAMESPACE = "native"
SCHEDULER = "bench-native"
SECONDS_MAX = 900
READY_SECONDS_MAX = 120
TOLD = ("native", "binder", "admission", "quota", "placement")


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """One GPU each, through native service, admission, quota, placement and binder."""
    async with place.namespace(NAMESPACE) as connection, for_native_pods(place) as stage:
        return await _measured(stage, place, connection, pods)


@contextlib.asynccontextmanager
async def for_native_pods(place: Place) -> AsyncIterator[Stage]:
    """A system that knows all nodes, with a team that has the namespace of the pods."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
        system = await asyncio.to_thread(
            launch_on,
            place.plane.folder,
            Path(name) / "system",
            instance="bench-native",
            scheduler_name=SCHEDULER,
        )
        stage = Stage(system)
        try:
            await stage.connect()
            await stage.organise()
            await stage.put(f"teams/{TEAM}", {"namespace": NAMESPACE})
            nodes = "SELECT count(*) FROM placement.node"
            await stage.until(nodes, place.nodes, READY_SECONDS_MAX)
            yield stage
        finally:
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


async def _measured(
    stage: Stage, place: Place, connection: Connection, pods: int
) -> dict[str, Any]:
    before, told = place.cpu() | await _cpu(stage), await place.requests()
    start = now()
    await create(connection, NAMESPACE, [a_native_pod(number) for number in range(pods)])
    created_seconds = now() - start
    await _all_bound(connection)
    seconds = now() - start
    after = place.cpu() | await _cpu(stage)
    memory = {name: memory_mib(pids[0]) for name, pids in (await processes(stage)).items()}
    return {
        "pods": pods,
        "pods_per_second": per_second(pods, seconds),
        "created_per_second": per_second(pods, created_seconds),
        "seconds": round(seconds, 2),
        "cpu_ms_per_pod": used(before, after, pods),
        "requests_per_pod": asked(told, await place.requests(), pods),
        "memory_mib": {name: memory[name] for name in TOLD if name in memory},
    }


async def _all_bound(connection: Connection) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    deadline = now() + SECONDS_MAX
    while await names_of(connection, path, fieldSelector="spec.nodeName=", limit="1"):
        assert now() < deadline, "not all pods are bound"
        await asyncio.sleep(0.25)


async def _cpu(stage: Stage) -> dict[str, float]:
    return {name: cpu_seconds(pids) for name, pids in (await processes(stage)).items()}


def a_native_pod(number: int) -> dict[str, Any]:
    """Of one GPU, by count."""
    amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": "registry.example.org/a/b:1", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"native-{number}"},
        "spec": {
            "schedulerName": SCHEDULER,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }
