"""Reads the dead-letter topics and sends letters back to where they came from.

A letter keeps the headers and the value of the message as it was read; where from and why not
stands in headers of its own, which are taken off again. A letter that was sent back stays in its
topic: sending it twice is harmless, because consumers know its id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.adapters.kafka.client import options, start
from shared.ports.kafka_access import KafkaAccess

SUFFIX: Final = ".dlq"
OWN_HEADERS: Final = frozenset(
    ("source_topic", "source_partition", "source_offset", "source_consumer", "error_message")
)
REDRIVEN: Final = "redriven_from"
"""Marks what was sent again: it may come out of its producer's order."""
POLL_MS: Final = 500


class NoSuchLetter(ValueError):  # noqa: N818  # says what happened
    """The place names no dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One dead letter; `place` names it: "<topic without prefix>/<partition>/<offset>"."""

    place: str
    source_topic: str
    source_partition: int
    source_offset: int
    consumer: str
    error: str
    at_ms: int
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    value: bytes

    @property
    def type(self) -> str:
        """The type that the message says it has."""
        return dict(self.headers).get("ce_type", b"").decode(errors="replace")

    @property
    def id(self) -> str:
        """The id that the message says it has."""
        return dict(self.headers).get("ce_id", b"").decode(errors="replace")


def letter_of(topic: str, record: Any) -> Letter:  # noqa: ANN401  # aiokafka is untyped
    """A record of a dead-letter topic (named without prefix)."""
    own = {name: value.decode(errors="replace") for name, value in record.headers}
    return Letter(
        place=f"{topic}/{record.partition}/{record.offset}",
        source_topic=own.get("source_topic") or topic.removesuffix(SUFFIX),
        source_partition=int(own.get("source_partition", 0)),
        source_offset=int(own.get("source_offset", -1)),
        consumer=own.get("source_consumer", ""),
        error=own.get("error_message", ""),
        at_ms=record.timestamp,
        key=record.key,
        headers=tuple(one for one in record.headers if one[0] not in OWN_HEADERS),
        value=record.value or b"",
    )


async def read_letters(access: KafkaAccess, prefix: str, topic: str = "") -> list[Letter]:
    """All dead letters, or those of one source topic (without prefix), the oldest first."""
    from aiokafka import AIOKafkaConsumer

    partitions = await _partitions(access, prefix, topic)
    if not partitions:
        return []
    consumer = AIOKafkaConsumer(
        **options(access), enable_auto_commit=False, auto_offset_reset="earliest"
    )
    try:
        await start(consumer, access)
        return await _read(consumer, partitions, prefix)
    finally:
        await consumer.stop()


async def _partitions(access: KafkaAccess, prefix: str, topic: str) -> list[Any]:
    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(**options(access))
    try:
        await start(admin, access)
        names = [
            name
            for name in await admin.list_topics()
            if name.startswith(f"{prefix}.{topic}") and name.endswith(SUFFIX)
        ]
        described = await admin.describe_topics(names) if names else []
    finally:
        await admin.close()
    return [
        TopicPartition(one["topic"], part["partition"])
        for one in described
        for part in one["partitions"]
    ]


async def _read(consumer: Any, partitions: Sequence[Any], prefix: str) -> list[Letter]:  # noqa: ANN401  # untyped
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    ends = await consumer.end_offsets(partitions)
    letters: list[Letter] = []
    behind = {one for one in partitions if await consumer.position(one) < ends[one]}
    while behind:
        for place, records in (await consumer.getmany(*behind, timeout_ms=POLL_MS)).items():
            topic = place.topic.removeprefix(f"{prefix}.")
            letters += [letter_of(topic, record) for record in records]
        behind = {one for one in behind if await consumer.position(one) < ends[one]}
    return sorted(letters, key=lambda one: (one.at_ms, one.place))


def pick(letters: Sequence[Letter], places: Sequence[str]) -> list[Letter]:
    """The letters at `places`.

    Raises:
        NoSuchLetter: one of the places has none.
    """
    by_place = {one.place: one for one in letters}
    missing = [place for place in places if place not in by_place]
    if missing:
        raise NoSuchLetter(f"no dead letter at {', '.join(missing)}; see `muster-ops dlq list`")
    return [by_place[place] for place in places]


async def send_back(access: KafkaAccess, prefix: str, letters: Sequence[Letter]) -> None:
    """Publish each to its source topic and partition, in order, as it was read."""
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(**options(access), acks="all", enable_idempotence=True)
    try:
        await start(producer, access)
        sent = [
            await producer.send(
                f"{prefix}.{one.source_topic}",
                one.value,
                key=one.key,
                partition=one.source_partition,
                headers=[
                    *(header for header in one.headers if header[0] != REDRIVEN),
                    (REDRIVEN, one.place.encode()),
                ],
            )
            for one in letters
        ]
        await asyncio.gather(*sent)
    finally:
        await producer.stop()
