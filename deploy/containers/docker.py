"""Calls of the `docker` command line; every failure is one sentence with the end of its output."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from deploy.local.processes import LocalError

COMPOSE_MIN = (2, 23, 1)
"""The first that takes `configs.content`."""
ANSWER_SECONDS = 20
CALL_SECONDS = 120
"""An engine that starts a crashed container again answers nothing about it until that is done."""
PULL_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Docker:
    """The command line with the variables that lead it to one engine."""

    variables: Mapping[str, str] = field(default_factory=dict)

    def call(self, *arguments: str, seconds: float = CALL_SECONDS) -> str:
        """What a command printed.

        Raises:
            LocalError: there is no such program, it failed, or took longer than `seconds`.
        """
        command = ["docker", *arguments]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except FileNotFoundError as error:
            raise LocalError("there is no docker command") from error
        except subprocess.TimeoutExpired as error:
            raise LocalError(f"{' '.join(command)} took longer than {seconds:.0f} s") from error
        if done.returncode != 0:
            raise LocalError(f"{' '.join(command)}: {done.stderr.strip()[-2000:]}")
        return done.stdout.strip()

    def succeeds(self, *arguments: str, seconds: float = CALL_SECONDS) -> bool:
        """Whether a command ended well."""
        try:
            self.call(*arguments, seconds=seconds)
        except LocalError:
            return False
        return True

    def answers(self) -> bool:
        """Whether an engine answers."""
        return shutil.which("docker") is not None and self.succeeds(
            "version", seconds=ANSWER_SECONDS
        )

    def has(self, image: str) -> bool:
        """Whether the engine has an image now."""
        return self.succeeds("image", "inspect", image)

    def require_image(self, image: str) -> None:
        """Pull an image unless it is there.

        Raises:
            LocalError: it is not there and cannot be pulled.
        """
        if not self.has(image):
            self.call("pull", "--quiet", image, seconds=PULL_SECONDS)

    def require_compose(self) -> None:
        """Check that Compose is there, and new enough.

        Raises:
            LocalError: it is not.
        """
        wanted = ".".join(map(str, COMPOSE_MIN))
        if not self.succeeds("compose", "version"):
            raise LocalError(f"docker compose is not there; {wanted} or newer is needed")
        told = self.call("compose", "version", "--short")
        if version_of(told) < COMPOSE_MIN:
            raise LocalError(f"docker compose {told} is too old; {wanted} or newer is needed")


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of a version: (2, 26, 1) of "v2.26.1-4"."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else ()
