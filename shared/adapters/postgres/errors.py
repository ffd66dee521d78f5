"""What a database error means for a unit of work (ADR 2).

Only content can be a message's fault: data that does not fit a type or a constraint, and what our
own functions raise. A missing right, table or login is the installation's: it ends the life, and
is told until it is mended. Source: PostgreSQL 15, appendix A.
"""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Iterator
from typing import Final

import asyncpg

from shared.ports.errors import LeaseLost, MusterError, Rejected, Stale, Transient, UnknownCommit

LEASE_LOST: Final = "MU001"
STALE: Final = "MU002"
_OF_CONTENT: Final = ("22", "23", "P0")
"""Data exception, violation of a constraint, error raised in PL/pgSQL."""
_ADVICE: Final = {
    "42501": "give this role its rights: run the migrations (migrations/rights.py)",
    "42P01": "run the migrations",
    "42703": "run the migrations",
    "42883": "run the migrations",
    "3F000": "run the migrations",
    "28000": "look at MUSTER_DATABASE_URL and pg_hba.conf",
    "28P01": "look at the password in MUSTER_DATABASE_URL",
    "3D000": "look at the database in MUSTER_DATABASE_URL",
}


def classify(error: Exception) -> MusterError:
    """The kind of `error`; a lost connection means that a commit may have happened."""
    if isinstance(error, asyncpg.PostgresError):
        return _by_state(error.sqlstate or "", error)
    if isinstance(error, ssl.SSLCertVerificationError):  # a ValueError, and no content's fault
        return Transient(f"{error}: look at sslmode and sslrootcert in MUSTER_DATABASE_URL")
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
    if state[:2] in _OF_CONTENT:
        return Rejected(text)
    advice = _ADVICE.get(state)
    return Transient(f"{text}: {advice}" if advice else text)


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
