"""docker-compose.yml on an engine: brought up as it is, looked at, broken, taken down."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from deploy.containers.docker import Docker
from deploy.local import compose
from deploy.local.cache import CHECKOUT
from deploy.local.processes import LocalError

UP_SECONDS = 480
DOWN_SECONDS = 120
PROJECT = "label=com.docker.compose.project=muster"
Json = dict[str, Any]


class Stack:
    """The project of the file; nothing is given to Compose but the file."""

    def __init__(self) -> None:
        self._docker = Docker()

    def compose(self, *arguments: str, seconds: float = 120) -> str:
        """Run `docker compose`; what it printed."""
        file = ["compose", "--file", str(compose.FILE), "--project-directory", str(CHECKOUT)]
        return self._docker.call(*file, *arguments, seconds=seconds)

    def up(self) -> None:
        """Bring everything up, of this checkout, and return when it says that all is healthy."""
        self.compose("up", "--build", "--wait", "--quiet-pull", seconds=UP_SECONDS)

    def down(self) -> None:
        """Take everything down, with its data."""
        self.compose("down", "--volumes", seconds=DOWN_SECONDS)

    def left(self) -> list[str]:
        """Containers, volumes and networks of the project."""
        kinds = [("ps", "--all"), ("volume", "ls"), ("network", "ls")]
        return [
            name
            for kind in kinds
            for name in self._docker.call(*kind, "--quiet", "--filter", PROJECT).split()
        ]

    def containers(self) -> dict[str, Json]:
        """What the engine says of each container, by the name of its service."""
        ids = self._docker.call("ps", "--all", "--quiet", "--filter", PROJECT).split()
        found = json.loads(self._docker.call("inspect", *ids))
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

    def crash(self, service: str) -> None:
        """End the first process of a service with SIGKILL, from outside of its container.

        `docker kill` would not do: what a person ended, a restart policy leaves alone.
        """
        one = self.containers()[service]
        privileges = ["--pid", "host", "--user", "0", "--entrypoint", "sh", "--network", "none"]
        kill = f"kill -9 {one['State']['Pid']}"
        self._docker.call("run", "--rm", *privileges, one["Config"]["Image"], "-c", kill)

    def healthy(self, service: str) -> bool:
        """Whether the engine calls a service healthy."""
        health: str = self.containers()[service]["State"]["Health"]["Status"]
        return health == "healthy"

    def came_back(self, service: str) -> bool:
        """Whether the engine has started a service again by itself, and it is well."""
        return self.containers()[service]["RestartCount"] == 1 and self.healthy(service)

    def logs(self) -> str:
        """The end of every log, for a failure."""
        try:
            return self.compose("logs", "--tail", "15")
        except LocalError as error:
            return str(error)


def eventually(check: Callable[[], bool], *, seconds: float, what: str) -> float:
    """Wait until something holds; the seconds it took."""
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < seconds, f"waited {seconds:.0f} s for {what}"
        time.sleep(0.5)
    return time.monotonic() - began
