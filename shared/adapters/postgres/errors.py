"""What a database error means for a unit of work (design.md 2, Errors)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import asyncpg

from shared.ports.errors import LeaseLost, MusterError, Rejected, Stale, Transient, UnknownCommit

LEASE_LOST: Final = "MU001"
STALE: Final = "MU002"
_TRANSIENT_CLASSES: Final = ("08", "40", "53", "55", "57")
_TRANSIENT_STATES: Final = frozenset({"25P03", "25006"})


def classify(error: Exception) -> MusterError:
    """The kind of `error`; a lost connection means that a commit may have happened."""
    if isinstance(error, asyncpg.PostgresError):
        return _by_state(error.sqlstate or "", error)
    if isinstance(error, (asyncpg.DataError, OverflowError, ValueError)):
        return Rejected(str(error))
    return UnknownCommit(f"{type(error).__name__}: {error}")


def _by_state(state: str, error: asyncpg.PostgresError) -> MusterError:
    text = f"{state}: {error}"
    if state == LEASE_LOST:
        return LeaseLost(text)
    if state == STALE:
        return Stale(text)
    if state == "23505" and "inbox" in (error.constraint_name or ""):
        return Stale(text)
    if state[:2] in ("08", "57"):
        return UnknownCommit(text)
    if state[:2] in _TRANSIENT_CLASSES or state in _TRANSIENT_STATES:
        return Transient(text)
    return Rejected(text)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raise errors of the driver and the network as errors of the ports."""
    try:
        yield
    except (
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,  # the connection was cut at an odd moment
        OSError,
        TimeoutError,
        OverflowError,
        ValueError,
    ) as error:
        raise classify(error) from error
