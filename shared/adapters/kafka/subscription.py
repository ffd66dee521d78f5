"""Subscriptions by `assign`, by aiokafka.

aiokafka's defaults would lose data (auto-commit, "latest"); each is set here. Offsets live in
PostgreSQL, so nothing is ever committed to Kafka. One consumer for each topic: a fetch that waits
for one quiet topic must not delay a busy one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

from shared.adapters.kafka.reading import TopicReader
from shared.adapters.topic_buffers import TopicBuffers
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from shared.ports.publisher import PartitionLog, RawMessage


class KafkaSubscription:
    """`ports.Subscription`: a reader for each topic, which all fill the same buffers."""

    def __init__(self, access: KafkaAccess, prefix: str, first: Collection[str] = ()) -> None:
        self._access = access
        self._prefix = prefix
        self._readers: dict[str, TopicReader] = {}
        self._buffers = TopicBuffers(first)
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._failures: dict[str, Exception] = {}
        """Why a topic is read no more."""
        self._delivered = 0

    async def assign(
        self, offsets: Mapping[tuple[str, int], int | None]
    ) -> Mapping[tuple[str, int], PartitionLog]:
        """Start a reader for each topic named; one that existed is replaced.

        Raises:
            Transient: a reader could not start; those that could read on until `close`.
        """
        by_topic: dict[str, dict[int, int | None]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, {})[partition] = offset
        await asyncio.gather(*map(self._end, by_topic))
        begun = (self._begin(topic, parts) for topic, parts in by_topic.items())
        logs: dict[tuple[str, int], PartitionLog] = {}
        # All are waited for: aiokafka leaves the connection of a start that is cancelled open.
        for found in await asyncio.gather(*begun, return_exceptions=True):
            if isinstance(found, BaseException):
                raise found
            logs |= found
        return logs

    async def _begin(
        self, topic: str, offsets: Mapping[int, int | None]
    ) -> dict[tuple[str, int], PartitionLog]:
        reader = TopicReader(self._access, self._prefix, topic, self)
        logs = await reader.begin(offsets)
        self._readers[topic] = reader
        return {(topic, partition): log for partition, log in logs.items()}

    async def _end(self, topic: str) -> None:
        reader = self._readers.pop(topic, None)
        if reader is not None:
            await reader.close()
        self._buffers.drop(topic)
        self._failures.pop(topic, None)

    def put(self, topic: str, messages: Sequence[RawMessage]) -> None:
        """A reader brings records."""
        self._buffers.put(topic, messages)
        self._arrived.set()

    async def room(self, topic: str) -> None:
        """A reader waits until more of its topic may be read ahead."""
        while self._buffers.full(topic):
            self._taken.clear()
            await self._taken.wait()

    def fail(self, topic: str, error: Exception) -> None:
        """A reader has ended."""
        self._failures[topic] = error
        self._arrived.set()

    def wait_for(self, topics: Collection[str]) -> None:
        """Nothing is given out before an older record of these."""
        self._buffers.wait_for(topics)

    async def poll(self, max_messages: int, wait_seconds: float) -> list[RawMessage]:
        """What has arrived; raises Transient when a consumer has failed.

        Not before what it had read is given out: the log may have lost that meanwhile.
        """
        if not self._buffers.ready:
            self._arrived.clear()
            if not self._failures:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await self._arrived.wait()
        for topic, error in self._failures.items():
            if topic not in self._buffers:
                raise Transient(f"consumer of {topic}: {type(error).__name__} {error}")
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
        """Records on the broker that have not been read into the buffer yet.

        Raises:
            Transient: nothing is read now, as a life begins, so it is not known.
        """
        if not self._readers:
            raise Transient("nothing is read now")
        return sum([await reader.behind() for reader in self._readers.values()])

    async def close(self) -> None:
        """Stop all readers."""
        await asyncio.gather(*map(self._end, list(self._readers)))
