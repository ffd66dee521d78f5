"""Creates topics from the topic table: `python -m shared.adapters.kafka.topics create`.

Auto-creation is off on the broker, so a topic exists only if it stands in events/topics.py or
belongs to a team. Creating what exists is no error. The broker is that of MUSTER_KAFKA_BOOTSTRAP;
with three brokers, MUSTER_TOPIC_REPLICATION=3 and MUSTER_TOPIC_MIN_INSYNC_REPLICAS=2 keep every
acknowledged record when one of them is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from pydantic import ValidationError

from shared.adapters.kafka.client import options, start
from shared.adapters.kafka.topic_sizes import size_configs
from shared.events.topics import DEAD_LETTER_SUFFIX, TOPICS, Topic, record_bytes_max
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess, TopicCopies, TopicSettings, problems

ALREADY_EXISTS: Final = 36
DEAD_LETTER_RETENTION_HOURS: Final = 24 * 14
SHORT_HOURS: Final = 24
"""A topic that keeps its records no longer has small segments."""
ONE_COPY: Final = TopicCopies()


async def create_topics(
    access: KafkaAccess,
    prefix: str,
    topics: Sequence[Topic],
    *,
    copies: TopicCopies = ONE_COPY,
    bytes_max: int = 0,
) -> frozenset[str]:
    """Create `topics` and their dead-letter topics; idempotent, those that exist stay as they are.

    Each partition keeps `bytes_max`; 0: no limit but the hours of the table. Returns the names,
    without prefix, of those that were not there.

    Raises:
        Transient: the broker refused one, with its error code (aiokafka does not raise).
    """
    wanted = [one for topic in topics for one in _with_dead_letters(topic, prefix, copies)]
    for one in wanted:
        one.topic_configs.update(size_configs(bytes_max))
    client = AIOKafkaAdminClient(**options(access), request_timeout_ms=20_000)
    try:
        await start(client, access)
        reply = await client.create_topics(wanted)
    finally:
        await client.close()
    for name, code, *why in reply.topic_errors:
        if code not in (0, ALREADY_EXISTS):
            raise Transient(f"topic {name}: error {code} {' '.join(map(str, why))}")
    return frozenset(
        name.removeprefix(f"{prefix}.") for name, code, *_ in reply.topic_errors if code == 0
    )


def _with_dead_letters(topic: Topic, prefix: str, copies: TopicCopies) -> list[NewTopic]:
    name = topic.on_broker(prefix)
    largest = record_bytes_max(topic.name)
    dead_hours = DEAD_LETTER_RETENTION_HOURS
    return [
        _new(name, topic.partitions, topic.retention_hours, largest, copies),
        _new(name + DEAD_LETTER_SUFFIX, topic.partitions, dead_hours, largest, copies),
    ]


def _new(
    name: str, partitions: int, retention_hours: int, largest: int, copies: TopicCopies
) -> NewTopic:
    retention_ms = retention_hours * 3_600_000 if retention_hours > 0 else -1
    return NewTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=copies.replication,
        topic_configs={
            "retention.ms": str(retention_ms),
            **_segments(retention_ms),
            "min.insync.replicas": str(copies.min_insync),
            "max.message.bytes": str(largest),
            "message.timestamp.type": "LogAppendTime",
        },
    )


def _segments(retention_ms: int) -> dict[str, str]:
    """Only whole segments are removed, and a broker begins a new one after a week."""
    if 0 < retention_ms <= SHORT_HOURS * 3_600_000:
        return {"segment.ms": str(retention_ms // 6)}
    return {}


def main() -> None:
    """Create every topic of the table on the broker of MUSTER_KAFKA_BOOTSTRAP."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["create"])
    parser.parse_args()
    prefix = os.environ.get("MUSTER_TOPIC_PREFIX", "muster")
    try:
        settings = TopicSettings()
        asyncio.run(create_topics(settings.kafka, prefix, TOPICS, copies=settings.topic_copies))
    except ValidationError as error:
        sys.exit(f"settings of Kafka: {problems(error)}")
    except Transient as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
