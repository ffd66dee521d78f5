"""Seals of the audit: what the chain of digests has come to, told on a topic of its own (ADR 100).

A chain in one table proves nothing against a hand that computes it anew. So each shard tells the
number and digest of its newest row, from memory and not from the table, at most a second after
the row. `muster-ops check` (I7) compares rows with seals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shared.events.audits import AuditSealed
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import Topic
from shared.ports.store import AuditRow, OutboxRow

SEAL_SECONDS: Final = 1.0
"""So long a row may be without a seal while its process lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """The newest row of a chain; `sequence` 0 and no digest before the first."""

    sequence: int
    digest: bytes

    def after(self, rows: Sequence[AuditRow]) -> Chain:
        """The chain with these rows."""
        return Chain(sequence=rows[-1].seq, digest=rows[-1].digest) if rows else self


class Seals:
    """Of one shard of a service; a life begins with a seal of what it finds."""

    def __init__(self, source: str, shard: str, topic: Topic | None, partition: int) -> None:
        """Without a `topic` nothing is ever due: the service writes no audit."""
        self._source = source
        self._shard = shard
        self._topic = topic
        self._partition = partition
        self._sealed = 0
        self._sealed_at: float | None = None
        """Monotonic seconds."""

    def begin(self) -> None:
        """A new life: what is sealed is not known."""
        self._sealed, self._sealed_at = 0, None

    def due(self, chain: Chain, at_seconds: float, *, at_once: bool = False) -> bool:
        """Whether a row has waited for its seal long enough; `at_once`: whether any waits."""
        if self._topic is None or chain.sequence <= self._sealed:
            return False
        waited = self._sealed_at is None or at_seconds - self._sealed_at >= SEAL_SECONDS
        return at_once or waited

    def row(self, chain: Chain, seq: int, now_ms: int) -> OutboxRow:
        """The seal as row number `seq` of the outbox; only where one is due."""
        assert self._topic is not None
        payload = AuditSealed(
            shard=self._shard,
            sequence=chain.sequence,
            digest=chain.digest.hex(),
            count=chain.sequence - self._sealed,
        )
        event = Event(
            id=event_id(now_ms, f"seal {self._shard} {chain.sequence}", self._source, 0),
            type=NAME_BY_TYPE[AuditSealed],
            source=self._source,
            subject=self._shard,
            time_ms=now_ms,
            key=self._shard,
            payload=payload,
            sequence=seq,
        )
        return OutboxRow(
            seq=seq,
            event_id=event.id,
            topic=self._topic.name,
            partition=self._partition,
            key=event.key,
            headers=encode_headers(event),
            value=encode_payload(payload),
        )

    def sealed(self, chain: Chain, at_seconds: float) -> None:
        """A seal of `chain` is durable."""
        self._sealed, self._sealed_at = chain.sequence, at_seconds
