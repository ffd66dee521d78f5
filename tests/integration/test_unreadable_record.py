"""A record that the Kafka client itself cannot read blocks nobody, and its neighbours arrive."""

from __future__ import annotations

import asyncio
import struct

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.record.util import calc_crc32c

from shared.adapters.kafka import KafkaSubscription
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import team_submissions
from shared.ports.kafka_access import KafkaAccess
from shared.ports.publisher import RawMessage

CRC_AT, CRC_FROM = 17, 21
TOO_LARGE, SMALLER = "is larger than 4 MiB when it is unpacked", "send smaller batches"
TOPIC = team_submissions("red")


async def _write(kafka: str, name: str, *marks: bytes) -> None:
    """One batch with a record for each mark; the header of a record "bad" is not UTF-8."""
    producer = AIOKafkaProducer(bootstrap_servers=kafka, acks="all")
    await producer.start()
    batch = producer.create_batch()
    for mark in marks:
        header = "qqqq" if mark == b"bad" else "good"
        batch.append(key=None, value=mark, timestamp=None, headers=[(header, b"1")])
    build = batch._build

    def spoilt() -> bytes:
        buffer = bytearray(build()).replace(b"qqqq", b"\xff\xff\xff\xff")
        struct.pack_into(">I", buffer, CRC_AT, calc_crc32c(bytes(buffer[CRC_FROM:])))
        return bytes(buffer)

    batch._build = spoilt
    await (await producer.send_batch(batch, name, partition=0))
    await producer.stop()


async def test_a_record_that_cannot_be_read_is_stepped_over(kafka: str, topic_prefix: str) -> None:
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, [TOPIC])
    name = TOPIC.on_broker(topic_prefix)
    await _write(kafka, name, b"one", b"two")
    await _write(kafka, name, b"three", b"bad", b"lost with its batch")
    await _write(kafka, name, b"four")
    subscription = KafkaSubscription(KafkaAccess(bootstrap=kafka), topic_prefix)
    await subscription.assign({(TOPIC.name, 0): 0})

    got: list[RawMessage] = []
    async with asyncio.timeout(30):
        while len(got) < 6:
            got += await subscription.poll(10, 0.5)
    await subscription.close()

    assert [0, 1, 2, 3, 4, 5] == [one.offset for one in got]
    assert [b"one", b"two", b"three", b"", b"", b"four"] == [one.value for one in got]


async def _send(kafka: str, name: str, codec: str | None, *values: bytes) -> None:
    """One batch, compressed by the client's own code."""
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka, compression_type=codec, max_batch_size=1 << 28
    )
    await producer.start()
    batch = producer.create_batch()
    for value in values:
        batch.append(key=None, value=value, timestamp=None)
    await (await producer.send_batch(batch, name, partition=0))
    await producer.stop()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_a_batch_that_grows_too_large_is_stepped_over(
    kafka: str, topic_prefix: str, codec: str
) -> None:
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, [TOPIC])
    name = TOPIC.on_broker(topic_prefix)
    await _send(kafka, name, codec, b"one", b"two")
    await _send(kafka, name, codec, bytes(10 << 20), bytes(10 << 20))
    await _send(kafka, name, None, b"three")
    subscription = KafkaSubscription(KafkaAccess(bootstrap=kafka), topic_prefix)
    await subscription.assign({(TOPIC.name, 0): 0})

    got: list[RawMessage] = []
    async with asyncio.timeout(30):
        while len(got) < 4:
            got += await subscription.poll(10, 0.5)
    await subscription.close()
    again = KafkaSubscription(KafkaAccess(bootstrap=kafka), topic_prefix)
    await again.assign({(TOPIC.name, 0): 3})
    async with asyncio.timeout(30):
        while not (rest := await again.poll(10, 0.5)):
            pass
    await again.close()

    assert [(0, b"one"), (1, b"two"), (2, b""), (4, b"three")] == [
        (m.offset, m.value) for m in got
    ]
    assert [
        "",
        "",
        f"record: the batch of 2 at offset 2 {TOO_LARGE} ({codec}): {SMALLER}",
        "",
    ] == [one.unreadable for one in got]
    assert [(4, b"three")] == [(one.offset, one.value) for one in rest]
