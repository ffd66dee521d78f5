"""API keys: `mk_<prefix>_<secret>`, of which only a keyed hash is stored.

A key has 256 random bits, so one keyed SHA-256 is enough (a slow hash would add nothing). The
ring keeps what it read for `FRESH_SECONDS` and never trusts anything older than
`TRUSTED_SECONDS`: a revocation takes effect everywhere within that time.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from services.gateway.http.authorisation import Role, Subject
from shared.ports.clock import Clock
from shared.ports.reader import Reader

FRESH_SECONDS: Final = 1.5
TRUSTED_SECONDS: Final = 4.0
REMEMBERED_MAX: Final = 20_000
LOOKUPS_MAX: Final = 4
SECRET_BYTES: Final = 32
PREFIX_BYTES: Final = 5
_FORM: Final = re.compile(r"mk_([a-z2-7]{8})_([A-Za-z0-9_-]{43})")
_SITE_FORM: Final = re.compile(r"[A-Za-z0-9_-]{40,128}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A row of `gateway.api_key`, without what only lists show."""

    prefix: str
    digest: bytes
    subject: Subject
    expires_at_ms: int | None
    revoked_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """A key as its owner gets to see it, once."""

    prefix: str
    text: str


def mint(random_bytes: Callable[[int], bytes]) -> NewKey:
    """A new key; `random_bytes` must be a cryptographic source."""
    prefix = base64.b32encode(random_bytes(PREFIX_BYTES)).decode().lower()
    secret = base64.urlsafe_b64encode(random_bytes(SECRET_BYTES)).decode().rstrip("=")
    return NewKey(prefix=prefix, text=f"mk_{prefix}_{secret}")


def prefix_of(text: str) -> str | None:
    """The public part of a well-formed key.

    A site may bring a secret of its own as the first operator's key (40 characters or more);
    its public part is then made of its hash.
    """
    match = _FORM.fullmatch(text)
    if match:
        return match[1]
    if text.startswith("mk_") or not _SITE_FORM.fullmatch(text):
        return None
    digest = hashlib.blake2b(text.encode(), digest_size=PREFIX_BYTES, person=b"muster key")
    return base64.b32encode(digest.digest()).decode().lower()


def digest_of(text: str, pepper: bytes) -> bytes:
    """What is stored: HMAC-SHA-256 of the whole key."""
    return hmac.digest(pepper, text.encode(), "sha256")


@dataclass(slots=True)
class _Entry:
    record: KeyRecord | None
    read_at_seconds: float


class KeyRing:
    """Recently used keys in memory; asks the database at most once at a time for each."""

    def __init__(self, reader: Reader, clock: Clock, pepper: bytes) -> None:
        self._reader = reader
        self._clock = clock
        self._pepper = pepper
        self._entries: dict[str, _Entry] = {}
        self._reading: dict[str, asyncio.Task[KeyRecord | None]] = {}
        self._lookups = asyncio.Semaphore(LOOKUPS_MAX)

    async def authenticate(self, text: str) -> Subject | None:
        """The subject of the key `text`, or None for a wrong, revoked or expired one.

        Raises:
            Transient: the database cannot be asked, and what is known is too old.
        """
        prefix = prefix_of(text)
        if prefix is None:
            return None
        record = await self._record(prefix)
        if record is None or not self._valid(record, text):
            return None
        return record.subject

    def forget(self, prefix: str) -> None:
        """Ask again at the next use: the key was made or revoked here."""
        self._entries.pop(prefix, None)

    def _valid(self, record: KeyRecord, text: str) -> bool:
        now_ms = self._clock.now_ms()
        expired = record.expires_at_ms is not None and record.expires_at_ms <= now_ms
        revoked = record.revoked_at_ms is not None
        same = hmac.compare_digest(record.digest, digest_of(text, self._pepper))
        return same and not expired and not revoked

    async def _record(self, prefix: str) -> KeyRecord | None:
        entry = self._entries.get(prefix)
        now = self._clock.monotonic_seconds()
        age = now - entry.read_at_seconds if entry else TRUSTED_SECONDS
        if entry is not None and age < FRESH_SECONDS:
            return entry.record
        reading = self._reading.get(prefix) or self._begin(prefix)
        if entry is not None and entry.record is not None and age < TRUSTED_SECONDS:
            return entry.record
        return await asyncio.shield(reading)

    def _begin(self, prefix: str) -> asyncio.Task[KeyRecord | None]:
        task = asyncio.create_task(self._read(prefix))
        self._reading[prefix] = task
        task.add_done_callback(lambda done: self._end(prefix, done))
        return task

    def _end(self, prefix: str, done: asyncio.Task[KeyRecord | None]) -> None:
        self._reading.pop(prefix, None)
        if not done.cancelled():
            done.exception()  # seen: every waiting task gets it too; there may be none

    async def _read(self, prefix: str) -> KeyRecord | None:
        asked_at = self._clock.monotonic_seconds()
        async with self._lookups:
            rows = await self._reader.fetch(
                "SELECT prefix, digest, team, role, label, expires_at_ms, revoked_at_ms"
                " FROM gateway.api_key WHERE prefix = $1",
                prefix,
            )
        record = None
        if rows:
            row = rows[0]
            record = KeyRecord(
                prefix=row["prefix"],
                digest=row["digest"],
                subject=Subject(
                    name=row["prefix"],
                    team=row["team"],
                    role=Role(row["role"]),
                    label=row["label"],
                ),
                expires_at_ms=row["expires_at_ms"],
                revoked_at_ms=row["revoked_at_ms"],
            )
        if len(self._entries) >= REMEMBERED_MAX:
            self._entries.clear()
        self._entries[prefix] = _Entry(record, asked_at)
        return record
