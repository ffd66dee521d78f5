"""Reads topics from their end as it is now, for programs that watch what they cause."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, Self

from shared.adapters.kafka.client import options, start
from shared.adapters.kafka.unpacking import Unpacking
from shared.events.codec import Malformed, decode
from shared.events.envelope import Received
from shared.ports.kafka_access import KafkaAccess

POLL_MS: Final = 200
BATCH_MAX: Final = 2_000


class TopicTail:
    """Every event on `topics` (names without prefix) from when it was entered."""

    def __init__(self, access: KafkaAccess, prefix: str, topics: Sequence[str]) -> None:
        from aiokafka import AIOKafkaConsumer

        self._prefix = prefix
        self._topics = topics
        self._access = access
        self._consumer = AIOKafkaConsumer(
            **options(access),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=4 << 20,
        )
        Unpacking(self._consumer)

    async def __aenter__(self) -> Self:
        """Stand at the end of every partition."""
        await start(self._consumer, self._access)
        partitions = await self._partitions()
        self._consumer.assign(partitions)
        for one, end in (await self._consumer.end_offsets(partitions)).items():
            self._consumer.seek(one, end)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await self._consumer.stop()

    async def batches(self) -> AsyncIterator[list[tuple[Received, int]]]:
        """Events with the time (ms) at which the log took them; empty lists while it is quiet."""
        while True:
            found = await self._consumer.getmany(timeout_ms=POLL_MS, max_records=BATCH_MAX)
            batch = []
            for place, records in found.items():
                topic = place.topic.removeprefix(f"{self._prefix}.")
                batch += [one for record in records if (one := _decoded(topic, record))]
            yield batch

    async def _partitions(self) -> list[Any]:
        from aiokafka import TopicPartition
        from aiokafka.admin import AIOKafkaAdminClient

        admin = AIOKafkaAdminClient(**options(self._access))
        try:
            await start(admin, self._access)
            names = [f"{self._prefix}.{topic}" for topic in self._topics]
            described = await admin.describe_topics(names)
        finally:
            await admin.close()
        return [
            TopicPartition(topic["topic"], part["partition"])
            for topic in described
            for part in topic["partitions"]
        ]


def _decoded(topic: str, record: Any) -> tuple[Received, int] | None:  # noqa: ANN401  # untyped
    try:
        event = decode(topic, record.partition, record.offset, record.headers, record.value)
    except Malformed:
        return None
    return event, record.timestamp
