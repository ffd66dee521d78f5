"""Poison on a team's topic, on a real broker: each record is answered, and nobody waits for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import MessageSizeTooLargeError

from services.admission.handler import AdmissionHandler
from shared.adapters.kafka.topics import create_topics
from shared.events.codec import decode, encode_headers, encode_payload
from shared.events.envelope import workload_id
from shared.events.organisation import FlavorApplied
from shared.events.topics import (
    DEAD_LETTER_SUFFIX,
    ORGANISATION_FACTS,
    TOPICS,
    Topic,
    team_results,
    team_submissions,
)
from shared.events.workloads import SubmissionAnswered, Wire
from shared.ports.kafka_access import KafkaAccess
from shared.runtime.settings import Settings
from tests.fixtures.servers import Database
from tests.support.gateway import publish_facts
from tests.support.protocol import a_submission, an_event
from tests.support.running import running_handler
from tests.support.untrusted import CORPUS
from tests.unit.admission.support import a_queue_document, a_team_document

SENT = {name: spec for name, (spec, _) in CORPUS.items() if name != "2 MB"}
NEIGHBOUR_SECONDS_MAX = 5.0


@pytest.fixture
async def settings(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Settings]:
    teams = [make(team) for team in ("red", "blue") for make in (team_submissions, team_results)]
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, [*TOPICS, *teams])
    settings = Settings(
        kafka_bootstrap=kafka,
        database_url=database.url("admission"),
        topic_prefix=topic_prefix,
        log_level="error",
    )
    documents: list[Wire] = [FlavorApplied(name="h100", version=1)]
    for team in ("red", "blue"):
        documents += [
            a_team_document(team, queue=team),
            a_queue_document(team, team=team),
        ]
    facts = [(ORGANISATION_FACTS, one) for one in documents]
    await publish_facts(settings, facts, source="gateway", at_ms=time.time_ns() // 1_000_000)
    async with running_handler(settings, AdmissionHandler()):
        yield settings


class Team:
    """A producer on a team's topic, and what came back."""

    def __init__(self, settings: Settings, team: str, producer: AIOKafkaProducer) -> None:
        self.settings, self.team, self.producer = settings, team, producer

    def name(self, topic: Callable[[str], Topic], suffix: str = "") -> str:
        return topic(self.team).on_broker(self.settings.topic_prefix) + suffix

    async def send(self, key: str, value: bytes) -> None:
        event = an_event(1, a_submission(), id=key)
        await self.producer.send_and_wait(
            self.name(team_submissions), value, partition=0, headers=encode_headers(event)
        )

    async def records(self, topic: Callable[[str], Topic], suffix: str = "") -> list[Any]:
        """Everything on a topic."""
        place = TopicPartition(self.name(topic, suffix), 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=self.settings.kafka_bootstrap)
        await consumer.start()
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        end = (await consumer.end_offsets([place]))[place]
        found: list[Any] = []
        while await consumer.position(place) < end:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found += records
        await consumer.stop()
        return found

    async def letters(self, count: int) -> list[Any]:
        """The dead letters, once there are `count`: an answer does not wait for them."""
        return await self._arrived(team_submissions, DEAD_LETTER_SUFFIX, count, 30)

    async def _arrived(
        self, topic: Callable[[str], Topic], suffix: str, count: int, seconds: float
    ) -> list[Any]:
        async with asyncio.timeout(seconds):
            while len(records := await self.records(topic, suffix)) < count:
                await asyncio.sleep(0.05)
        assert len(records) == count
        return records

    async def answers(self, count: int, seconds: float) -> dict[str, SubmissionAnswered]:
        """The answers by key, once there are `count`."""
        records = await self._arrived(team_results, "", count, seconds)
        payloads = [decode("", 0, 0, one.headers, one.value).event.payload for one in records]
        return {
            one.idempotency_key: one for one in payloads if isinstance(one, SubmissionAnswered)
        }


async def test_every_poisoned_record_is_answered_and_no_neighbour_waits(
    settings: Settings,
) -> None:
    good = encode_payload(a_submission())
    async with AIOKafkaProducer(
        bootstrap_servers=settings.kafka_bootstrap, max_request_size=8 << 20
    ) as producer:
        red, blue = Team(settings, "red", producer), Team(settings, "blue", producer)
        await red.send("before", good)
        assert "accepted" == (await red.answers(1, 30))["before"].outcome
        for key, spec in SENT.items():
            await red.send(key, b'{"spec":' + spec + b"}")
        await red.send("behind", good)
        started = time.monotonic()
        await blue.send("neighbour", good)

        blue_answers = await blue.answers(1, 30)
        blue_seconds = time.monotonic() - started
        red_answers = await red.answers(len(SENT) + 2, 30)
        await red.letters(len(SENT))

    assert "accepted" == blue_answers["neighbour"].outcome
    assert blue_seconds < NEIGHBOUR_SECONDS_MAX
    assert "accepted" == red_answers["behind"].outcome
    for key in SENT:
        answer = red_answers[key]
        assert ("rejected", workload_id("red", key)) == (answer.outcome, answer.workload_id)
        assert answer.errors
        assert answer.errors[0].rule


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_a_batch_that_grows_too_large_is_answered_and_no_neighbour_waits(
    settings: Settings, codec: str
) -> None:
    good = encode_payload(a_submission())
    async with AIOKafkaProducer(
        bootstrap_servers=settings.kafka_bootstrap, max_batch_size=1 << 28, compression_type=codec
    ) as producer:
        red, blue = Team(settings, "red", producer), Team(settings, "blue", producer)
        await red.send("before", good)
        for _ in range(5):
            batch = producer.create_batch()
            batch.append(key=b"bomb", value=bytes(24 << 20), timestamp=None)
            await (await producer.send_batch(batch, red.name(team_submissions), partition=0))
        await red.send("behind", good)
        started = time.monotonic()
        await blue.send("neighbour", good)

        blue_answers = await blue.answers(1, 30)
        blue_seconds = time.monotonic() - started
        red_answers = await red.answers(7, 30)
        await red.letters(5)

    assert "accepted" == blue_answers["neighbour"].outcome
    assert blue_seconds < NEIGHBOUR_SECONDS_MAX
    assert ["accepted"] * 2 == [red_answers[key].outcome for key in ("before", "behind")]
    refused = [one for one in red_answers.values() if one.outcome == "rejected"]
    assert all("larger than 4 MiB when it is unpacked" in one.errors[0].rule for one in refused)
    assert "record" == refused[0].errors[0].field


async def test_what_has_no_key_is_answered_by_its_offset_and_the_rest_goes_on(
    settings: Settings,
) -> None:
    good, structured = encode_payload(a_submission()), b"application/cloudevents+json"
    headers = dict(encode_headers(an_event(1, a_submission(), id="timeless")))
    del headers["ce_time"]
    async with AIOKafkaProducer(bootstrap_servers=settings.kafka_bootstrap) as producer:
        red = Team(settings, "red", producer)
        await red.send("\u043a\u043b\u044e\u0447", good)
        await red.send("x" * 201, good)
        for sent in ({"content-type": structured}, headers):
            topic = red.name(team_submissions)
            await producer.send_and_wait(topic, good, partition=0, headers=[*sent.items()])
        await red.answers(4, 30)
        records = await red.records(team_results)
    payloads = [decode("", 0, 0, one.headers, one.value).event.payload for one in records]
    told = {
        one.source_offset: (one.outcome, [error.field for error in one.errors])
        for one in payloads
        if isinstance(one, SubmissionAnswered)
    }

    assert told == {
        0: ("rejected", ["ce_id"]),
        1: ("rejected", ["ce_id"]),
        2: ("rejected", ["content-type"]),
        3: ("accepted", []),
    }


async def test_two_megabytes_end_at_the_broker(settings: Settings) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=settings.kafka_bootstrap, max_request_size=8 << 20
    ) as producer:
        with pytest.raises(MessageSizeTooLargeError):
            await Team(settings, "red", producer).send("k", b" " * 2_000_000)


async def test_a_megabyte_is_answered_with_the_limit(settings: Settings) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=settings.kafka_bootstrap, max_request_size=8 << 20
    ) as producer:
        red = Team(settings, "red", producer)
        await red.send("k", b" " * 1_000_000)

        (error,) = (await red.answers(1, 30))["k"].errors

    assert ("1000000 bytes", True) == (error.value, "65536" in error.rule)
