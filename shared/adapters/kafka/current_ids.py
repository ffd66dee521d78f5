"""Ids of topics as they are now, by a connection for that alone."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError, UnknownTopicOrPartitionError

from shared.adapters.kafka.client import options, start, stop
from shared.adapters.kafka.topic_ids import topic_id
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess


async def current_ids(access: KafkaAccess, prefix: str, topics: Sequence[str]) -> dict[str, str]:
    """By topic (without prefix) its id; without those that are not there.

    Raises:
        Transient: no broker answers, or the user may not describe one of them.
    """
    if not topics:  # a consumer that is stopped before its tasks have begun raises CancelledError
        return {}
    consumer = AIOKafkaConsumer(**options(access), enable_auto_commit=False)
    try:
        await start(consumer, access)
        found: dict[str, str] = {}
        for topic in topics:
            try:
                found[topic] = await topic_id(consumer, f"{prefix}.{topic}")
            except UnknownTopicOrPartitionError:
                continue
        return found
    except KafkaError as error:
        raise Transient(f"ids of topics: {error!r}") from error
    finally:
        await stop(consumer)
