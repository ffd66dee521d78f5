"""The real API server as a world of the contract of `ports.Cluster`.

Pods of one test are told from those of others by their instance. What a kubelet does is asked for
by annotations, which an administrator adds between the creation and the binding of a pod.
"""

import asyncio
import functools
import os
import signal
import socket
import subprocess
import time
import urllib.parse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from deploy.kube import state
from deploy.kube.nodes import MANAGED, node_name
from deploy.local.processes import identity, wait_until
from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.settings import KubernetesSettings
from tests.fixtures.kube import KubeCluster, make_namespace

SECONDS = 40
RESTART_SECONDS = 120
"""Three on a machine with nothing else to do."""
READY = "/readyz?exclude=poststarthook%2Frbac%2Fbootstrap-roles"
"""It has its roles from before. That it reads them one by one again takes 10 s and more while all
clients come back, and nobody waits for it."""
POLL_SECONDS = 0.05
NOTICE_SECONDS = 1.0
STOP_SECONDS = "1"
KUBELETS = {
    "starts": {},
    "refuses": {"kwok.muster.dev/refused": "UnexpectedAdmissionError"},
    "runs-out-of-memory": {"kwok.muster.dev/failed": "OOMKilled"},
    "cannot-pull": {"kwok.muster.dev/waiting": "ImagePullBackOff"},
    "cannot-create": {"kwok.muster.dev/waiting": "CreateContainerConfigError"},
}
RED, BLUE = "red", "blue"


class KubeWorld:
    """A cluster and what others do to it; see `tests/contract/cluster_worlds.py`."""

    nodes = (node_name(0), node_name(3))
    namespaces = (RED, BLUE)

    def __init__(self, cluster: KubernetesCluster, kube: KubeCluster, instance: str) -> None:
        self.cluster = cluster
        self._kube = kube
        self.instance = instance
        self._annotations: dict[str, str] = {}
        self._limited: list[str] = []
        self._of_others: list[str] = []

    async def one(self, operation):
        result = (await self.cluster.apply([operation]))[0]
        if operation.verb == "create" and result.status == 201:
            self._patch(
                pod_path(result.pod),
                {"metadata": {"annotations": {SLOW_STOP: STOP_SECONDS, **self._annotations}}},
            )
        return result

    async def pods(self):
        return {pod.name: pod for pod in (await self.cluster.list_pods())[0]}

    async def pass_time(self, seconds=0.5):
        await asyncio.sleep(seconds)

    async def until(self, name, condition):
        pod = None
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            pod = (await self.pods()).get(name)
            if condition(pod) and self._quotas_are_true():
                return pod
            await asyncio.sleep(POLL_SECONDS)
        raise AssertionError(f"it did not come to that: {pod}")

    async def kubelet(self, does):
        self._annotations = KUBELETS[does]

    async def node(self, name, action):
        if action == "fence":
            for pod in (await self.pods()).values():
                if pod.node == name:
                    self._force_delete(pod_path(pod))
            return
        if action == "up":
            self._patch(f"/api/v1/nodes/{name}", HEARD)
        else:
            self._patch(f"/api/v1/nodes/{name}", {"metadata": {"annotations": {NOT_READY: "yes"}}})
            await asyncio.to_thread(
                wait_until, lambda: not self._node_is_ready(name), seconds=SECONDS, what="NotReady"
            )
            self._patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {MANAGED: None}}})
            await asyncio.to_thread(simulator_has_heard, self._kube)
        await asyncio.sleep(NOTICE_SECONDS)

    async def limit(self, namespace, pods_max):
        body = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(pods_max)}}}
        with self._kube.client() as admin:
            admin.demand("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", body)
        self._limited.append(namespace)
        await asyncio.to_thread(
            wait_until, self._quotas_are_true, seconds=SECONDS, what="the quota to be counted"
        )

    async def others_make(self, group, name, size):
        namespace, _, key = group.split("/")
        body = {
            "metadata": {
                "name": name,
                "labels": {"muster.dev/group": key},
                "annotations": {"muster.dev/group-size": str(size), SLOW_STOP: STOP_SECONDS},
            },
            "spec": {
                "schedulerName": "muster",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "a/b:1"}],
            },
        }
        path = f"/api/v1/namespaces/{namespace}/pods"
        with self._kube.client() as admin:
            admin.demand("POST", path, body)
        self._of_others.append(f"{path}/{name}")

    async def let_go(self, name):
        pod = (await self.pods())[name]
        self._patch(pod_path(pod), {"metadata": {"finalizers": None}})

    async def forget_events(self):
        """Something happens, and a server that was started again keeps nothing of before."""
        with self._kube.client() as admin:
            filler = {"metadata": {"generateName": "filler-"}}
            admin.demand("POST", f"/api/v1/namespaces/{RED}/configmaps", filler)
        await asyncio.to_thread(restart_api_server, self._kube)

    async def clean(self):
        """Leave nothing: quotas, finalizers, pods, unmanaged nodes."""
        with self._kube.client() as admin:
            for namespace in self._limited:
                admin.demand("DELETE", f"/api/v1/namespaces/{namespace}/resourcequotas/pods")
        for path in self._of_others:
            self._force_delete(path)
        for pod in (await self.pods()).values():
            if pod.finalizers:
                self._patch(pod_path(pod), {"metadata": {"finalizers": None}})
            self._force_delete(pod_path(pod))
        for name in self.nodes:
            self._patch(f"/api/v1/nodes/{name}", HEARD)
            await asyncio.to_thread(
                wait_until,
                functools.partial(self._node_is_ready, name),
                seconds=SECONDS,
                what=f"{name} ready",
            )

    def _node_is_ready(self, name: str) -> bool:
        return node_is_ready(self._kube, name)

    def _patch(self, path: str, body: dict[str, Any]) -> None:
        with self._kube.client() as admin:
            admin.demand("PATCH", path, body)

    def _force_delete(self, path: str) -> None:
        with self._kube.client() as admin:
            admin.request("DELETE", path, {"gracePeriodSeconds": 0})

    def _quotas_are_true(self) -> bool:
        """Whether what the quotas have counted is what is there; they follow after a while."""
        with self._kube.client() as admin:
            return all(_counted(admin, namespace) for namespace in self._limited)


NOT_READY = "kwok.muster.dev/not-ready"
ASKED = node_name(63)
HEARD = {"metadata": {"labels": {MANAGED: "simulated"}, "annotations": {NOT_READY: None}}}
SLOW_STOP = "kwok.muster.dev/slow-stop"


def node_is_ready(kube: KubeCluster, name: str) -> bool:
    with kube.client() as admin:
        conditions = admin.demand("GET", f"/api/v1/nodes/{name}")["status"]["conditions"]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def simulator_has_heard(kube: KubeCluster) -> None:
    """Return when it has seen what was written of nodes before: it does what is written now.

    It hears of nodes in the order in which they change.
    """
    path = f"/api/v1/nodes/{ASKED}"
    for text, ready in (("yes", False), (None, True)):
        with kube.client() as admin:
            admin.demand("PATCH", path, {"metadata": {"annotations": {NOT_READY: text}}})
        wait_until(
            lambda ready=ready: node_is_ready(kube, ASKED) == ready,  # type: ignore[misc]
            seconds=SECONDS,
            what=f"{ASKED} to be {'Ready' if ready else 'NotReady'}",
        )


def pod_path(pod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def choose_gpus(kube: KubeCluster, path: str, *uuids: str) -> None:
    """What a kubelet with a device plugin writes of a pod: the simulated one chooses nothing."""
    resources = [{"resourceID": one, "health": "Healthy"} for one in uuids]
    told = [{"name": "nvidia.com/gpu", "resources": resources}]
    with kube.client() as admin:
        container = admin.demand("GET", path)["status"]["containerStatuses"][0]
        status = {"containerStatuses": [container | {"allocatedResourcesStatus": told}]}
        admin.demand("PATCH", f"{path}/status", {"status": status})


def _counted(admin, namespace) -> bool:
    path = f"/api/v1/namespaces/{namespace}"
    quota = admin.demand("GET", f"{path}/resourcequotas/pods")
    used = quota.get("status", {}).get("used", {}).get("pods")
    selector = urllib.parse.quote("status.phase!=Succeeded,status.phase!=Failed")
    alive = admin.demand("GET", f"{path}/pods?fieldSelector={selector}")["items"]
    return bool(used == str(len(alive)))


def restart_api_server(kube: KubeCluster) -> None:
    """End it as a crash would, start it again with the same command, wait until it is ready."""
    kill_api_server(kube)()


def kill_api_server(kube: KubeCluster):
    """End it as a crash would; returns what starts it again and waits until it is ready."""
    noted = state.read(kube.folder)
    assert noted is not None
    pid = noted.running()["kube-apiserver"]
    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")[:-1]
    os.kill(pid, signal.SIGKILL)
    port = int(noted.server.rpartition(":")[2])
    wait_until(lambda: _is_free(port), seconds=10, what="the API server to end")

    def start() -> None:
        with (kube.folder / "logs" / "kube-apiserver.log").open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=kube.folder,
                env=dict(entry.split("=", 1) for entry in entries),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        noted.processes["kube-apiserver"] = identity(process.pid) or ""
        state.write(kube.folder, noted)
        wait_until(
            lambda: _is_ready(kube), seconds=RESTART_SECONDS, what="the API server to be ready"
        )

    return start


def _is_free(port: int) -> bool:
    """Whether one can listen there; the threads of a killed process outlive its first one."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _is_ready(kube: KubeCluster) -> bool:
    try:
        with kube.client() as admin:
            return admin.request("GET", READY)[0] == 200
    except OSError:
        return False


@asynccontextmanager
async def on_kubernetes(kube: KubeCluster, instance: str) -> AsyncIterator[KubeWorld]:
    """A world of its own on the run's cluster."""
    with kube.client() as admin:
        for namespace in (RED, BLUE):
            make_namespace(admin, namespace)
    cluster = KubernetesCluster(
        KubernetesSettings(config=str(kube.kubeconfig("binder")), instance=instance)
    )
    world = KubeWorld(cluster, kube, instance)
    try:
        yield world
    finally:
        await world.clean()
        await cluster.close()
