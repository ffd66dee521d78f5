"""Kafka loses records while a service is away, or a whole topic: nothing is skipped in silence."""

from __future__ import annotations

import asyncio
import subprocess
import time

import aiohttp
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from deploy.local.processes import free_port
from shared.adapters.kafka import KafkaSubscription, reading
from shared.adapters.kafka.topics import create_topics
from shared.events.topics import AUDIT_FACTS, QUEUE_FACTS, SUBMISSION_COMMANDS
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from tests.support.chain import Chain
from tests.support.lost_log import recreate, trim

TOPIC = SUBMISSION_COMMANDS.name
READY_SECONDS = 60
NAMED_SECONDS = 15


async def _passed(chain: Chain, count: int) -> None:
    """So many messages go through both services; then the first service ends."""
    first = chain.start("admission")
    chain.start("quota")
    await chain.feed(count=count)
    await chain.settled(wanted=count)
    assert "ok" == await chain.verdict(count)
    first.terminate()
    await asyncio.to_thread(first.wait, timeout=20)


async def test_what_was_acknowledged_after_a_topic_was_made_again_is_consumed(
    chain: Chain,
) -> None:
    await _passed(chain, 30)
    await recreate(KafkaAccess(bootstrap=chain.kafka), chain.prefix, SUBMISSION_COMMANDS)
    await chain.feed(30, count=20)

    chain.start("admission")
    await chain.settled(wanted=50, seconds=20)

    assert "ok" == await chain.verdict(50)
    assert "20" == _stored(chain, "next_offset")


async def test_a_log_trimmed_beyond_its_reader_is_told_until_a_person_accepts_the_loss(
    chain: Chain,
) -> None:
    await _passed(chain, 20)
    await chain.feed(20, count=20)
    await trim(KafkaAccess(bootstrap=chain.kafka), chain.prefix, SUBMISSION_COMMANDS, 30)

    port = free_port()
    process = chain.start("admission", http_port=port, stdout=subprocess.PIPE)
    told = await _readyz(port, 503, f"{TOPIC} partition 0: the log begins at offset 30")
    metrics = await _get(port, "/metrics")
    await asyncio.sleep(12)  # it looks again

    assert "and 20 is next to be read: records that were removed unread: 10; " in told
    assert f'muster_log_lost{{service="admission",topic="{TOPIC}"}} 1.0' in metrics[1]
    assert (503, told) == await _get(port, "/readyz")
    assert 20 == len(chain.effects())

    for sentence in told.splitlines():
        chain.database.execute(sentence[sentence.index("UPDATE") :])
    await _readyz(port, 200, "ready")
    await chain.settled(wanted=30)
    metrics = await _get(port, "/metrics")
    process.terminate()
    logged, _ = await asyncio.to_thread(process.communicate, timeout=20)

    assert f'muster_log_lost{{service="admission",topic="{TOPIC}"}} 0.0' in metrics[1]
    assert {f"w{number}" for number in [*range(20), *range(30, 40)]} == set(chain.effects())
    assert 1 == logged.count("the log begins at offset 30")


async def test_a_database_from_a_backup_is_told_before_it_decides_anything(chain: Chain) -> None:
    """Its rows are those of ten messages; the log has what came of twenty."""
    await _passed(chain, 10)
    tables = ("consumer_offset", "watermark", "inbox", "outbox", "audit")
    for one in tables:
        chain.database.execute(f"CREATE TABLE backup_{one} AS SELECT * FROM admission.{one}")
    await chain.feed(10, count=10)
    second = chain.start("admission")
    await chain.settled(wanted=20)
    second.terminate()
    await asyncio.to_thread(second.wait, timeout=20)
    before = chain.effects("admission")
    for one in tables:
        chain.database.execute(f"DELETE FROM admission.{one}")
        chain.database.execute(f"INSERT INTO admission.{one} SELECT * FROM backup_{one}")

    port = free_port()
    chain.start("admission", http_port=port)
    seals, facts = AUDIT_FACTS["admission"].name, QUEUE_FACTS.name
    newest = "partition 0: the newest record of admission is"
    began = time.monotonic()
    told = await _readyz(port, 503, f"{seals} {newest}")
    seconds = time.monotonic() - began
    restored = chain.effects("admission")
    for sentence in told.splitlines():
        chain.database.execute(sentence[sentence.index("UPDATE") :])
    await _readyz(port, 200, "ready")

    assert f"\n{facts} {newest}" in told
    assert (20, 10) == (len(before), len(restored))
    assert ", which is older than the log; bring the database forward" in told
    assert seconds < NAMED_SECONDS, told


async def test_an_offset_of_before_ids_adopts_the_id_and_goes_on(chain: Chain) -> None:
    await _passed(chain, 10)
    first = _stored(chain, "topic_id")
    chain.database.execute("UPDATE admission.consumer_offset SET topic_id = NULL")

    chain.start("admission")
    async with asyncio.timeout(READY_SECONDS):
        while not _stored(chain, "topic_id"):
            await asyncio.sleep(0.2)
    adopted = _stored(chain, "topic_id"), _stored(chain, "next_offset")
    await chain.feed(10, count=10)
    await chain.settled(wanted=20)

    assert "ok" == await chain.verdict(20)
    assert (first, "10") == adopted
    name = SUBMISSION_COMMANDS.on_broker(chain.prefix)
    client = AdminClient({"bootstrap.servers": chain.kafka})
    told = client.describe_topics(TopicCollection([name]))[name]
    text = str(told.result(10).topic_id)
    assert first == text.translate(str.maketrans("+/", "-_", "="))  # as kafka-topics has it


async def test_a_topic_that_has_another_id_is_not_read_on(
    kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it was made again, and has as many records already, between two fetches."""
    access = KafkaAccess(bootstrap=kafka)
    await create_topics(access, topic_prefix, [SUBMISSION_COMMANDS])
    subscription = KafkaSubscription(access, topic_prefix)
    monkeypatch.setattr(reading, "TOPIC_ID_SECONDS", 0.0)
    await subscription.assign({(TOPIC, 0): 0})
    assert [] == await subscription.poll(1, 3)

    async def another(*_: object) -> str:
        return "another"

    monkeypatch.setattr(reading, "topic_id", another)
    with pytest.raises(Transient, match="was deleted and made again"):
        await subscription.poll(1, 30)
    await subscription.close()


async def test_a_topic_that_is_not_there_any_more_ends_the_reading(
    kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = KafkaAccess(bootstrap=kafka)
    await create_topics(access, topic_prefix, [SUBMISSION_COMMANDS])
    subscription = KafkaSubscription(access, topic_prefix)
    monkeypatch.setattr(reading, "TOPIC_ID_SECONDS", 0.0)
    await subscription.assign({(TOPIC, 0): 0})
    name = SUBMISSION_COMMANDS.on_broker(topic_prefix)
    client = AdminClient({"bootstrap.servers": kafka})
    client.delete_topics([name])[name].result(10)

    with pytest.raises(Transient, match=r"no topic .* any more; .*muster-ops recover kafka"):
        await subscription.poll(1, 30)
    await subscription.close()


def _stored(chain: Chain, column: str) -> str:
    return chain.database.execute(
        f"SELECT {column} FROM admission.consumer_offset WHERE topic = '{TOPIC}'"
    ).strip()


async def _readyz(port: int, status: int, beginning: str) -> str:
    """What /readyz answers when it answers so."""
    deadline = time.monotonic() + READY_SECONDS
    answer = 0, ""
    while answer[0] != status or not answer[1].startswith(beginning):
        assert time.monotonic() < deadline, answer
        await asyncio.sleep(0.2)
        answer = await _get(port, "/readyz")
    return answer[1]


async def _get(port: int, path: str) -> tuple[int, str]:
    try:
        async with (
            aiohttp.ClientSession() as http,
            http.get(f"http://127.0.0.1:{port}{path}") as reply,
        ):
            return reply.status, await reply.text()
    except aiohttp.ClientConnectionError:
        return 0, ""
