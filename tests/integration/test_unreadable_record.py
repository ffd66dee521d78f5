"""A record that the Kafka client itself cannot read blocks nobody, and its neighbours arrive."""

from __future__ import annotations

import asyncio
import struct

from aiokafka import AIOKafkaProducer
from aiokafka.record.util import calc_crc32c

from shared.adapters.kafka import KafkaSubscription
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import team_submissions
from shared.ports.kafka_access import KafkaAccess
from shared.ports.publisher import RawMessage

CRC_AT, CRC_FROM = 17, 21
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
