"""A Docker engine of our own, for a command, on a machine without one: needs root and packages.

Its data lies in `engine-<hash>` of a cache outside the checkout, where the stand-in images stay
until what they are made of changes; everything else in it is removed before and after a command.
A lock keeps two commands from using it at once. What a killed run left, daemon and containers, is
ended by the next one.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy import debian
from deploy.containers import stand_ins
from deploy.containers.docker import Docker
from deploy.containers.stand_ins import STAND_INS, StandIn
from deploy.local.cache import locked, machine_cache_folder
from deploy.local.processes import (
    MARK,
    Program,
    end_orphans,
    wait_ready,
)

START_SECONDS = 60
STOP_SECONDS = 60
IMPORT_SECONDS = 300
BRIDGE = Path("/sys/class/net/docker0")
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
CGROUP = "muster-engine"
CGROUPS = Path("/sys/fs/cgroup")
CPU_CONTROLLER = CGROUPS / "cpu"
CPU_SHARES = 12 * 1024
"""The containers of the compose file weigh as much as twelve processes beside them. By default all
of them together weigh as much as one, and a busy machine starves the broker."""
INSTALL = "apt-get install --no-install-recommends"
PACKAGES = {"docker": "docker.io", "dockerd": "docker.io", "iptables": "iptables"}
COMPOSE = Path("usr/libexec/docker/cli-plugins/docker-compose")


def obstacle() -> str:
    """Why no engine can be started here, and what to do; "" where one can."""
    if os.geteuid() != 0:
        return "starting one needs root"
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    missing += stand_ins.missing_packages()
    if missing:
        return f"packages are missing: {INSTALL} {' '.join(dict.fromkeys(missing))}"
    return ""


class OwnEngine:
    """An engine whose images are stand-ins.

    Args:
        folder: everything of it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        name = f"engine-{stand_ins.fingerprint()}"
        self.folder = folder or machine_cache_folder() / name
        self._run = Path("/run") / f"muster-{name}"
        socket = self._run / "docker.sock"
        self.variables = {
            "DOCKER_HOST": f"unix://{socket}",
            "DOCKER_CONFIG": str(self.folder / "config"),
        }
        self._docker = Docker(self.variables)

    @contextlib.contextmanager
    def running(self) -> Iterator[Mapping[str, str]]:
        """Start it, make what is missing, and stop it at the end.

        Raises:
            LocalError: it does not start, or an image cannot be made.
        """
        bridged = BRIDGE.exists()
        with locked(self.folder.with_suffix(".lock")):
            daemon = self._start()
            try:
                self._make_images()
                self._clear()
                yield self.variables
                self._clear()
            finally:
                daemon.stop()
                self._sweep()
                self._tidy(bridged=bridged)

    def _start(self) -> Program:
        self._sweep()
        _weigh()
        _forward()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._run.mkdir(parents=True, exist_ok=True)
        settings = {
            "data-root": str(self.folder / "data"),
            "exec-root": str(self._run),
            "pidfile": str(self._run / "dockerd.pid"),
            "hosts": [self.variables["DOCKER_HOST"]],
            "cgroup-parent": f"/{CGROUP}",
        }
        (self.folder / "daemon.json").write_text(json.dumps(settings))
        daemon = Program(
            name="dockerd",
            command=["dockerd", "--config-file", str(self.folder / "daemon.json")],
            log=self.folder / "dockerd.log",
            environment={MARK: str(self.folder)},
            stop_seconds=STOP_SECONDS,
        )
        daemon.log.unlink(missing_ok=True)
        daemon.start()
        wait_ready(daemon, self._docker.answers, seconds=START_SECONDS)
        return daemon

    def _sweep(self) -> None:
        """End what is left of an engine in this folder: the daemon and the parents of containers.

        A container's own processes go with its parent's network and mounts at the next start.
        """
        end_orphans(self.folder)

    def _tidy(self, *, bridged: bool) -> None:
        """Remove what a daemon leaves outside its data: bridge, control groups, sockets."""
        if not bridged and BRIDGE.exists():
            subprocess.run(["ip", "link", "delete", BRIDGE.name], check=False)
        for group in CGROUPS.glob(f"*/{CGROUP}"):
            inside = sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
            for folder in (*inside, group):
                with contextlib.suppress(OSError):
                    folder.rmdir()
        shutil.rmtree(self._run, ignore_errors=True)

    def _clear(self) -> None:
        """Remove containers, networks and volumes; images stay."""
        containers = self._docker.call("ps", "--all", "--quiet").split()
        if containers:
            self._docker.call("rm", "--force", "--volumes", *containers, seconds=STOP_SECONDS)
        self._docker.call("network", "prune", "--force")
        volumes = self._docker.call("volume", "ls", "--quiet").split()
        if volumes:
            self._docker.call("volume", "rm", "--force", *volumes, seconds=STOP_SECONDS)

    def _make_images(self) -> None:
        plugin = self.folder / "config" / "cli-plugins" / "docker-compose"
        missing = [one for one in STAND_INS if not self._docker.has(one.image)]
        if not plugin.exists() and stand_ins.POSTGRES not in missing:
            missing.append(stand_ins.POSTGRES)  # the plugin comes from the same packages
        if not missing:
            return
        began = time.monotonic()
        print(f"making {len(missing)} images from packages, once: about 3 minutes", flush=True)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(self._make_image, missing))
        print(f"made in {time.monotonic() - began:.0f} s", flush=True)

    def _make_image(self, stand_in: StandIn) -> None:
        work = self.folder / "work" / stand_in.image.replace("/", "-").replace(":", "-")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        archive = work / "root.tar"
        stand_ins.build(stand_in, archive, work)
        for package in work.glob("*.deb"):
            self._install_compose(package, work / "unpacked")
        changes = [option for change in stand_in.changes for option in ("--change", change)]
        self._docker.call("import", *changes, str(archive), stand_in.image, seconds=IMPORT_SECONDS)
        shutil.rmtree(work)

    def _install_compose(self, package: Path, unpacked: Path) -> None:
        debian.unpack(package, unpacked)
        plugins = self.folder / "config" / "cli-plugins"
        plugins.mkdir(parents=True, exist_ok=True)
        shutil.copy(unpacked / COMPOSE, plugins)


def _forward() -> None:
    """Let packets pass between networks; a daemon that has to do so forbids it to all others."""
    FORWARDING.write_text("1")


def _weigh() -> None:
    """Give the containers their weight against other processes, on cgroup v1."""
    if not CPU_CONTROLLER.is_dir():
        return
    folder = CPU_CONTROLLER / CGROUP
    folder.mkdir(exist_ok=True)
    (folder / "cpu.shares").write_text(str(CPU_SHARES))
