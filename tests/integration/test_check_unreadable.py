"""I21 on a real log: what a team has written is unpacked within bounds, and stepped over."""

from __future__ import annotations

import tracemalloc

import pytest
from aiokafka import AIOKafkaProducer

from operations.check.log import LogReader
from operations.check.model import Log
from operations.check.unreadable import check_unreadable
from shared.adapters.kafka.topics import create_topics
from shared.adapters.kafka.unpacking import Unpacking
from shared.events.topics import team_submissions
from shared.ports.kafka_access import KafkaAccess
from tests.support.checker import violated
from tests.unit.operations.world import healthy

TOPIC = team_submissions("red")
GROWS = 200 << 20
"""Far more than 4 MiB, and a few hundred kB on the wire."""
FORGED = [
    ("ce_id", b"one"),
    ("ce_type", b"muster.workload.placed.v1"),
    ("ce_source", b"placement"),
    ("ce_time", b"2026-01-01T00:00:00Z"),
    ("ce_sequence", b"1"),
]


async def _send(
    kafka: str, name: str, codec: str | None, value: bytes, headers: list | None = None
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=kafka, compression_type=codec, max_batch_size=1 << 28
    )
    await producer.start()
    batch = producer.create_batch()
    batch.append(key=None, value=value, timestamp=None, headers=headers or [])
    await (await producer.send_batch(batch, name, partition=0))
    await producer.stop()


async def _read(kafka: str, prefix: str) -> Log:
    reader = LogReader(bootstrap=kafka, prefix=prefix, bounded=Unpacking)
    return await reader.extend(await reader.ends())


def _told(log: Log, read: int, *dead: int) -> list[str]:
    """What is found when admission has read so far, and has set these aside."""
    evidence = healthy().evidence({"consumer_offset": [], "watermark": [], "outbox": []})
    offset = {"schema": "admission", "topic": TOPIC.name, "partition": 0, "next_offset": read}
    evidence.rows["consumer_offset"] = [offset]
    evidence.log = log
    log.dead = {(TOPIC.name, 0, one): frozenset({"admission"}) for one in dead}
    return [one.subject for one in check_unreadable(evidence).violations]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
async def test_a_batch_that_grows_without_bound_is_a_finding_and_takes_no_memory(
    kafka: str, topic_prefix: str, codec: str
):
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, [TOPIC])
    name = TOPIC.on_broker(topic_prefix)
    await _send(kafka, name, codec, bytes(GROWS))
    await _send(kafka, name, None, b"{}", FORGED)
    tracemalloc.start()
    try:
        log = await _read(kafka, topic_prefix)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < GROWS // 4
    assert [one.offset for one in log.records] == [1]
    assert (_told(log, 0), _told(log, 2, 0)) == ([], [])
    assert _told(log, 2) == [f"{TOPIC.name}[0]@0"]
    # What a team says is of placement is none: it is of no type that a check looks at.
    assert list(log.of("muster.workload.placed.v1")) == []
    assert log.records[0].payload == {}


async def test_a_record_that_is_no_event_is_a_finding_until_it_is_set_aside(
    kafka: str, topic_prefix: str
):
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, [TOPIC])
    await _send(kafka, TOPIC.on_broker(topic_prefix), "gzip", b"junk")

    log = await _read(kafka, topic_prefix)

    assert log.unreadable == {(TOPIC.name, 0, 0): "it is no event"}
    assert (_told(log, 1), _told(log, 1, 0)) == ([f"{TOPIC.name}[0]@0"], [])


def test_a_record_of_muster_that_cannot_be_read_is_a_finding(clean_rows: dict):
    world = healthy()
    evidence = world.evidence(clean_rows)
    evidence.log.unreadable = {("workload.facts.v1", 0, 0): "it is no event"}

    text = "workload.facts.v1[0]@0: cannot be read, and is not in the dead letters: it is no event"
    assert violated(evidence)["I21"] == [text]
