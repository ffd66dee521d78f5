"""The place of one set of nodes on this machine: a bridge with its addresses, and cgroups.

Several sets may run at once, each with a number of its own. A number is taken by creating its
bridge; a file in /run says whose it is, so that what a killed run left is removed by the next.
"""

import contextlib
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from deploy.local.cache import locked
from deploy.local.processes import MARK, LocalError, marked

PLACES_MAX: Final = 10
NETWORK_FIRST: Final = 120
"""Place N has the addresses 10.(120+N).0.0/16."""
NODE_FIRST: Final = 11
NOTES: Final = Path("/run/muster-kubelets")
LINKS: Final = Path("/sys/class/net")
CGROUPS: Final = Path("/sys/fs/cgroup")
REMOVE_SECONDS: Final = 20
POLL_SECONDS: Final = 0.1
CPU_SHARES: Final = 12 * 1024
"""The pods of a node weigh as much as twelve processes beside it, on cgroup v1. By default all of
them together weigh as much as one, and a busy machine starves them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Names and addresses of the set with this number."""

    number: int

    @property
    def bridge(self) -> str:
        """The name of the bridge."""
        return f"muster{self.number}"

    @property
    def prefix(self) -> str:
        """The first two numbers of every address."""
        return f"10.{NETWORK_FIRST + self.number}"

    @property
    def gateway(self) -> str:
        """The address of this machine, as nodes and pods reach it."""
        return f"{self.prefix}.0.1"

    def address(self, index: int) -> str:
        """The address of a node."""
        return f"{self.prefix}.0.{NODE_FIRST + index}"

    def pods(self, index: int) -> str:
        """The addresses of the pods of a node."""
        return f"{self.prefix}.{NODE_FIRST + index}.0/24"

    def link(self, index: int | Literal["*"]) -> str:
        """The end of a node's cable at the bridge; `*` for a pattern of all."""
        return f"{self.bridge}-{index}"

    def cgroup(self, index: int) -> str:
        """The cgroup, in every hierarchy, below which a node has its pods."""
        return f"muster-kubelet-{self.number}-{index}"

    def plug(self, index: int, pid: int) -> None:
        """Join the network namespace of a process to the bridge, and let its pods be reached."""
        ip("link", "add", self.link(index), "master", self.bridge, "up", "type", "veth",
           "peer", "name", "eth0", "netns", str(pid))  # fmt: skip
        ip("route", "replace", self.pods(index), "via", self.address(index), "dev", self.bridge)

    def make_cgroup(self, index: int) -> None:
        """Make the cgroup of a node, empty."""
        for hierarchy in hierarchies():
            (hierarchy / self.cgroup(index)).mkdir(exist_ok=True)
        cpuset = CGROUPS / "cpuset"
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (cpuset / name).exists():
                (cpuset / self.cgroup(index) / name).write_text((cpuset / name).read_text())
        weight = CGROUPS / "cpu" / self.cgroup(index) / "cpu.shares"
        if weight.exists():
            weight.write_text(str(CPU_SHARES))

    def clear(self, index: int) -> None:
        """Remove what a dead node has left: its cgroups, and its cable, which is cut late.

        Raises:
            LocalError: a cgroup still has processes.
        """
        ip("link", "delete", self.link(index), check=False)
        self._remove_cgroups(self.cgroup(index))

    def remove(self) -> None:
        """Remove bridge, cables and cgroups; their processes have ended.

        A connection that nobody closed keeps a dead node's network, and its cable, for minutes.

        Raises:
            LocalError: a cgroup still has processes.
        """
        for link in (self.bridge, *(path.name for path in LINKS.glob(self.link("*")))):
            ip("link", "delete", link, check=False)
        self._remove_cgroups(f"muster-kubelet-{self.number}-*")
        (NOTES / str(self.number)).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            NOTES.rmdir()

    def _remove_cgroups(self, pattern: str) -> None:
        for hierarchy in hierarchies():
            for group in hierarchy.glob(pattern):
                _remove_cgroup(group)


def take_place(folder: Path, home: str) -> Place:
    """A free number for the nodes of a folder; what dead ones left is removed first.

    `home`: the mark of its processes, by which it is known whether any of them lives.

    Raises:
        LocalError: all are taken, or no bridge can be made.
    """
    with locked(Path("/run/muster-kubelets.lock")):
        sweep()
        NOTES.mkdir(exist_ok=True)
        for place in map(Place, range(PLACES_MAX)):
            if not (LINKS / place.bridge).exists():
                (NOTES / str(place.number)).write_text(f"{folder}\n{home}")
                ip("link", "add", place.bridge, "type", "bridge")
                ip("address", "add", f"{place.gateway}/24", "dev", place.bridge)
                ip("link", "set", place.bridge, "up")
                return place
    raise LocalError(f"{PLACES_MAX} sets of kubelets run on this machine: end one (kubelet-down)")


def sweep() -> None:
    """Remove what is left of sets whose processes have all ended."""
    alive = {home for _, home in marked(MARK)}
    for note in sorted(NOTES.glob("*")):
        if note.read_text().partition("\n")[2] not in alive:
            Place(int(note.name)).remove()


def leftovers(folder: Path) -> list[str]:
    """Processes, mounts and places of nodes in a folder that are still there."""
    commands = {path: _command_line(path) for path in Path("/proc").glob("[0-9]*")}
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    return [
        *(f"{path}: {line}" for path, line in commands.items() if f"{folder}/" in line),
        *(line for line in mounts if f"{folder}/" in line),
        *(str(note) for note in NOTES.glob("*") if note.read_text().startswith(f"{folder}\n")),
    ]


def hierarchies() -> list[Path]:
    """The roots of all cgroup hierarchies: one, or with version 1 one for each controller."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return sorted(
        {path.resolve() for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists()}
    )


def ip(*arguments: str, check: bool = True) -> None:
    """Run `ip`.

    Raises:
        LocalError: it refuses.
    """
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise LocalError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def missing_programs() -> list[str]:
    """Packages with programs that a node needs of this machine, and that it lacks."""
    needed = {
        "ip": "iproute2",
        "unshare": "util-linux",
        "mount": "mount",
        "apt-get": "apt",
        "dpkg-deb": "dpkg",
    }
    return [package for program, package in needed.items() if shutil.which(program) is None]


def _command_line(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _remove_cgroup(group: Path) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS
    while group.exists():
        for path, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(path).rmdir()
        if group.exists() and time.monotonic() > deadline:
            raise LocalError(f"{group} still has processes after {REMOVE_SECONDS} s")
        if group.exists():
            time.sleep(POLL_SECONDS)
