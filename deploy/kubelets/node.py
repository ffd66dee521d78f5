"""One node: what its container runtime and its kubelet are told, and its first process.

Everything of it lies in one folder, so that it is there again when the node comes back.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deploy.kube.control_plane import API_SERVICE
from deploy.kube.kubelet_access import AUTHORITY
from deploy.kubelets import images, packages
from deploy.kubelets.place import Place
from deploy.local.cache import CHECKOUT
from deploy.local.processes import LocalError, Program, descendants, wait_until

SCRIPT: Final = Path(__file__).with_name("node.sh")
START_SECONDS: Final = 20
STATE: Final = ("kubelet", "containerd", "cni")
"""Folders below /var/lib that a node has for itself."""
CONTAINERD_SOCKET: Final = "/run/containerd/containerd.sock"
CLUSTER_DOMAIN: Final = "cluster.local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a node is made from.

    `kubelet`: the folder of that program; `debian`: the folder of the unpacked packages;
    `control_plane`: the folder of kubeconfig files and certificates; `daemons`: commands that run
    on it; `labels` and `taints`: its own.
    """

    kubelet: Path
    debian: Path
    control_plane: Path
    daemons: Sequence[str]
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    environment: Mapping[str, str]


class Node:
    """A machine of the cluster, as far as a kubelet can tell."""

    def __init__(self, name: str, index: int, count: int, place: Place, needs: Needs) -> None:
        self.name = name
        self.folder = needs.control_plane / name
        self._index, self._count, self._place, self._needs = index, count, place, needs
        self._program = Program(
            name=name,
            command=[
                "unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
                "sh", str(SCRIPT), str(self.folder), place.address(index), place.gateway,
                API_SERVICE,
            ],
            log=self.folder / "node.log",
            environment={**needs.environment, "PATH": self._path()},
            folder=CHECKOUT,
        )  # fmt: skip

    @property
    def pid(self) -> int | None:
        """The process id of the node, as seen from outside, while it runs."""
        return self._program.pid

    def start(self) -> None:
        """Switch it on; what an earlier life left in its folder is there."""
        self._furnish()
        self._place.make_cgroup(self._index)
        self._program.start()
        wait_until(self._has_namespaces, seconds=START_SECONDS, what=f"{self.name} to start")
        self._place.plug(self._index, self._first_process())

    def kill(self) -> None:
        """Cut its power: everything on it ends at once."""
        self._program.kill()
        self._place.clear(self._index)

    def restart_kubelet(self) -> None:
        """End the kubelet by force; the node starts it again."""
        self.send_kubelet(signal.SIGKILL)

    def send_kubelet(self, number: signal.Signals) -> None:
        """Send a signal to the kubelet."""
        for pid in self._pids("kubelet"):
            os.kill(pid, number)

    def load(self, archive: Path) -> None:
        """Give it the images of a `docker save` archive.

        Raises:
            LocalError: its container runtime refuses.
        """
        socket = f"/proc/{self._first_process()}/root{CONTAINERD_SOCKET}"
        ctr = [
            str(self._needs.debian / packages.CTR),
            "--address",
            socket,
            "--namespace",
            "k8s.io",
        ]
        done = subprocess.run(
            [*ctr, "images", "import", str(archive)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise LocalError(f"{self.name} takes no image of {archive}: {done.stderr.strip()}")

    def _pids(self, program: str) -> list[int]:
        assert self._program.pid is not None
        found = descendants(self._program.pid)
        return [pid for pid in found if _command(pid) == program]

    def _first_process(self) -> int:
        assert self._program.pid is not None
        return descendants(self._program.pid)[0]

    def _has_namespaces(self) -> bool:
        """Whether the first process is in a network of its own."""
        if self._program.pid is None:
            raise LocalError(f"{self.name} ended at once:\n{self._program.last_lines()}")
        found = descendants(self._program.pid)
        return bool(found) and _network(found[0]) not in ("", _network(os.getpid()))

    def _path(self) -> str:
        return os.pathsep.join(
            [str(self._needs.kubelet), packages.search_path(self._needs.debian)]
        )

    def _furnish(self) -> None:
        for name in STATE:
            Path("/var/lib", name).mkdir(parents=True, exist_ok=True)
        for name in (*STATE, "log", "network"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        images.write_images(self._needs.debian / packages.BUSYBOX, self.folder / "images.tar")
        self._write("containerd.toml", _toml(self._containerd()))
        self._write("network/10-bridge.conflist", json.dumps(self._network(), indent=2))
        self._write("kubelet.json", json.dumps(self._kubelet(), indent=2))
        self._write("kubelet.arguments", *self._arguments())
        self._write("resolv.conf", f"nameserver {self._place.gateway}")
        self._write("daemons", *self._needs.daemons)
        others = [index for index in range(self._count) if index != self._index]
        place = self._place
        self._write("routes", *(f"{place.pods(one)} {place.address(one)}" for one in others))

    def _write(self, name: str, *lines: str) -> None:
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))

    def _containerd(self) -> Mapping[str, Mapping[str, Any]]:
        interface = "io.containerd.grpc.v1.cri"
        debian = self._needs.debian
        return {
            "": {
                "version": 2,
                "root": "/var/lib/containerd",
                "state": "/run/containerd",
                "disabled_plugins": [
                    "io.containerd.internal.v1.opt",  # it would write to /opt
                    "io.containerd.nri.v1.nri",
                ],
            },
            "grpc": {"address": CONTAINERD_SOCKET},
            f'plugins."{interface}"': {
                "sandbox_image": images.PAUSE,
                "enable_cdi": True,
                "cdi_spec_dirs": ["/run/cdi"],
                # Without CAP_SYS_RESOURCE no sandbox starts otherwise.
                "restrict_oom_score_adj": True,
            },
            f'plugins."{interface}".cni': {
                "bin_dir": str(debian / packages.PLUGINS),
                "conf_dir": str(self.folder / "network"),
            },
            f'plugins."{interface}".containerd.runtimes.runc': {
                "runtime_type": "io.containerd.runc.v2"
            },
            f'plugins."{interface}".containerd.runtimes.runc.options': {
                "BinaryName": str(debian / "usr/sbin/runc"),
                "SystemdCgroup": False,
            },
        }

    def _network(self) -> Mapping[str, Any]:
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": self._place.pods(self._index)}]],
            "routes": [{"dst": "0.0.0.0/0"}],  # any
            "dataDir": "/run/addresses",
        }
        bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "ipam": ipam}
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}

    def _kubelet(self) -> Mapping[str, Any]:
        authority = self._needs.control_plane / f"{AUTHORITY}.crt"
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "x509": {"clientCAFile": str(authority)},
            },
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._place.cgroup(self._index)}",
            "enforceNodeAllocatable": [],
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "clusterDNS": [self._place.gateway],
            "clusterDomain": CLUSTER_DOMAIN,
            "resolvConf": str(self.folder / "resolv.conf"),
            "volumePluginDir": str(self.folder / "volume-plugins"),
            # A full or busy disk of this machine is no business of the tests.
            "evictionHard": {
                "memory.available": "0%",
                "nodefs.available": "0%",
                "nodefs.inodesFree": "0%",
                "imagefs.available": "0%",
                "imagefs.inodesFree": "0%",
            },
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "1s",
            "nodeLeaseDurationSeconds": 8,
            "syncFrequency": "5s",
            "registerNode": True,
            "registerWithTaints": list(self._needs.taints),
        }

    def _arguments(self) -> list[str]:
        labels = ",".join(f"{key}={value}" for key, value in self._needs.labels.items())
        return [
            f"--config={self.folder / 'kubelet.json'}",
            f"--kubeconfig={self._needs.control_plane / f'{self.name}.kubeconfig'}",
            f"--cert-dir={self.folder / 'certificates'}",
            f"--hostname-override={self.name}",
            f"--node-ip={self._place.address(self._index)}",
            f"--node-labels={labels}",
        ]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _network(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""


def _toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """TOML of tables whose values are JSON's."""
    lines = []
    for name, values in tables.items():
        lines += [f"[{name}]"] if name else []
        lines += [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return "\n".join(lines)
