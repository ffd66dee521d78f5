"""A cluster for one run of the benchmark: its processes, and a namespace for each part."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.kube.control_plane import NAMESPACE, ControlPlane
from deploy.kube.nodes import GPUS_A_NODE, MIG, way_of
from shared.adapters.kubernetes.connection import Connection
from shared.adapters.kubernetes.settings import KubernetesSettings
from tests.fixtures.kube import KubeCluster, make_namespace
from tests.support.costs import cpu_seconds

EMPTY_SECONDS_MAX = 300
PAGE = 500
LABEL = re.compile(r'(\w+)="([^"]*)"')
FEW = 0.05
"""Requests for one pod that are not worth a line."""
SCHEDULER = "bench-scheduler"


@dataclass(frozen=True, slots=True)
class Place:
    """The control plane that runs, and its nodes."""

    plane: ControlPlane
    nodes: int

    @property
    def kube(self) -> KubeCluster:
        """The same, as tests take it."""
        return KubeCluster(self.plane.folder)

    @property
    def whole_gpus(self) -> int:
        """GPUs that are given whole: the others have MIG on."""
        return GPUS_A_NODE * sum(way_of(number) != MIG for number in range(self.nodes))

    def cpu(self) -> dict[str, float]:
        """CPU seconds of each process of the control plane until now."""
        return {name: cpu_seconds([pid]) for name, pid in self.plane.pids().items()}

    async def requests(self) -> Counter[str]:
        """Requests that the API server has answered until now, by verb and resource."""
        connection = Connection(KubernetesSettings(config=str(self.kube.kubeconfig())))
        answer = await connection.request("GET", "/metrics")
        await connection.close()
        found = Counter[str]()
        for line in answer.body.decode().splitlines():
            if line.startswith("apiserver_request_total{"):
                told = dict(LABEL.findall(line))
                parts = (told["verb"], told["resource"], told["subresource"])
                found[" ".join(filter(None, parts))] += int(float(line.rpartition(" ")[2]))
        return found

    @contextlib.asynccontextmanager
    async def namespace(self, name: str) -> AsyncIterator[Connection]:
        """A namespace for the time of the block, with the binder's connection; left empty."""
        with self.kube.client() as admin:
            make_namespace(admin, name)
        connection = Connection(KubernetesSettings(config=str(self.kube.kubeconfig("binder"))))
        yield connection
        await self._empty(connection, f"/api/v1/namespaces/{name}/pods")
        await connection.close()

    async def _empty(self, connection: Connection, path: str) -> None:
        """Delete all pods below a path, and wait until they are gone."""
        deadline = now() + EMPTY_SECONDS_MAX
        at_once = {"gracePeriodSeconds": "0"}
        while names := await names_of(connection, path, limit=str(PAGE)):
            if now() > deadline:
                raise AssertionError(f"pods are left below {path}")
            await asyncio.gather(
                *(connection.request("DELETE", f"{path}/{one}", query=at_once) for one in names)
            )

    def scheduler_account(self) -> Path:
        """A kubeconfig for kube-scheduler: a service account that may do all."""
        account = {"name": SCHEDULER, "namespace": NAMESPACE}
        with self.kube.client() as admin:
            admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
            admin.create(_all_rights(account))
            self.plane.write_identity(admin, SCHEDULER)
        return self.plane.kubeconfig(SCHEDULER)


@contextlib.contextmanager
def started(nodes: int) -> Iterator[Place]:
    """A cluster in a temporary folder, stopped at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-kube-", dir="/var/tmp") as name:
        plane = ControlPlane(Path(name) / "kube", nodes=nodes)
        plane.start()
        try:
            yield Place(plane, nodes)
        finally:
            plane.stop()


async def names_of(connection: Connection, path: str, **query: str) -> list[str]:
    """The names of the pods of a list."""
    answer = await connection.request("GET", path, query=query)
    return [pod["metadata"]["name"] for pod in json.loads(answer.body)["items"]]


def used(before: dict[str, float], after: dict[str, float], pods: int) -> dict[str, float]:
    """Milliseconds of CPU of each process for one pod."""
    return {
        name: round(1000 * (seconds - before.get(name, 0)) / pods, 2)
        for name, seconds in sorted(after.items())
    }


def asked(before: Counter[str], after: Counter[str], pods: int) -> dict[str, float]:
    """Requests for one pod, the most frequent first; also those of others meanwhile."""
    each = {name: round(count / pods, 2) for name, count in (after - before).most_common()}
    return {name: count for name, count in each.items() if count >= FEW}


def per_second(pods: int, seconds: float) -> float:
    """Pods a second."""
    return round(pods / seconds, 1)


def now() -> float:
    """Seconds on a clock that only grows."""
    return time.monotonic()


def _all_rights(account: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": account["name"]},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "ServiceAccount", **account}],
    }
