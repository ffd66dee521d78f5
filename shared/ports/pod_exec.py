"""The port to commands that are run in the containers of running pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class NoPod(Exception):  # noqa: N818  # says what there is
    """There is no container in which a command could run; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCommand:
    """A command and the pod in which it runs, without standard input and without a terminal."""

    workload_id: str
    attempt: int
    rank: int
    command: tuple[str, ...]


class Output(NamedTuple):
    """A piece of what the command writes; `stream` is stdout or stderr."""

    stream: str
    data: bytes


class CommandEnded(NamedTuple):
    """The command has ended: by its exit code, or None and why it could not run."""

    exit_code: int | None
    message: str = ""


class PodExec(Protocol):
    """Runs commands in pods of this Muster."""

    def run(
        self, request: ExecCommand
    ) -> AbstractAsyncContextManager[AsyncIterator[Output | CommandEnded]]:
        """What it writes as it comes, and last how it ended.

        Raises:
            NoPod: there is no such pod, or its container does not run.
            Transient: the cluster does not answer, or broke off before the end.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
