"""Reads one topic ahead of its receiver: a consumer and the task that empties it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Collection, Mapping
from typing import Final, Protocol

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    KafkaError,
    UnknownTopicOrPartitionError,
    UnsupportedCodecError,
)
from aiokafka.structs import ConsumerRecord

from shared.adapters.kafka.client import (
    REQUEST_TIMEOUT_MS,
    WHERE_LOST,
    does_not_know,
    options,
    start,
    stop,
)
from shared.adapters.kafka.topic_ids import topic_id
from shared.adapters.kafka.unpacking import Unpacking
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from shared.ports.publisher import PartitionLog, RawMessage

FETCH_BYTES: Final = 2 << 20
"""Of one partition in one answer."""
FETCH_WAIT_MS: Final = 500
POLL_RECORDS: Final = 500
ACCESS_SECONDS: Final = 5.0
UNKNOWN_SECONDS: Final = 0.1
"""Before a broker that does not know the topic is asked again."""
TOPIC_ID_SECONDS: Final = 5.0
"""Between two looks at the id of a topic that is read."""
AGAIN_SECONDS: Final = 1.0
"""The same after a broker did not tell it."""
CAREFUL_RECORDS: Final = 2_000
"""Records read one by one after one that could not be read."""
UNREADABLE: Final = (
    CorruptRecordException,
    UnsupportedCodecError,
    ValueError,  # a name of a header that is not UTF-8, among others
    IndexError,
    struct.error,
)
"""What aiokafka raises for a record itself; it gives up the whole batch."""


class Receiver(Protocol):
    """The receiver of what is read."""

    def put(self, topic: str, messages: list[RawMessage]) -> None:
        """Records in the order of their log."""
        ...

    async def room(self, topic: str) -> None:
        """Returns when more may be read ahead."""
        ...

    def fail(self, topic: str, error: Exception) -> None:
        """The consumer has ended."""
        ...


class TopicReader:
    """Partitions of one topic from given offsets on, until `close`."""

    def __init__(self, access: KafkaAccess, prefix: str, topic: str, receiver: Receiver) -> None:
        self._access = access
        self._topic = topic
        self._name = f"{prefix}.{topic}"
        self._receiver = receiver
        self._positions: dict[int, int] = {}
        self._topic_id = ""
        self._id_asked_at = 0.0
        """Seconds of the event loop."""
        self._pump: asyncio.Task[None] | None = None
        self._consumer = AIOKafkaConsumer(
            **options(access),
            enable_auto_commit=False,
            auto_offset_reset="none",  # what is not in the log any more is never passed over
            fetch_max_wait_ms=FETCH_WAIT_MS,
            max_partition_fetch_bytes=FETCH_BYTES,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            isolation_level="read_uncommitted",
            check_crcs=False,
        )
        self._unpacking = Unpacking(self._consumer)

    async def begin(self, offsets: Mapping[int, int | None]) -> dict[int, PartitionLog]:
        """Read from these offsets by partition, None: from the first record; their logs of now.

        Raises:
            Transient: the broker is away, or tells nothing of the topic.
        """
        places = {partition: self._place(partition) for partition in offsets}
        try:
            await start(self._consumer, self._access)
            self._consumer.assign(list(places.values()))
            logs = await self._logs(places.values())
        except BaseException:
            await stop(self._consumer)
            raise
        self._positions = {
            partition: logs[partition].start_offset if offset is None else offset
            for partition, offset in offsets.items()
        }
        for partition, position in self._positions.items():
            self._consumer.seek(places[partition], position)
        self._pump = asyncio.create_task(self._read())
        return logs

    async def _logs(self, places: Collection[TopicPartition]) -> dict[int, PartitionLog]:
        """The logs of `places`; without access a consumer would wait for ever, and silently.

        The id comes first: offsets of a topic that is made again in this moment are then taken
        for the old one's, and `_check_topic` finds the new id.

        Raises:
            Transient: nothing is told of them.
        """
        try:
            async with asyncio.timeout(ACCESS_SECONDS):
                self._topic_id = await self._first_topic_id()
                self._id_asked_at = asyncio.get_running_loop().time()
                starts = await self._consumer.beginning_offsets(places)
                ends = await self._consumer.end_offsets(places)
        except (KafkaError, TimeoutError) as error:
            who = self._access.user or "nobody"
            raise Transient(
                f"consumer: nothing is told of {self._name}: there is no such topic, or {who} may"
                f" not read it ({type(error).__name__}); {WHERE_LOST}"
            ) from error
        return {
            place.partition: PartitionLog(
                topic_id=self._topic_id, start_offset=starts[place], end_offset=ends[place]
            )
            for place in places
        }

    async def _first_topic_id(self) -> str:
        """Its id; a topic that was just made is not known to every broker at once."""
        while True:
            try:
                return await topic_id(self._consumer, self._name)
            except UnknownTopicOrPartitionError:
                await asyncio.sleep(UNKNOWN_SECONDS)

    async def _read(self) -> None:
        """Hand on what comes; stop reading ahead while there is no room."""
        careful = 0
        try:
            while True:
                count = 1 if careful else POLL_RECORDS
                careful = max(0, careful - 1)
                try:
                    groups = await self._consumer.getmany(timeout_ms=1_000, max_records=count)
                except UNREADABLE as error:
                    self._step_over(error, found=count == 1)
                    careful = CAREFUL_RECORDS
                    continue
                for place, records in groups.items():
                    self._hand_on(place.partition, records)
                await self._receiver.room(self._topic)
                await self._check_topic()
        except (KafkaError, OSError, Transient, *UNREADABLE) as error:
            self._receiver.fail(self._topic, error)

    async def _check_topic(self) -> None:
        """A topic made again in its place would be read on at the offset of the old one.

        Raises:
            Transient: it has another id than at the beginning, is not there any more, or the
                broker does not know the user that has read from it.
        """
        now = asyncio.get_running_loop().time()
        if now - self._id_asked_at < TOPIC_ID_SECONDS:
            return
        self._id_asked_at = now
        try:
            async with asyncio.timeout(ACCESS_SECONDS):
                found = await topic_id(self._consumer, self._name)
        except UnknownTopicOrPartitionError as error:
            raise Transient(f"there is no topic {self._name} any more; {WHERE_LOST}") from error
        except (KafkaError, OSError, TimeoutError) as error:
            if await does_not_know(self._access):
                who = self._access.user
                raise Transient(f"the broker does not know {who}; {WHERE_LOST}") from error
            self._id_asked_at -= TOPIC_ID_SECONDS - AGAIN_SECONDS  # a broker that is away
            return
        if found != self._topic_id:
            raise Transient(f"{self._name} was deleted and made again")

    def _step_over(self, error: Exception, *, found: bool) -> None:
        """Go back and read one by one; the one that cannot be read then is passed on empty.

        Where a topic has several partitions the one of the record is unknown. Only teams can
        write such a record, to the one partition of their own topic.
        """
        if len(self._positions) != 1:
            raise error
        ((partition, position),) = self._positions.items()
        if found:
            reason = f"record: cannot be read ({type(error).__name__}: {str(error)[:200]})"
            self._receiver.put(self._topic, [self._unread(partition, position, reason)])
            position += 1
        self._positions[partition] = position
        self._consumer.seek(self._place(partition), position)

    def _hand_on(self, partition: int, records: list[ConsumerRecord]) -> None:
        self._receiver.put(self._topic, [self._message(partition, one) for one in records])
        self._positions[partition] = records[-1].offset + 1

    def _message(self, partition: int, record: ConsumerRecord) -> RawMessage:
        return RawMessage(
            topic=self._topic,
            partition=partition,
            offset=record.offset,
            headers=record.headers,
            key=record.key or b"",
            value=record.value or b"",
            timestamp_ms=record.timestamp,
            unreadable=self._unpacking.take_reason(partition, record.offset),
        )

    def _unread(self, partition: int, offset: int, reason: str) -> RawMessage:
        return RawMessage(
            topic=self._topic,
            partition=partition,
            offset=offset,
            headers=(),
            key=b"",
            value=b"",
            unreadable=reason,
        )

    def _place(self, partition: int) -> TopicPartition:
        return TopicPartition(self._name, partition)

    async def behind(self) -> int:
        """Records on the broker that were not handed on yet."""
        places = list(self._consumer.assignment())
        ends = await self._consumer.end_offsets(places)
        return sum(
            [max(0, ends[place] - await self._consumer.position(place)) for place in places]
        )

    async def close(self) -> None:
        """Read no more."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        await stop(self._consumer)
