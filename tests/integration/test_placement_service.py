"""The placement service as a process on a real broker and database, killed again and again.

The test plays everybody else: it reports nodes, gives quota, nominates, and answers every bind
command as the binder would. Kills may change neither what the workloads come to nor the ledger.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from services.placement.handlers import PlacementHandler
from shared.adapters.kafka import KafkaPublisher, KafkaSubscription
from shared.adapters.kafka.topics import create_topics
from shared.adapters.postgres.pool import Database as Pool
from shared.events.codec import decode, encode_headers, encode_payload
from shared.events.envelope import Event, event_id
from shared.events.pods import BindWorkload, PodFact, PodsFinished, PodsRunning
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import POD_COMMANDS, TOPICS, WORKLOAD_FACTS
from shared.events.workloads import Wire, WorkloadFact
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow
from tests.fixtures.servers import Database
from tests.support.placement_driver import (
    TOPIC_OF,
    a_node,
    a_quota,
    a_workload,
    check,
    nominated,
    pod_fact,
    reported,
)
from tests.support.placement_ledger import sums_agree

pytestmark = pytest.mark.timeout(300)
NODES, GPUS, WORKLOADS = 4, 8, 60
SECONDS_MAX = 200
"""The process is started up to nine times."""
KILLS = (
    "unit.before_commit:0.1:kill",
    "unit.after_commit:0.1:kill",
    "relay.published_not_marked:0.1:kill",
)


class Around:
    """Everybody but placement, and the placement process itself."""

    def __init__(self, kafka: str, database: Database, prefix: str) -> None:
        self.kafka, self.database, self.prefix = kafka, database, prefix
        self.pool = Pool(database.url("placement"))
        self.publisher = KafkaPublisher(KafkaAccess(bootstrap=kafka), prefix)
        self.commands = KafkaSubscription(KafkaAccess(bootstrap=kafka), prefix)
        self.answered: set[tuple[str, int]] = set()
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._sent = 0

    def start(self, failpoints: str = "") -> subprocess.Popen[bytes]:
        self.starts += 1
        environment = os.environ | {
            "MUSTER_KAFKA_BOOTSTRAP": self.kafka,
            "MUSTER_DATABASE_URL": self.database.url("placement"),
            "MUSTER_TOPIC_PREFIX": self.prefix,
            "MUSTER_FAILPOINTS": failpoints,
            "MUSTER_BATCH_MESSAGES_MAX": "7",
            "MUSTER_SEED": str(self.starts),
        }
        command = [sys.executable, "-m", "services.placement"]
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        return self.process

    async def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        await self.commands.close()
        await self.publisher.close()
        await self.pool.close()

    async def send(self, *payloads: Wire) -> None:
        """Publish on the topics where these travel."""
        await self.publisher.publish([self._row(one) for one in payloads])

    def _row(self, payload: Wire) -> OutboxRow:
        self._sent += 1
        now_ms = time.time_ns() // 1_000_000
        event = Event(
            id=event_id(now_ms, f"sent-{self._sent}", "test", 0),
            type=NAME_BY_TYPE[type(payload)],
            source="test",
            subject="",
            time_ms=now_ms,
            key="",
            payload=payload,
        )
        return OutboxRow(
            seq=self._sent,
            event_id=event.id,
            topic=TOPIC_OF[type(payload)].name,
            partition=0,
            key="",
            headers=encode_headers(event),
            value=encode_payload(payload),
        )

    async def bind(self, wait_seconds: float = 0.2) -> None:
        """Answer the bind commands: all run, every second one ends well at once."""
        facts: list[PodFact] = []
        for raw in await self.commands.poll(100, wait_seconds):
            event = decode(raw.topic, raw.partition, raw.offset, raw.headers, raw.value).event
            payload = event.payload
            assert isinstance(payload, BindWorkload)
            attempt = (payload.workload_id, payload.attempt)
            if attempt in self.answered:
                continue
            self.answered.add(attempt)
            facts.append(pod_fact(PodsRunning, *attempt))
            if int(payload.workload_id[1:]) % 2 == 0:
                facts.append(pod_fact(PodsFinished, *attempt, succeeded=True))
        if facts:
            await self.send(*facts)

    async def states(self) -> Counter[str]:
        rows = await self.pool.fetch(
            "SELECT state, count(*) AS n FROM placement.workload GROUP BY 1"
        )
        return Counter({row["state"]: row["n"] for row in rows})

    async def told(self) -> bool:
        """Whether all that was decided is in the log, and the relay knows it."""
        (mark,) = await self.pool.fetch("SELECT acked_seq, next_seq FROM placement.watermark")
        return bool(mark["acked_seq"] == mark["next_seq"] - 1)

    async def facts(self) -> dict[str, WorkloadFact]:
        """Facts in the log by event id; the same id must always say the same."""
        subscription = KafkaSubscription(KafkaAccess(bootstrap=self.kafka), self.prefix)
        await subscription.assign({(WORKLOAD_FACTS.name, 0): 0})
        facts: dict[str, WorkloadFact] = {}
        while messages := await subscription.poll(500, 2):
            for raw in messages:
                event = decode(raw.topic, 0, raw.offset, raw.headers, raw.value).event
                if isinstance(event.payload, WorkloadFact):
                    assert facts.setdefault(event.id, event.payload) == event.payload
        await subscription.close()
        return facts


@pytest.fixture
async def around(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Around]:
    await create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, TOPICS)
    around = Around(kafka, database, topic_prefix)
    await around.commands.assign({(POD_COMMANDS.name, 0): 0})
    yield around
    await around.close()


WANTED = Counter({"succeeded": WORKLOADS // 2, "running": WORKLOADS // 2})


async def fed(around: Around) -> None:
    """Nodes and quota, then all nominations: more than fit at once."""
    await around.send(*(reported(a_node(f"n{number}", gpus=GPUS)) for number in range(NODES)))
    await around.send(a_quota("c", 2 * NODES * GPUS, kind="cohort"), a_quota(parent="c"))
    await around.send(
        *(nominated(a_workload(f"w{number}"), order=number) for number in range(WORKLOADS))
    )


async def ended(around: Around, *, kills: str = "") -> Counter[str]:
    """Bind until all is as it should be, starting the process again whenever it died."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        if around.process is None or around.process.poll() is not None:
            around.start(kills if around.starts < 8 else "")
        await around.bind()
        with contextlib.suppress(Exception):
            if await around.states() == WANTED and await around.told():
                break
    return await around.states()


async def agrees(around: Around) -> None:
    """Rows, the memory made from them, the audit and the log tell one story."""
    handler = PlacementHandler(cell=0, seed=0)
    await handler.load(around.pool)
    check(handler)
    await sums_agree(around.pool, handler)
    audits = await around.pool.fetch("SELECT subject, version FROM placement.audit")
    steps = Counter(row["subject"] for row in audits)
    assert len(audits) == len({(row["subject"], row["version"]) for row in audits})
    rows = await around.pool.fetch("SELECT id, version FROM placement.workload")
    assert {row["id"]: row["version"] - 1 for row in rows} == steps
    facts = await around.facts()
    assert steps == Counter(fact.workload_id for fact in facts.values())


async def test_the_process_places_runs_and_ends_what_it_is_told(around: Around) -> None:
    await fed(around)

    assert await ended(around) == WANTED

    assert 1 == around.starts
    await agrees(around)


@pytest.mark.parametrize("kills", KILLS)
async def test_kills_change_neither_the_outcome_nor_the_ledger(around: Around, kills: str) -> None:
    await fed(around)

    assert await ended(around, kills=kills) == WANTED

    assert around.starts > 1
    await agrees(around)


async def test_a_process_that_stops_with_grace_leaves_nothing_unpublished(around: Around) -> None:
    await fed(around)
    process = around.start()
    while sum((await around.states()).values()) < WORKLOADS:
        await asyncio.sleep(0.1)

    process.terminate()

    assert 0 == process.wait(timeout=20)
    assert await around.told()
