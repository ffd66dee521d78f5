"""Subscriptions by `assign`, by aiokafka.

aiokafka's defaults would lose data (auto-commit, "latest"); each is set here. Offsets live in
PostgreSQL, so nothing is ever committed to Kafka. One consumer for each topic: a fetch that waits
for one quiet topic must not delay a busy one (recipes.md 8).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from shared.adapters.kafka.client import REQUEST_TIMEOUT_MS, options, start, stop
from shared.adapters.topic_buffers import TopicBuffers
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from shared.ports.publisher import RawMessage

FETCH_BYTES: Final = 2 << 20
"""Of one partition in one answer."""
FETCH_WAIT_MS: Final = 500
POLL_RECORDS: Final = 500
ACCESS_SECONDS: Final = 5.0
CAREFUL_RECORDS: Final = 2_000
"""Records read one by one after one that could not be read."""


class KafkaSubscription:
    """`ports.Subscription`: one consumer and one pump task for each topic."""

    def __init__(self, access: KafkaAccess, prefix: str, first: Collection[str] = ()) -> None:
        self._access = access
        self._prefix = prefix
        self._consumers: dict[str, AIOKafkaConsumer] = {}
        self._pumps: dict[str, asyncio.Task[None]] = {}
        self._buffers = TopicBuffers(first)
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._failure: Exception | None = None
        self._delivered = 0

    async def assign(
        self, offsets: Mapping[tuple[str, int], int]
    ) -> Mapping[tuple[str, int], int]:
        """Start a consumer for each topic named; one that existed is replaced."""
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, {})[partition] = offset
        await asyncio.gather(*(self._end(topic) for topic in by_topic))
        for topic in by_topic:
            self._buffers.drop(topic)
        self._failure = None
        begun = (self._begin(topic, parts) for topic, parts in by_topic.items())
        ends: dict[tuple[str, int], int] = {}
        for topic, found in zip(by_topic, await asyncio.gather(*begun), strict=True):
            ends |= {(topic, partition): end for partition, end in found.items()}
        return ends

    async def _begin(self, topic: str, offsets: Mapping[int, int]) -> dict[int, int]:
        consumer = AIOKafkaConsumer(
            **options(self._access),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            max_partition_fetch_bytes=FETCH_BYTES,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            isolation_level="read_uncommitted",
            check_crcs=False,
        )
        name = f"{self._prefix}.{topic}"
        places = {partition: TopicPartition(name, partition) for partition in offsets}
        try:
            await start(consumer, self._access)
            consumer.assign(list(places.values()))
            ends = await self._ends(consumer, places.values())
        except BaseException:
            await stop(consumer)
            raise
        for partition, offset in offsets.items():
            consumer.seek(places[partition], offset)
        self._consumers[topic] = consumer
        self._pumps[topic] = asyncio.create_task(self._pump(topic, consumer, offsets))
        return {place.partition: end for place, end in ends.items()}

    async def _ends(
        self, consumer: AIOKafkaConsumer, places: Collection[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Whoever may not know of a topic would wait for its records for ever, and silently.

        Raises:
            Transient: its ends are not told.
        """
        try:
            async with asyncio.timeout(ACCESS_SECONDS):
                ends: dict[TopicPartition, int] = await consumer.end_offsets(places)
        except (KafkaError, TimeoutError) as error:
            (name,) = {place.topic for place in places}
            who = self._access.user or "nobody"
            raise Transient(
                f"consumer: nothing is told of {name}: there is no such topic, or {who} may not"
                f" read it ({type(error).__name__})"
            ) from error
        return ends

    async def _pump(
        self, topic: str, consumer: AIOKafkaConsumer, offsets: Mapping[int, int]
    ) -> None:
        """Move records into the buffers; stop reading ahead while these are full."""
        positions, careful = dict(offsets), 0
        try:
            while True:
                count = 1 if careful else POLL_RECORDS
                careful = max(0, careful - 1)
                try:
                    groups = await consumer.getmany(timeout_ms=1_000, max_records=count)
                except UnicodeDecodeError:
                    self._step_over(topic, consumer, positions, found=count == 1)
                    careful = CAREFUL_RECORDS
                    continue
                for place, records in groups.items():
                    self._deliver(topic, place.partition, records)
                    positions[place.partition] = records[-1].offset + 1
                while self._buffers.full(topic):
                    self._taken.clear()
                    await self._taken.wait()
        except (KafkaError, OSError, UnicodeDecodeError) as error:
            self._failure = error
            self._arrived.set()

    def _step_over(
        self, topic: str, consumer: AIOKafkaConsumer, positions: dict[int, int], *, found: bool
    ) -> None:
        """A header's name is not UTF-8, for which aiokafka gives up the whole batch.

        Go back and read one by one; the one that cannot be read then is passed on without
        content, to be a dead letter. Only teams can write such a record, to their own topic.
        """
        if len(positions) != 1:
            raise  # noqa: PLE0704  # called while the error is handled
        (partition,) = positions
        if found:
            unread = RawMessage(
                topic=topic,
                partition=partition,
                offset=positions[partition],
                headers=(),
                key=b"",
                value=b"",
            )
            self._buffers.put(topic, [unread])
            self._arrived.set()
            positions[partition] += 1
        consumer.seek(TopicPartition(f"{self._prefix}.{topic}", partition), positions[partition])

    def _deliver(self, topic: str, partition: int, records: Sequence[ConsumerRecord]) -> None:
        messages = (
            RawMessage(
                topic=topic,
                partition=partition,
                offset=record.offset,
                headers=record.headers,
                key=record.key or b"",
                value=record.value or b"",
                timestamp_ms=record.timestamp,
            )
            for record in records
        )
        self._buffers.put(topic, messages)
        self._arrived.set()

    async def poll(self, max_messages: int, wait_seconds: float) -> list[RawMessage]:
        """What has arrived; raises Transient when a consumer has failed."""
        if not self._buffers:
            self._arrived.clear()
            if self._failure is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await self._arrived.wait()
        if self._failure is not None:
            raise Transient(f"consumer: {self._failure}")
        messages = self._buffers.take(max_messages)
        self._taken.set()
        self._delivered += len(messages)
        return messages

    def delivered_since_last(self) -> int:
        """Records given out since this was asked last."""
        delivered, self._delivered = self._delivered, 0
        return delivered

    def wake(self) -> None:
        """Let a waiting `poll` return now."""
        self._arrived.set()

    async def behind(self) -> int:
        """Records on the broker that have not been read into the buffer yet."""
        total = 0
        for consumer in self._consumers.values():
            places = list(consumer.assignment())
            ends = await consumer.end_offsets(places)
            for place in places:
                total += max(0, ends[place] - await consumer.position(place))
        return total

    async def _end(self, topic: str) -> None:
        pump = self._pumps.pop(topic, None)
        if pump is not None:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
        consumer = self._consumers.pop(topic, None)
        if consumer is not None:
            await stop(consumer)

    async def close(self) -> None:
        """Stop all consumers."""
        topics = list(self._consumers)
        await asyncio.gather(*(self._end(topic) for topic in topics))
        for topic in topics:
            self._buffers.drop(topic)
