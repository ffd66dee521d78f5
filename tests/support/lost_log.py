"""What happens to a topic: it is deleted and made again, or its first records are removed."""

from __future__ import annotations

import asyncio
import time

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete

from shared.adapters.kafka.client import options, start
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import Topic
from shared.ports.kafka_access import KafkaAccess

CHANGE_SECONDS = 40.0


async def recreate(access: KafkaAccess, prefix: str, topic: Topic) -> None:
    """Delete `topic` and make it again; returns when the broker tells of the new one."""
    name = topic.on_broker(prefix)
    client = AIOKafkaAdminClient(**options(access))
    try:
        await start(client, access)
        await client.delete_topics([name])
        await _until(client, name, there=False)
        await create_topics(access, prefix, [topic])
        await _until(client, name, there=True)
    finally:
        await client.close()


async def _until(client: AIOKafkaAdminClient, name: str, *, there: bool) -> None:
    deadline = time.monotonic() + CHANGE_SECONDS
    while there is not await _is_there(client, name):
        assert time.monotonic() < deadline, f"{name} is{' not' if there else ''} there"
        await asyncio.sleep(0.05)


async def _is_there(client: AIOKafkaAdminClient, name: str) -> bool:
    """Whether the broker tells of the topic, and each partition has a leader."""
    (told,) = await client.describe_topics([name])
    return not told["error_code"] and all(one["leader"] >= 0 for one in told["partitions"])


async def trim(
    access: KafkaAccess, prefix: str, topic: Topic, before: int, partition: int = 0
) -> None:
    """Remove the records below the offset `before`, as retention does."""
    place = TopicPartition(topic.on_broker(prefix), partition)
    client = AIOKafkaAdminClient(**options(access))
    try:
        await start(client, access)
        await client.delete_records({place: RecordsToDelete(before_offset=before)})
    finally:
        await client.close()
