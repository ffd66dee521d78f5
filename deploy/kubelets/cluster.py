"""A control plane and its nodes, as one object.

Nodes have eight GPUs each (gpus.py).
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

from deploy.kube.api import ApiClient
from deploy.kube.control_plane import ControlPlane
from deploy.kube.kubelet_access import RealKubelets
from deploy.kube.programs import KUBELET, programs
from deploy.kubelets import api_service, gpus, packages
from deploy.kubelets.node import Needs, Node
from deploy.kubelets.place import Place, missing_programs, take_place
from deploy.local.cache import CHECKOUT
from deploy.local.processes import MARK, LocalError, Program, wait_until

READY_SECONDS: Final = 90
DNS: Final = "dns"
SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"


def obstacle() -> str:
    """Why no kubelet can run here, and what to do; "" where one can."""
    if os.geteuid() != 0:
        return "a kubelet needs root"
    missing = missing_programs()
    if shutil.which("openssl") is None:
        missing.append("openssl")
    if missing:
        return f"packages are missing: apt-get install {' '.join(dict.fromkeys(missing))}"
    if not _has_file_system("overlay"):
        return "the kernel has no overlayfs"
    return ""


def build() -> None:
    """Build and fetch everything that is kept between runs."""
    programs()
    programs(KUBELET)
    packages.unpacked()


class KubeletCluster:
    """See the module.

    Args:
        folder: everything of it; emptied at the start.
        home: the mark of every process, by which those of a killed run are found.
    """

    def __init__(self, folder: Path, *, home: str) -> None:
        self.folder = folder
        self._home = home
        self._environment = {MARK: home}
        self._place: Place | None = None
        self._control_plane: ControlPlane | None = None
        self._dns: Program | None = None
        self.nodes: dict[str, Node] = {}

    def kubeconfig(self, identity: str = "admin") -> Path:
        """The kubeconfig of an identity of the control plane."""
        return self.folder / f"{identity}.kubeconfig"

    def client(self, identity: str = "admin") -> contextlib.closing[ApiClient]:
        """A client, closed at the end of its `with`."""
        return contextlib.closing(ApiClient(self.kubeconfig(identity)))

    def start(self) -> None:
        """Start everything on an empty folder.

        Raises:
            LocalError: it cannot be built here or does not start; nothing is left.
        """
        reason = obstacle()
        if reason:
            raise LocalError(reason)
        kubelet, debian = programs(KUBELET), packages.unpacked()
        self._place = take_place(self.folder, self._home)
        try:
            self._start_control_plane(self._place)
            self._start_nodes(self._place, kubelet, debian)
            self.wait_ready()
            self._note()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything; nothing of it is left on the machine but the folder."""
        for node in self.nodes.values():
            node.kill()
        if self._dns:
            self._dns.stop()
        if self._control_plane:
            self._control_plane.stop()
        if self._place:
            self._place.remove()
            self._place = None

    def wait_ready(self, *names: str) -> None:
        """Return when these nodes, or all, are Ready with all their GPUs."""
        wanted = set(names or gpus.NAMES)
        wait_until(
            lambda: wanted <= self._usable(),
            seconds=READY_SECONDS,
            what=f"{', '.join(sorted(wanted))} to be Ready (logs: {self.folder}/NAME/log)",
        )

    def restart_kubelet(self, name: str) -> None:
        """End a kubelet by force; return when another one has the node Ready with its GPUs."""
        at = time.time()
        self.nodes[name].restart_kubelet()
        wait_until(
            lambda: self._heard_at(name) > at,
            seconds=READY_SECONDS,
            what=f"{name} to be heard of by another kubelet",
        )
        self.wait_ready(name)

    def _heard_at(self, name: str) -> int:
        """When the kubelet of a node last told how it is, in Unix seconds."""
        with self.client() as client:
            status = client.demand("GET", f"/api/v1/nodes/{name}")["status"]
        told = [one["lastHeartbeatTime"] for one in status["conditions"] if one["type"] == "Ready"]
        return max((int(datetime.fromisoformat(one).timestamp()) for one in told), default=0)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """No kubelet does anything meanwhile; a node is missed after 12 s."""
        self._send_kubelets(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send_kubelets(signal.SIGCONT)

    def _send_kubelets(self, number: signal.Signals) -> None:
        for node in self.nodes.values():
            node.send_kubelet(number)

    def _usable(self) -> set[str]:
        with self.client() as client:
            nodes = client.demand("GET", "/api/v1/nodes")["items"]
            slices = client.demand("GET", SLICES)["items"]
        return gpus.usable(nodes, slices)

    def _start_control_plane(self, place: Place) -> None:
        kubelets = RealKubelets(address=place.gateway, names=gpus.NAMES)
        self._control_plane = ControlPlane(
            self.folder, nodes=0, kubelets=kubelets, environment=self._environment
        )
        self._control_plane.start()
        command = [sys.executable, "-m", "deploy.kubelets.dns", "--address", place.gateway]
        self._dns = Program(
            name=DNS,
            command=[*command, "--kubeconfig", str(self.kubeconfig())],
            log=self.folder / "logs" / f"{DNS}.log",
            environment=self._environment,
            folder=CHECKOUT,
        )
        self._dns.start()

    def _start_nodes(self, place: Place, kubelet: Path, debian: Path) -> None:
        assert self._control_plane is not None
        way_to_api = api_service.command(self._control_plane.server)
        for index, name in enumerate(gpus.NAMES):
            needs = Needs(
                kubelet=kubelet,
                debian=debian,
                control_plane=self.folder,
                daemons=[gpus.daemon(name, self.kubeconfig(name)), way_to_api],
                labels=gpus.labels(name),
                taints=gpus.taints(name),
                environment=self._environment,
            )
            self.nodes[name] = Node(name, index, len(gpus.NAMES), place, needs)
        for node in self.nodes.values():
            node.start()

    def _note(self) -> None:
        assert self._control_plane is not None
        pids = {name: node.pid for name, node in self.nodes.items()}
        pids[DNS] = self._dns.pid if self._dns else None
        self._control_plane.note({name: pid for name, pid in pids.items() if pid is not None})


def _has_file_system(name: str) -> bool:
    return name in Path("/proc/filesystems").read_text().split()
