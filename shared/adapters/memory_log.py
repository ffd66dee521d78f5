"""Fakes of the broker: a log of topics, partitions and offsets in this process.

`MemoryLog.break_after` lets the next publishing fail in the middle, as a broker does: some rows
are written, and the publisher does not know which. Same contract as Kafka (tests/contract).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from shared.adapters.clock import SystemClock
from shared.adapters.topic_buffers import TopicBuffers
from shared.ports.clock import Clock
from shared.ports.errors import Transient
from shared.ports.publisher import PartitionLog, RawMessage
from shared.ports.store import OutboxRow

Place = tuple[str, int]


@dataclass(slots=True)
class MemoryLog:
    """Every record by (topic, partition), in order."""

    clock: Clock = field(default_factory=SystemClock)
    records: dict[Place, list[RawMessage]] = field(default_factory=dict)
    starts: dict[Place, int] = field(default_factory=dict)
    """Offset of the first record that is kept."""
    made: dict[str, int] = field(default_factory=dict)
    """How often a topic was made again."""
    listeners: list[asyncio.Event] = field(default_factory=list)
    break_after: int | None = None
    """Rows that are still written before publishing fails once; None: it works."""

    def append(self, row: OutboxRow) -> None:
        """Write one record at the end of its partition."""
        if self.break_after is not None:
            if self.break_after == 0:
                self.break_after = None
                raise Transient("the broker went away")
            self.break_after -= 1
        place = (row.topic, row.partition)
        partition = self.records.setdefault(place, [])
        partition.append(
            RawMessage(
                topic=row.topic,
                partition=row.partition,
                offset=len(partition),
                headers=tuple(row.headers),
                key=row.key.encode(),
                value=row.value,
                timestamp_ms=self.clock.now_ms(),
            )
        )
        self._tell()

    def _tell(self) -> None:
        for listener in self.listeners:
            listener.set()

    def recreate(self, topic: str) -> None:
        """Delete a topic with all its records, and make it again."""
        for place in [one for one in self.records if one[0] == topic]:
            del self.records[place]
            self.starts.pop(place, None)
        self.made[topic] = self.made.get(topic, 0) + 1
        self._tell()

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Remove the records below this offset, as retention does."""
        self.starts[topic, partition] = before
        self._tell()

    def look(self, place: Place) -> PartitionLog:
        """What the log of a partition is now."""
        return PartitionLog(
            topic_id=f"{place[0]}-{self.made.get(place[0], 0)}",
            start_offset=self.starts.get(place, 0),
            end_offset=len(self.records.get(place, [])),
        )


class MemoryPublisher:
    """`ports.Publisher` on a `MemoryLog`."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    async def publish(self, rows: Sequence[OutboxRow]) -> None:
        """Write `rows` in order; raises Transient when the log breaks, with some written."""
        await asyncio.sleep(0)
        for row in rows:
            self._log.append(row)

    async def close(self) -> None:
        """Nothing is held."""


class MemorySubscription:
    """`ports.Subscription` on a `MemoryLog`."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._positions: dict[Place, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._buffers = TopicBuffers()
        self._arrived = asyncio.Event()

    async def assign(self, offsets: Mapping[Place, int | None]) -> Mapping[Place, PartitionLog]:
        """Read the topics named from these offsets on; their logs of now."""
        logs = {place: self._log.look(place) for place in offsets}
        topics = {topic for topic, _ in offsets}
        kept = {place: at for place, at in self._positions.items() if place[0] not in topics}
        self._positions = kept | {
            place: logs[place].start_offset if at is None else at for place, at in offsets.items()
        }
        self._topic_ids |= {place[0]: log.topic_id for place, log in logs.items()}
        for topic in topics:
            self._buffers.drop(topic)
        if self._arrived not in self._log.listeners:
            self._log.listeners.append(self._arrived)
        return logs

    def wait_for(self, topics: Collection[str]) -> None:
        """Nothing is given out before an older record of these."""
        self._buffers.wait_for(topics)

    async def poll(self, max_messages: int, wait_seconds: float) -> list[RawMessage]:
        """What is there; waits for the first record if there is none.

        Raises:
            Transient: a topic is not the one that was assigned, or has no such offset.
        """
        self._arrived.clear()
        messages = self._take(max_messages)
        if not messages:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    await self._arrived.wait()
            messages = self._take(max_messages)
        return messages

    def _take(self, max_messages: int) -> list[RawMessage]:
        for place, position in self._positions.items():
            if self._cannot_read_on(place, position):
                if place[0] not in self._buffers:
                    raise Transient(f"consumer of {place[0]}: offset {position} is out of range")
                continue
            fresh = self._log.records.get(place, [])[position:]
            self._positions[place] = position + len(fresh)
            self._buffers.put(place[0], fresh)
        return self._buffers.take(max_messages)

    def _cannot_read_on(self, place: Place, position: int) -> bool:
        log = self._log.look(place)
        in_range = log.start_offset <= position <= log.end_offset
        return not in_range or log.topic_id != self._topic_ids[place[0]]

    def wake(self) -> None:
        """Let a waiting `poll` return now."""
        self._arrived.set()

    async def close(self) -> None:
        """Read nothing any more."""
        self._positions = {}
        with contextlib.suppress(ValueError):
            self._log.listeners.remove(self._arrived)
