"""Dead letters on a real broker: listed with their reason, sent back as they were."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from operations.check.log import LogReader
from operations.dlq.letters import NoSuchLetter, pick, read_letters, send_back
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import QUEUE_FACTS, WORKLOAD_FACTS
from shared.ports.kafka_access import KafkaAccess

HEADERS = [
    ("ce_id", b"00000000-0000-0000-0000-000000000001"),
    ("ce_type", b"muster.workload.queued.v1"),
    ("ce_source", b"admission"),
    ("ce_time", b"2026-01-01T00:00:00Z"),
    ("ce_sequence", b"7"),
]
REASON = [
    ("source_topic", b"queue.facts.v1"),
    ("source_partition", b"2"),
    ("source_offset", b"41"),
    ("source_consumer", b"quota"),
    ("error_message", b"value: not JSON"),
]


@pytest.fixture
async def dead(kafka: str, topic_prefix: str):
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, [QUEUE_FACTS, WORKLOAD_FACTS])
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    for value in (b"\xff{", b"second"):
        await producer.send_and_wait(
            f"{topic_prefix}.queue.facts.v1.dlq",
            value,
            key=b"w1",
            partition=2,
            headers=[*HEADERS, *REASON],
        )
    await producer.stop()
    return KafkaAccess(bootstrap=kafka), topic_prefix


async def test_letters_are_listed_with_their_place_and_reason(dead):
    letters = await read_letters(*dead)

    assert [one.place for one in letters] == ["queue.facts.v1.dlq/2/0", "queue.facts.v1.dlq/2/1"]
    first = letters[0]
    assert (first.source_topic, first.source_partition, first.source_offset) == (
        "queue.facts.v1",
        2,
        41,
    )
    assert (first.consumer, first.error) == ("quota", "value: not JSON")
    assert await read_letters(dead[0], dead[1], "workload.facts.v1") == []


async def test_a_letter_goes_back_as_it_was_and_marked_as_sent_again(dead):
    kafka, prefix = dead
    letters = await read_letters(kafka, prefix)

    await send_back(kafka, prefix, pick(letters, ["queue.facts.v1.dlq/2/0"]))

    record = await _only_record(kafka.bootstrap, f"{prefix}.queue.facts.v1", 2)
    assert (record.value, record.key) == (b"\xff{", b"w1")
    assert list(record.headers) == [*HEADERS, ("redriven_from", b"queue.facts.v1.dlq/2/0")]


async def test_the_checker_knows_dead_letters_and_what_was_sent_again(dead):
    kafka, prefix = dead
    letters = await read_letters(kafka, prefix)
    await send_back(kafka, prefix, [_readable(letters[1])])

    log = await LogReader(bootstrap=kafka.bootstrap, prefix=prefix).extend({})

    assert ("queue.facts.v1", 2, 41) in log.dead
    assert [(one.topic, one.redriven) for one in log.records] == [("queue.facts.v1", True)]


async def test_a_place_without_a_letter_is_named(dead):
    letters = await read_letters(*dead)

    with pytest.raises(NoSuchLetter, match="nowhere/0/0"):
        pick(letters, ["nowhere/0/0"])


def _readable(letter):
    return type(letter)(
        **{name: getattr(letter, name) for name in letter.__slots__} | {"value": b"{}"}
    )


async def _only_record(kafka: str, topic: str, partition: int):
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, auto_offset_reset="earliest")
    await consumer.start()
    try:
        place = TopicPartition(topic, partition)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        async with asyncio.timeout(20):
            return await consumer.getone()
    finally:
        await consumer.stop()
