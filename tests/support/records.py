"""What stands on the log, as a stranger would read it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from shared.events.topics import Topic
from shared.runtime.settings import Settings


async def first_records(
    settings: Settings, topic: Topic, count: int
) -> list[tuple[dict[str, bytes], Any]]:
    """The first `count` records of partition 0: headers and JSON; fails if there are fewer."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.kafka_bootstrap, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic.on_broker(settings.topic_prefix), 0)])
        found: list[tuple[dict[str, bytes], Any]] = []
        async with asyncio.timeout(40):
            while len(found) < count:
                record = await consumer.getone()
                found.append((dict(record.headers), json.loads(record.value)))
        return found
    finally:
        await consumer.stop()
