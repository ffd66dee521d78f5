"""How many bytes a topic keeps: `retention.bytes`, in segments small enough that it holds.

The broker deletes whole segments, and never the one that is written; with its usual segment of
1 GiB a smaller limit would mean nothing. So a partition has at most its limit and one segment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from shared.adapters.kafka.admin_client import Administration
from shared.events.topics import DEAD_LETTER_SUFFIX, Topic
from shared.ports.kafka_access import KafkaAccess

SEGMENTS: Final = 8
SEGMENT_BYTES_MIN: Final = 8 << 20
"""More than the largest record."""
SEGMENT_BYTES_MAX: Final = 1 << 30


def size_configs(bytes_max: int) -> dict[str, str]:
    """Configuration of a topic that keeps `bytes_max` for each partition; 0: no limit."""
    if not bytes_max:
        return {"retention.bytes": "-1"}
    segment = min(max(bytes_max // SEGMENTS, SEGMENT_BYTES_MIN), SEGMENT_BYTES_MAX)
    return {"retention.bytes": str(bytes_max), "segment.bytes": str(segment)}


async def limit_topics(
    access: KafkaAccess, prefix: str, topics: Sequence[Topic], bytes_max: int
) -> None:
    """Give topics that exist, and their dead letters, this size; nothing else of them changes.

    Raises:
        Transient: the broker cannot be reached, or refuses; it has done what it can of it.
    """
    names = [one.on_broker(prefix) for one in topics]
    names += [name + DEAD_LETTER_SUFFIX for name in names]
    if names:
        await asyncio.to_thread(_limit, access, names, bytes_max)


def _limit(access: KafkaAccess, names: Sequence[str], bytes_max: int) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in size_configs(bytes_max).items()
    ]
    Administration(access).configure(
        [
            ConfigResource(ConfigResource.Type.TOPIC, one, incremental_configs=entries)
            for one in names
        ]
    )
