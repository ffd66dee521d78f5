"""The port to what the containers of pods have written."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class LogsMissing(StrEnum):
    """Why there are no logs."""

    NOT_KEPT = "not-kept"
    """This cluster keeps none of any pod."""
    NOT_STARTED = "not-started"
    """The container has not started yet; it may in a moment."""
    GONE = "gone"
    """The pod is deleted, or its logs are."""


class NoLogs(Exception):  # noqa: N818  # says what there is
    """There is nothing to read; the text says what to do."""

    def __init__(self, missing: LogsMissing, message: str) -> None:
        super().__init__(message)
        self.missing = missing


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """What is wanted of one pod.

    `follow`: until the container ends. `tail_lines`, `since_seconds`: None for no limit.
    `bytes_max`: most bytes in all.
    """

    workload_id: str
    attempt: int
    rank: int = 0
    follow: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    bytes_max: int


class PodLogs(Protocol):
    """Reads what pods of this Muster have written."""

    def read(self, request: LogRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Pieces as they come; nothing is kept of them.

        Raises:
            NoLogs: there are none.
            Transient: the cluster does not answer, or broke off.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
