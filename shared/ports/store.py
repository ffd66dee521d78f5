"""The state store: one unit of work is one transaction (ADR 2).

A unit carries everything that must become true together. `Store.commit` makes it so or raises;
nothing in it is visible or published before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from shared.events.codec import Headers
from shared.events.envelope import Received


class OutboxRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event to publish; `seq` is dense for one (service, shard), so its order is commit order.

    `topic` is the name without prefix; `partition` the cell for topics keyed by cell.
    """

    seq: int
    event_id: str
    topic: str
    partition: int
    key: str
    headers: Headers
    value: bytes


class AuditRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One state version of one subject: actor, change and cause. Chained by digest."""

    seq: int
    event_id: str
    subject: str
    version: int
    kind: str
    before: str
    after: str
    actor: str
    at_ms: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Write:
    """One SQL statement of a service's own tables: placeholders are `{0}`, `{1}`, ...

    It must be an INSERT, UPDATE or DELETE ending in `RETURNING ...`, or a SELECT of a function.
    With `expect`, any other number of returned rows means that the state was stale.
    """

    sql: str
    arguments: tuple[Any, ...]
    expect: int | None = None


@dataclass(slots=True, kw_only=True)
class Unit:
    """Everything that one batch makes true. `consumed` gives inbox rows and offsets."""

    consumed: Sequence[Received] = ()
    skipped: Sequence[tuple[str, int, int]] = ()
    """(topic, partition, offset) of duplicates and dead letters: only the offset moves.

    -1 notes that the topic is read from 0 on."""
    outbox: Sequence[OutboxRow] = ()
    audits: Sequence[AuditRow] = ()
    writes: Sequence[Write] = ()
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    """By topic, the id of the topic in which these offsets count; without one it is not known.

    An offset falls only where the row has another id than this."""
    acked_seq: int = 0
    """Highest seq below which the broker has acknowledged everything."""
    number: int = 0
    """Counts the units of a shard; with the order inside it, decisions can be replayed."""
    at_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Restored:
    """What a shard's next holder starts from."""

    epoch: int
    shard: str = ""
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    """Next offset to read by (topic, partition)."""
    topic_ids: dict[tuple[str, int], str] = field(default_factory=dict)
    """Id of the topic in which that offset counts; without one it is not known."""
    unacked: list[OutboxRow] = field(default_factory=list)
    next_seq: int = 1
    acked_seq: int = 0
    next_unit: int = 1
    next_audit: int = 1
    last_digest: bytes = b""
    recent_ids: list[str] = field(default_factory=list)
    recent_complete: bool = True
    """False when older inbox rows exist than the ids given."""


class Store(Protocol):
    """Protocol rows of one (service, shard) under its lease."""

    async def restore(self) -> Restored:
        """Everything the holder of the lease needs to go on."""
        ...

    async def maintain(self) -> None:
        """Forget protocol rows that are old, and make room for those of the coming days.

        Raises:
            Transient: the database cannot be reached; ask again.
        """
        ...

    async def commit(self, unit: Unit) -> None:
        """Make the unit true, all or nothing.

        Raises:
            Stale: lease epoch, inbox or a row version is not what was seen; reload.
            Transient: try the same again.
            UnknownCommit: it may or may not be true; reload.
            Rejected: the database refuses the content; the batch must be halved.
        """
        ...

    async def seen(self, event_ids: Sequence[str]) -> set[str]:
        """Those of `event_ids` that are in the inbox."""
        ...
