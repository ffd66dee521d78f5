"""How fast kube-scheduler binds pods that are created while it works."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from typing import Any

import yaml

from deploy.kube.programs import programs
from deploy.local.processes import Program
from shared.adapters.kubernetes.connection import Connection
from tests.benchmarks.kube.limit import a_pod, create
from tests.benchmarks.kube.place import Place, names_of, now, per_second, used
from tests.support.costs import cpu_seconds

NAMESPACE = "scheduler"
DEFAULT = "default-scheduler"
SETTLE_SECONDS = 10
"""Until it has read all nodes."""
SECONDS_MAX = 600


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """Pods a second from the first creation to the last binding."""
    async with place.namespace(NAMESPACE) as connection:
        with _running(place) as scheduler:
            await asyncio.sleep(SETTLE_SECONDS)
            before, start = place.cpu() | _cpu(scheduler), now()
            await _create_and_wait(connection, pods)
            seconds = now() - start
            spent = used(before, place.cpu() | _cpu(scheduler), pods)
        return {
            "pods": pods,
            "pods_per_second": per_second(pods, seconds),
            "cpu_ms_per_pod": spent,
        }


async def _create_and_wait(connection: Connection, pods: int) -> None:
    await create(connection, NAMESPACE, [a_pod(number, DEFAULT) for number in range(pods)])
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    deadline = now() + SECONDS_MAX
    while await names_of(connection, path, fieldSelector="spec.nodeName=", limit="1"):
        assert now() < deadline, "kube-scheduler has not bound all pods"
        await asyncio.sleep(0.1)


@contextlib.contextmanager
def _running(place: Place) -> Iterator[Program]:
    """kube-scheduler without a limit on its own requests."""
    folder = place.plane.folder
    config = folder / "scheduler.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "leaderElection": {"leaderElect": False},
                "clientConnection": {
                    "kubeconfig": str(place.scheduler_account()),
                    "qps": 10_000,
                    "burst": 20_000,
                },
            }
        )
    )
    program = Program(
        name="kube-scheduler",
        command=[
            str(programs() / "kube-scheduler"),
            f"--config={config}",
            "--secure-port=0",
        ],
        log=folder / "logs" / "kube-scheduler.log",
        environment=dict(os.environ),
        folder=folder,
    )
    program.start()
    try:
        yield program
    finally:
        program.stop()


def _cpu(scheduler: Program) -> dict[str, float]:
    return {"kube-scheduler": cpu_seconds([scheduler.pid] if scheduler.pid else [])}
