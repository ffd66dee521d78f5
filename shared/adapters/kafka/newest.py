"""The newest number that a producer has written to a partition, from the last records there."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from shared.adapters.kafka.client import REQUEST_TIMEOUT_MS, options, start, stop
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess

LAST_RECORDS: Final = 20
"""Looked at of each partition: others may write there, too ..."""
LAST_RECORDS_OF_ONE: Final = 200
"""... and so many for one subject, beside those of the other processes of a service."""
READ_MS: Final = 500
READS_MAX: Final = 20
SOURCE: Final = "ce_source"
SEQUENCE: Final = "ce_sequence"
SUBJECT: Final = "ce_subject"

Place = tuple[str, int]
"""Topic and partition."""


class KafkaNewest:
    """`ports.NewestWritten` on one broker."""

    def __init__(self, access: KafkaAccess, prefix: str) -> None:
        self._access = access
        self._prefix = prefix

    async def newest(
        self, places: Collection[Place], source: str, subject: str = ""
    ) -> dict[Place, int]:
        """See the port."""
        consumer = AIOKafkaConsumer(
            **options(self._access),
            enable_auto_commit=False,
            auto_offset_reset="none",
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        await start(consumer, self._access)
        try:
            return await self._read(consumer, places, source, subject)
        except KafkaError as error:
            raise Transient(f"the newest records of {source}: {error!r}") from error
        finally:
            await stop(consumer)

    async def _read(
        self, consumer: AIOKafkaConsumer, places: Collection[Place], source: str, subject: str
    ) -> dict[Place, int]:
        there = await consumer.topics()
        named = {TopicPartition(f"{self._prefix}.{one[0]}", one[1]): one for one in places}
        names = {place: one for place, one in named.items() if place.topic in there}
        if not names:
            return {}
        ends = await _seek(consumer, list(names), LAST_RECORDS_OF_ONE if subject else LAST_RECORDS)
        found: dict[Place, int] = {}
        for _ in range(READS_MAX):
            left = [place for place, end in ends.items() if await consumer.position(place) < end]
            if not left:
                return found
            records = await consumer.getmany(*left, timeout_ms=READ_MS)
            for place, some in records.items():
                newest = max(_numbers(some, source.encode(), subject.encode()), default=-1)
                if newest >= 0:
                    name = names[place]
                    found[name] = max(found.get(name, 0), newest)
        raise Transient(f"the newest records of {source}: the broker does not send them")


async def _seek(
    consumer: AIOKafkaConsumer, places: list[TopicPartition], records: int
) -> dict[TopicPartition, int]:
    """Go to the last records; the ends of the partitions."""
    consumer.assign(places)
    begins = await consumer.beginning_offsets(places)
    ends: dict[TopicPartition, int] = await consumer.end_offsets(places)
    for place, end in ends.items():
        consumer.seek(place, max(begins[place], end - records))
    return ends


def _numbers(records: Iterable[ConsumerRecord], source: bytes, subject: bytes) -> Iterable[int]:
    for one in records:
        headers = dict(one.headers)
        number = headers.get(SEQUENCE, b"")
        if headers.get(SOURCE) != source or subject not in {b"", headers.get(SUBJECT)}:
            continue
        if number.isdigit():
            yield int(number)
