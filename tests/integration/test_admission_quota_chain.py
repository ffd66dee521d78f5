"""Admission and quota as processes on a real broker and database, killed with -9 while they work.

Half of the submissions come by Kafka on the team's own topic, each of them twice; half come
as the gateway's commands. At the end every workload was queued once and nominated once, and
every submission by Kafka was answered.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from shared.adapters.kafka.topics import create_topics
from shared.events.codec import decode, encode_headers, encode_payload
from shared.events.envelope import Event, Received, event_id, workload_id
from shared.events.fingerprint import body_hash
from shared.events.organisation import FlavorApplied
from shared.events.quotas import QuotaChanged, WorkloadNominated
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import (
    ORGANISATION_FACTS,
    QUEUE_FACTS,
    QUOTA_FACTS,
    SUBMISSION_COMMANDS,
    TOPICS,
    Topic,
    team_results,
    team_submissions,
)
from shared.events.workloads import SubmissionAnswered, SubmitWorkload, Wire, WorkloadQueued
from shared.ports.kafka_access import KafkaAccess
from tests.fixtures.servers import Database
from tests.unit.admission.builders import TEAM, a_spec
from tests.unit.admission.support import a_queue_document, a_team_document

EACH = 300
SERVICES = ("admission", "quota")


class Chain:
    """The two services; gateway, team and placement are the test."""

    def __init__(self, kafka: str, database: Database, prefix: str) -> None:
        self.kafka, self.database, self.prefix = kafka, database, prefix
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.sent = 0

    def start(self, service: str) -> None:
        environment = os.environ | {
            "MUSTER_KAFKA_BOOTSTRAP": self.kafka,
            "MUSTER_DATABASE_URL": self.database.url(service),
            "MUSTER_TOPIC_PREFIX": self.prefix,
            "MUSTER_SLOT": service,
            "MUSTER_BATCH_MESSAGES_MAX": "20",
        }
        output = None if os.environ.get("SHOW") else subprocess.DEVNULL
        self.processes[service] = subprocess.Popen(
            [sys.executable, "-m", f"services.{service}"], env=environment, stdout=output
        )

    def kill(self, service: str) -> None:
        process = self.processes.pop(service)
        process.kill()
        process.wait()

    async def send(self, topic: Topic, payloads: Sequence[tuple[str, Wire]]) -> None:
        """Publish; an event id of the caller's choice is what a team on Kafka has."""
        producer = AIOKafkaProducer(bootstrap_servers=self.kafka, enable_idempotence=True)
        await producer.start()
        for identifier, payload in payloads:
            self.sent += 1
            at_ms = time.time_ns() // 1_000_000
            event = Event(
                id=identifier or event_id(at_ms, f"test-{self.sent}", "test", 0),
                type=NAME_BY_TYPE[type(payload)],
                source="test",
                subject="",
                time_ms=at_ms,
                key="",
                payload=payload,
            )
            await producer.send(
                topic.on_broker(self.prefix),
                partition=0,
                value=encode_payload(payload),
                headers=encode_headers(event),
            )
        await producer.stop()

    async def facts(self, topic: Topic) -> list[Received]:
        """Everything on partition 0 of a topic; a repeated id counts once."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.kafka, enable_auto_commit=False)
        await consumer.start()
        place = TopicPartition(topic.on_broker(self.prefix), 0)
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        end = (await consumer.end_offsets([place]))[place]
        found: dict[str, Received] = {}
        while await consumer.position(place) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                for record in records:
                    one = decode(topic.name, 0, record.offset, record.headers, record.value)
                    found.setdefault(one.event.id, one)
        await consumer.stop()
        return list(found.values())

    def count(self, table: str) -> int:
        return int(self.database.execute(f"SELECT count(*) FROM {table}").strip())

    async def until(self, table: str, count: int, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while self.count(table) < count:
            assert time.monotonic() < deadline, f"{self.count(table)} of {count} in {table}"
            await asyncio.sleep(0.1)


@pytest.fixture
async def chain(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Chain]:
    await create_topics(
        KafkaAccess(bootstrap=kafka),
        topic_prefix,
        [*TOPICS, team_submissions(TEAM), team_results(TEAM)],
    )
    chain = Chain(kafka, database, topic_prefix)
    for service in SERVICES:
        chain.start(service)
    yield chain
    for service in list(chain.processes):
        chain.kill(service)


def by_gateway(number: int) -> SubmitWorkload:
    spec = a_spec(name=f"http-{number}")
    return SubmitWorkload(
        workload_id=workload_id(TEAM, f"http-{number}"),
        team=TEAM,
        spec=spec,
        body_hash=body_hash(spec),
    )


async def test_every_workload_is_queued_and_nominated_once_whatever_is_killed(
    chain: Chain,
) -> None:
    await chain.send(
        ORGANISATION_FACTS,
        [
            ("", FlavorApplied(name="h100", version=1)),
            ("", a_team_document()),
            ("", a_queue_document(gpus=100_000)),
        ],
    )
    await chain.until("quota.quota_node", 1)  # or it would tell of an unknown queue first
    by_team = [(f"k-{i}", SubmitWorkload(spec=a_spec(name=f"kafka-{i}"))) for i in range(EACH)]
    await asyncio.gather(
        chain.send(team_submissions(TEAM), [*by_team, *by_team]),
        chain.send(SUBMISSION_COMMANDS, [("", by_gateway(i)) for i in range(EACH)]),
    )
    for part, service in enumerate((*SERVICES, *SERVICES), 1):
        await chain.until("quota.pending", part * EACH // 4)
        chain.kill(service)
        chain.start(service)
    await chain.until("quota.pending", 2 * EACH)
    await chain.until("admission.workload", 2 * EACH)

    deadline = time.monotonic() + 30
    while True:
        answers = await chain.facts(team_results(TEAM))
        offers = await chain.facts(QUOTA_FACTS)
        if len(answers) >= 2 * EACH and len(offers) >= 2 * EACH + 1:
            break
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)
    queued = await chain.facts(QUEUE_FACTS)

    expected = {workload_id(TEAM, f"k-{i}") for i in range(EACH)}
    expected |= {workload_id(TEAM, f"http-{i}") for i in range(EACH)}
    assert {isinstance(one.event.payload, WorkloadQueued) for one in queued} == {True}
    assert Counter(one.event.subject for one in queued) == dict.fromkeys(expected, 1)
    limits = [one for one in offers if isinstance(one.event.payload, QuotaChanged)]
    assert [one.event.subject for one in limits] == ["team-fraud"]
    nominated = [one for one in offers if isinstance(one.event.payload, WorkloadNominated)]
    assert Counter(one.event.subject for one in nominated) == dict.fromkeys(expected, 1)
    assert len(offers) == len(limits) + len(nominated)
    told = Counter(
        one.event.payload.idempotency_key
        for one in answers
        if isinstance(one.event.payload, SubmissionAnswered)
        and one.event.payload.outcome == "accepted"
    )
    assert told == dict.fromkeys((f"k-{i}" for i in range(EACH)), 2)
    phases = chain.database.execute("SELECT DISTINCT phase FROM quota.pending").split()
    assert phases == ["offered"]
    assert chain.database.execute("SELECT accepted FROM admission.team_count").split() == ["600"]
