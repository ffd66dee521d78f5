"""How fast kube-scheduler binds pods that are created while it works, with and without a GPU."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from deploy.local.processes import Program
from shared.adapters.kubernetes.connection import Connection
from tests.benchmarks.kube.limit import a_pod, create
from tests.benchmarks.kube.native import a_native_pod
from tests.benchmarks.kube.place import Place, names_of, now, per_second, used
from tests.support.costs import cpu_seconds
from tests.support.kube_scheduler import NAME, scheduler

NAMESPACE = "scheduler"
DEFAULT = "default-scheduler"
SETTLE_SECONDS = 10
"""Until it has read all nodes."""
SECONDS_MAX = 600


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """Pods a second from the first creation to the last binding, of the pods of `limit`."""
    made = [a_pod(number) for number in range(pods)]
    return await _measured(place, [_for_default(one) for one in made])


async def measure_gpus(place: Place, pods: int) -> dict[str, Any]:
    """The same of the pods of `native`, each with a GPU."""
    made = [a_native_pod(number) for number in range(pods)]
    return await _measured(place, [_for_default(one) for one in made])


def _for_default(pod: dict[str, Any]) -> dict[str, Any]:
    return pod | {"spec": pod["spec"] | {"schedulerName": DEFAULT}}


async def _measured(place: Place, pods: Sequence[dict[str, Any]]) -> dict[str, Any]:
    async with place.namespace(NAMESPACE) as connection:
        with _running(place) as program:
            await asyncio.sleep(SETTLE_SECONDS)
            before, start = place.cpu() | _cpu(program), now()
            await _create_and_wait(connection, pods)
            seconds = now() - start
            spent = used(before, place.cpu() | _cpu(program), len(pods))
        return {
            "pods": len(pods),
            "pods_per_second": per_second(len(pods), seconds),
            "cpu_ms_per_pod": spent,
        }


async def _create_and_wait(connection: Connection, pods: Sequence[dict[str, Any]]) -> None:
    await create(connection, NAMESPACE, pods)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    deadline = now() + SECONDS_MAX
    while await names_of(connection, path, fieldSelector="spec.nodeName=", limit="1"):
        assert now() < deadline, "kube-scheduler has not bound all pods"
        await asyncio.sleep(0.1)


@contextlib.contextmanager
def _running(place: Place) -> Iterator[Program]:
    program = scheduler(place.plane.folder, place.scheduler_account(), {})
    program.start()
    try:
        yield program
    finally:
        program.stop()


def _cpu(program: Program) -> dict[str, float]:
    return {NAME: cpu_seconds([program.pid] if program.pid else [])}
