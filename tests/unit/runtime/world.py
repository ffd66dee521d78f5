"""The real loop and session on the fakes, with a handler that tells what it was given."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from msgspec.structs import replace

from shared.adapters.memory import ManualClock, MemoryDatabase, MemoryLease, MemoryStore
from shared.adapters.memory_log import MemoryLog, MemoryPublisher, MemorySubscription
from shared.events.envelope import Event, Received
from shared.events.quotas import NominationWithdrawn
from shared.events.registry import TYPE_BY_NAME
from shared.events.topics import QUOTA_FACTS, SUBMISSION_COMMANDS, Topic
from shared.events.workloads import Wire
from shared.ports.clock import Clock
from shared.ports.errors import MusterError, Rejected, Transient
from shared.ports.publisher import RawMessage
from shared.ports.store import OutboxRow, Restored, Unit, Write
from shared.runtime import loop as loop_module
from shared.runtime import polling
from shared.runtime.failpoints import Failpoints
from shared.runtime.handler import Change, Emit, Outcome
from shared.runtime.loop import Loop
from shared.runtime.newer_log import NewerLog
from shared.runtime.session import Session
from tests.support.protocol import a_record, an_event

SHARD = "cell-0"
POISON = "INSERT poison"
TOPIC = SUBMISSION_COMMANDS.name


def names(*numbers: int) -> list[str]:
    """Workloads of the messages `numbers`."""
    return [f"w{number}" for number in numbers]


class Telling:
    """Passes each message on, and remembers its calls. Workloads in `poison` cannot be stored."""

    name = "quota"

    def __init__(self) -> None:
        self.wanted: list[tuple[Topic, Sequence[int]]] = [(SUBMISSION_COMMANDS, [0])]
        self.poison: set[str] = set()
        self.raising: set[str] = set()
        """Workloads by which `decide` raises."""
        self.raises = 1_000
        """... so often."""
        self.batches: list[list[str]] = []
        self.loads = 0
        self.readable: list[type[Wire]] = list(TYPE_BY_NAME.values())
        self.suspended = 0
        self.deadlines: list[Received] = []
        """Rows of deadlines: due again after every load."""
        self.done: set[str] = set()

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        return self.wanted

    def reads(self) -> Sequence[type[Wire]]:
        return self.readable

    async def load(self, reader: Any) -> None:
        self.loads += 1
        self.done = set()

    async def suspend(self) -> None:
        self.suspended += 1

    async def prepare(self, messages: Sequence[Received], reader: Any) -> None:
        """Nothing to look up."""

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        self.batches.append([one.event.subject for one in messages])
        if self.raises and self.raising & {one.event.subject for one in messages}:
            self.raises -= 1
            raise KeyError("a bug")
        outcome = Outcome()
        for message in messages:
            subject = message.event.subject
            payload = NominationWithdrawn(workload_id=subject, nomination=1)
            outcome.emits.append(
                Emit(payload=payload, topic=QUOTA_FACTS, subject=subject, cause=message)
            )
            outcome.changes.append(
                Change(subject=subject, version=1, before="", after="passed", cause=message)
            )
            if subject in self.poison:
                outcome.writes.append(Write(POISON, (subject,), 1))
        return outcome

    def due(self, now_ms: int) -> Sequence[Received]:
        due = [one for one in self.deadlines if one.event.id not in self.done]
        self.done.update(one.event.id for one in due)
        return due

    def next_due_ms(self) -> int | None:
        return None


class FaultyStore:
    """Raises what `faults` says, one for each commit: before the effect, or after it."""

    def __init__(
        self, inner: MemoryStore, faults: list[MusterError | None], late: list[MusterError | None]
    ) -> None:
        self.seen = inner.seen
        self.maintained = 0
        self._inner = inner
        self._faults = faults
        self._late = late
        self.restored_ids_max: int | None = None

    async def restore(self) -> Restored:
        restored = await self._inner.restore()
        if self.restored_ids_max is not None:  # as many as PostgreSQL gives, the newest
            restored.recent_ids = restored.recent_ids[-self.restored_ids_max :]
            restored.recent_complete = False
        return restored

    async def maintain(self) -> None:
        self.maintained += 1
        if self.maintained == 1:
            raise Transient("the database is away")

    async def commit(self, unit: Unit) -> None:
        if self._faults and (fault := self._faults.pop(0)) is not None:
            raise fault
        await self._inner.commit(unit)
        if self._late and (fault := self._late.pop(0)) is not None:
            raise fault


class World:
    """One service on one log and one database; `begin` starts it, `end` stops it with grace."""

    def __init__(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(polling, "POLL_SECONDS", 0.01)
        monkeypatch.setattr(loop_module, "BACKOFF_SECONDS", 0.0)
        self.clock = ManualClock()
        self.machine: Clock = self.clock
        """The clock of the process; that of the database is `clock`."""
        self.log = MemoryLog(clock=self.clock)
        self.database = MemoryDatabase(clock=self.clock)
        self.database.refused[POISON] = Rejected("23514: poison")
        self.handler = Telling()
        self.publisher = MemoryPublisher(self.log)
        self.failpoints = Failpoints()
        self.faults: list[MusterError | None] = []
        self.late_faults: list[MusterError | None] = []
        self.restored_ids_max: int | None = None
        self.newer_log: NewerLog | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def shard(self) -> Any:
        return self.database.shard(SHARD)

    def session(self, slot: str = "a") -> Session:
        lease = MemoryLease(self.database, SHARD, slot)
        store = FaultyStore(MemoryStore(self.database, lease), self.faults, self.late_faults)
        store.restored_ids_max = self.restored_ids_max
        self.store = store
        return Session(
            source=self.handler.name,
            lease=lease,
            store=store,
            publisher=self.publisher,
            clock=self.machine,
            log=structlog.get_logger(),
            failpoints=self.failpoints,
        )

    def begin(self, batch: int = 500, *, exit_on_decision_error: bool = False) -> None:
        self.opened = self.session()
        self.loop = Loop(
            handler=self.handler,
            session=self.opened,
            reader=self.database,
            seen=self.store.seen,
            subscription=MemorySubscription(self.log),
            clock=self.machine,
            log=structlog.get_logger(),
            failpoints=self.failpoints,
            beats=self,
            batch_messages_max=batch,
            exit_on_decision_error=exit_on_decision_error,
            newer_log=self.newer_log,
        )
        self.task = asyncio.create_task(self.loop.run())

    def beat(self) -> None:
        """The loop is alive."""

    def feed(self, *events: Event, topic: str = TOPIC) -> None:
        """Lay events at the end of partition 0 of `topic`."""
        for event in events:
            self.feed_raw(a_record(event, 0, topic=topic))

    def feed_raw(self, record: RawMessage) -> None:
        """Lay one record at the end of its partition."""
        place = (record.topic, record.partition)
        partition = self.log.records.setdefault(place, [])
        partition.append(replace(record, offset=len(partition)))
        for listener in self.log.listeners:
            listener.set()

    def feed_numbers(self, *numbers: int) -> None:
        self.feed(*(an_event(number) for number in numbers))

    async def until(self, true: Callable[[], bool], seconds: float = 5) -> None:
        """Let the loop turn until something is so."""
        async with asyncio.timeout(seconds):
            while not true():
                assert self.task is None or not self.task.done(), self.task
                self.clock.advance(0.01)
                await asyncio.sleep(0.002)

    async def read_to(self, offset: int, topic: str = TOPIC) -> None:
        """Let the loop turn until everything below `offset` is settled and published."""
        await self.until(
            lambda: (
                self.shard.offsets.get((topic, 0), 0) >= offset
                and len(self.shard.outbox) <= len({*self.published_seqs()})
            )
        )

    async def end(self) -> None:
        if self.task is not None:
            self.loop.stop()
            await asyncio.wait_for(self.task, 10)

    def published_seqs(self) -> list[int]:
        """Outbox numbers in the log, found by their event ids."""
        by_value = {self._name(row.headers, row.value): row.seq for row in self.shard.outbox}
        return [
            by_value[self._name(one.headers, one.value)]
            for (topic, _), records in self.log.records.items()
            if topic != TOPIC and not topic.startswith("submission-")
            for one in records
            if self._name(one.headers, one.value) in by_value
        ]

    def _name(self, headers: Any, value: bytes) -> tuple[Any, bytes]:
        return tuple(headers), value

    def passed(self) -> Counter[str]:
        """Subjects with an effect in the database."""
        return Counter(row.subject for row in self.shard.audits)

    def out(self) -> list[str]:
        """Subjects of the facts in the log, in order."""
        return [one.key.decode() for one in self.log.records.get((QUOTA_FACTS.name, 0), [])]

    def letters(self, topic: str = TOPIC) -> list[dict[str, str]]:
        """Headers of the dead letters of `topic`."""
        return [
            {name: value.decode("latin-1") for name, value in one.headers}
            for one in self.log.records.get((f"{topic}.dlq", 0), [])
        ]


class SlowPublisher:
    """Publishes when `gate` is open, and fails as often as `failures` says, after some rows."""

    def __init__(self, log: MemoryLog) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.batches: list[list[int]] = []
        self.failures: list[MusterError] = []
        self._inner = MemoryPublisher(log)

    async def publish(self, rows: Sequence[OutboxRow]) -> None:
        self.batches.append([row.seq for row in rows])
        await self.gate.wait()
        if self.failures:
            await self._inner.publish(rows[: len(rows) // 2])
            raise self.failures.pop(0)
        await self._inner.publish(rows)

    async def close(self) -> None:
        """Nothing is held."""
