"""Fakes of the store and the lease: the protocol of one service in dictionaries.

What PostgreSQL does in one statement happens here between two awaits: every check first, then
every effect, so a refused unit leaves nothing. `Write`s are recorded, not executed; a test says
which of them fail. They pass the same contract as the real ones (tests/contract).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from shared.adapters.clock import SystemClock
from shared.adapters.slots import SlotCheck, SlotHolder
from shared.events.envelope import Received
from shared.ports.clock import Clock
from shared.ports.errors import LeaseLost, MusterError, Rejected, Stale
from shared.ports.store import AuditRow, OutboxRow, Restored, Unit, Write

FIRST_MS: Final = 1_700_000_000_000


class ManualClock:
    """`ports.Clock` that moves when a test says so."""

    def __init__(self, now_ms: int = FIRST_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        """Unix time in milliseconds."""
        return self.ms

    def monotonic_seconds(self) -> float:
        """Seconds from an arbitrary start."""
        return self.ms / 1000

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.ms += round(seconds * 1000)


@dataclass(slots=True)
class MemoryShard:
    """The protocol rows of one shard."""

    epoch: int = 0
    holder: str = ""
    process: str = ""
    expires_at_ms: int = -1
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    topic_ids: dict[tuple[str, int], str] = field(default_factory=dict)
    inbox: dict[str, Received] = field(default_factory=dict)
    unit_of: dict[str, int] = field(default_factory=dict)
    """Number of the unit that consumed it, by event id."""
    outbox: list[OutboxRow] = field(default_factory=list)
    audits: list[AuditRow] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    acked_seq: int = 0
    next_seq: int = 1
    next_unit: int = 1


@dataclass(slots=True)
class MemoryDatabase:
    """All shards of one service, and what a test wants to go wrong."""

    clock: Clock = field(default_factory=SystemClock)
    shards: dict[str, MemoryShard] = field(default_factory=dict)
    refused: dict[str, MusterError] = field(default_factory=dict)
    """By SQL: what a unit with this `Write` raises."""
    rows_changed: dict[str, int] = field(default_factory=dict)
    """By SQL: how many rows a `Write` changes; what it expects unless named here."""
    tables: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    """By SQL: what `fetch` answers."""

    def shard(self, name: str) -> MemoryShard:
        """The rows of a shard, made on first sight."""
        return self.shards.setdefault(name, MemoryShard())

    async def fetch(self, sql: str, *_: Any) -> Sequence[Mapping[str, Any]]:  # noqa: ANN401  # any SQL value
        """Rows of a query; `ports.Reader`."""
        return self.tables.get(sql, [])


class MemoryLease:
    """`ports.Lease` on a `MemoryDatabase`."""

    def __init__(
        self,
        database: MemoryDatabase,
        shard: str,
        slot: str,
        *,
        time_to_live_seconds: float = 5.0,
        process: str = "",
    ) -> None:
        self.shard = shard
        self.slot = slot
        self.epoch = 0
        self._database = database
        self._ttl_ms = round(time_to_live_seconds * 1000)
        self._check = SlotCheck(slot, process)

    async def try_acquire(self) -> bool:
        """Take the shard if its holder is this slot or has expired; counts the epoch up."""
        row = self._database.shard(self.shard)
        now_ms = self._database.clock.now_ms()
        silent_seconds = (self._ttl_ms - (row.expires_at_ms - now_ms)) / 1000
        holder = SlotHolder(row.holder, row.process, silent_seconds)
        if row.expires_at_ms > now_ms and not self._check.may_take(holder):
            return False
        if row.holder != self.slot and row.expires_at_ms >= now_ms:
            self.epoch = 0
            return False
        row.epoch += 1
        row.holder, row.expires_at_ms = self.slot, now_ms + self._ttl_ms
        self.epoch = row.epoch
        return True

    async def renew(self) -> int:
        """Keep it for another time to live; raises LeaseLost when the epoch has moved on."""
        row = self._database.shard(self.shard)
        if row.epoch != self.epoch:
            raise LeaseLost(f"{self.shard}: epoch {self.epoch} is over")
        now_ms = self._database.clock.now_ms()
        row.expires_at_ms, row.process = now_ms + self._ttl_ms, self._check.process
        return now_ms

    async def release(self) -> None:
        """Let another slot take it at once."""
        row = self._database.shard(self.shard)
        if row.epoch == self.epoch:
            row.expires_at_ms = self._database.clock.now_ms() - 1


class MemoryStore:
    """`ports.Store` on a `MemoryDatabase`, fenced by the epoch of its lease."""

    def __init__(self, database: MemoryDatabase, lease: MemoryLease) -> None:
        self._database = database
        self._lease = lease

    async def restore(self) -> Restored:
        """Everything the new holder of the lease needs."""
        row = self._row()
        return Restored(
            epoch=self._lease.epoch,
            shard=self._lease.shard,
            offsets=dict(row.offsets),
            topic_ids=dict(row.topic_ids),
            unacked=[one for one in row.outbox if one.seq > row.acked_seq],
            next_seq=row.next_seq,
            acked_seq=row.acked_seq,
            next_unit=row.next_unit,
            next_audit=row.audits[-1].seq + 1 if row.audits else 1,
            last_digest=row.audits[-1].digest if row.audits else b"",
            recent_ids=sorted(row.inbox),
        )

    async def maintain(self) -> None:
        """Nothing is ever forgotten."""

    async def commit(self, unit: Unit) -> None:
        """All or nothing; see `ports.Store.commit` for the errors."""
        row = self._row()
        if row.epoch != self._lease.epoch:
            raise LeaseLost(f"epoch {row.epoch}, not {self._lease.epoch}")
        self._check(unit, row)
        self._apply(unit, row)

    def _check(self, unit: Unit, row: MemoryShard) -> None:
        ids = [one.event.id for one in unit.consumed]
        if len(set(ids)) < len(ids) or any(one in row.inbox for one in ids):
            raise Stale("inbox")
        numbers = {one.seq for one in row.outbox}
        if any(one.seq in numbers for one in unit.outbox):
            raise Rejected("outbox: the number is taken")
        if any("\x00" in one.key for one in unit.outbox):
            raise Rejected("outbox: NUL in a key")
        for write in unit.writes:
            if write.sql in self._database.refused:
                raise self._database.refused[write.sql]
            changed = self._database.rows_changed.get(write.sql, write.expect)
            if write.expect is not None and changed != write.expect:
                raise Stale(f"{write.expect} rows expected, {changed} changed")

    def _apply(self, unit: Unit, row: MemoryShard) -> None:
        for one in unit.consumed:
            row.inbox[one.event.id] = one
            row.unit_of[one.event.id] = unit.number
            if one.offset >= 0:
                _move(row, unit, (one.topic, one.partition), one.offset + 1)
        for topic, partition, offset in unit.skipped:
            _move(row, unit, (topic, partition), offset + 1)
        row.outbox.extend(replace(one) for one in unit.outbox)
        row.audits.extend(unit.audits)
        row.writes.extend(unit.writes)
        row.acked_seq = max(row.acked_seq, unit.acked_seq)
        row.next_seq = unit.outbox[-1].seq + 1 if unit.outbox else row.next_seq
        row.next_unit = unit.number + 1

    async def seen(self, event_ids: Sequence[str]) -> set[str]:
        """Those of `event_ids` that this shard has consumed."""
        return {one for one in event_ids if one in self._row().inbox}

    def _row(self) -> MemoryShard:
        return self._database.shard(self._lease.shard)


def _move(row: MemoryShard, unit: Unit, place: tuple[str, int], offset: int) -> None:
    """The offset rises in one topic, and begins anew in another one of the same name."""
    known, told = row.topic_ids.get(place), unit.topic_ids.get(place[0])
    same = known is None or told is None or known == told
    row.offsets[place] = max(row.offsets.get(place, 0), offset) if same else offset
    if told is not None:
        row.topic_ids[place] = told
