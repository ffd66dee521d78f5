"""The cost ledger on a real broker and database: exact under kills, copies and reordering."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from shared.adapters.kafka import KafkaPublisher
from shared.adapters.kafka.topics import create_topics
from shared.core.quota.cost import DAY_MS, Interval, by_team_and_day
from shared.core.quota.prices import DatedPrice, Price
from shared.events import topics, workloads
from shared.events.codec import encode_headers, encode_payload
from shared.events.topics import TOPICS
from shared.ports.kafka_access import KafkaAccess
from shared.ports.store import OutboxRow
from tests.fixtures.servers import Database
from tests.support.agents import MonitoringProcess
from tests.unit.monitoring import builders as b

WORKLOADS = 1_500
DATED = tuple(
    DatedPrice(since=since, microdollars_per_gpu_hour=price)
    for since, price in (("2023-11-16T06:00:00Z", 3_000_007), ("2023-11-18", 1_000_003))
)
"""Within the days of the story, one of them before its second version."""


class Story:
    """Facts about many workloads, and the intervals that they tell of."""

    def __init__(self, seed: int) -> None:
        self.intervals: list[Interval] = []
        self.prices: list[Price] = []
        self.rows: list[OutboxRow] = []
        self._generator = random.Random(seed)
        for version in (1, 2):
            applied_at_ms = b.START_MS + version * DAY_MS
            fact = b.a_flavor(2_000_001 * version, version=version, prices=DATED)
            self.prices += fact.prices_from(applied_at_ms)
            self._tell(fact, applied_at_ms)
        for number in range(WORKLOADS):
            self._workload(f"w{number}", self._generator.choice(["vision", "speech"]))

    def _workload(self, workload_id: str, team: str) -> None:
        draw = self._generator
        placed_ms = b.START_MS + draw.randrange(5 * DAY_MS)
        ended_ms = placed_ms + draw.randrange(1, 2 * DAY_MS)
        ends = draw.random() < 0.9
        self._tell(b.queued(workload_id, team))
        self._tell(b.placed(2, workload_id, team, at_ms=placed_ms))
        if ends:
            fact = b.released(workloads.WorkloadSucceeded, 3, ended_ms, workload_id, team)
            self._tell(fact)
        self.intervals.append(
            Interval(
                team=team,
                flavor="h100",
                gpu_milli=1000,
                started_at_ms=placed_ms,
                ended_at_ms=ended_ms if ends else None,
            )
        )

    def _tell(self, payload: workloads.Wire, time_ms: int = b.START_MS) -> None:
        one = b.received(payload, time_ms)
        self.rows.append(
            OutboxRow(
                seq=len(self.rows) + 1,
                event_id=one.event.id,
                topic=one.topic,
                partition=0,
                key=one.event.key,
                headers=encode_headers(one.event),
                value=encode_payload(payload),
            )
        )

    def expected(self, until_ms: int) -> str:
        costs = by_team_and_day(self.intervals, {"h100": self.prices}, 0, until_ms)
        return "\n".join(
            f"{team}|{day}|{cost.gpu_milli_ms}|{cost.microdollars}"
            for (team, day, _), cost in sorted(costs.items())
        )


class Service(MonitoringProcess):
    """The monitoring process, and what it has written."""

    def consumed(self) -> int:
        rows = self.database.execute("SELECT count(*) FROM monitoring.inbox")
        return int(rows)

    def wait(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while self.consumed() < count:
            assert time.monotonic() < deadline, f"{self.consumed()} of {count} consumed"
            time.sleep(0.05)

    def costs(self, until_ms: int) -> str:
        return self.database.execute(
            "SELECT team, day - date '1970-01-01', gpu_milli_ms, microdollars"
            f" FROM monitoring.cost_by_team_and_day(0, {until_ms}) ORDER BY 1, 2"
        ).strip()


@pytest.fixture
def service(kafka: str, database: Database, topic_prefix: str) -> Iterator[Service]:
    asyncio.run(create_topics(KafkaAccess(bootstrap=kafka), topic_prefix, TOPICS))
    one = Service(kafka, database, topic_prefix, MUSTER_BATCH_MESSAGES_MAX="100")
    yield one
    one.end(signal.SIGKILL)


async def publish(kafka: str, prefix: str, rows: list[OutboxRow]) -> None:
    publisher = KafkaPublisher(KafkaAccess(bootstrap=kafka), prefix)
    await publisher.publish(rows)
    await publisher.close()


def copies(rows: list[OutboxRow], seed: int) -> list[OutboxRow]:
    """The rows with a third of them told again later, as after a lost acknowledgement."""
    again = random.Random(seed).sample(rows, len(rows) // 3)
    return [*rows, *sorted(again, key=lambda row: row.seq)]


def test_costs_are_exact_under_kills_copies_and_reordering(
    kafka: str, topic_prefix: str, service: Service
):
    story = Story(seed=3)
    mixed = sorted(story.rows, key=lambda row: (row.topic != topics.WORKLOAD_FACTS.name, row.seq))
    asyncio.run(publish(kafka, topic_prefix, copies(mixed, seed=4)))
    for share in (0.2, 0.5, 0.8):
        service.start()
        service.wait(int(share * len(story.rows)))
        service.end(signal.SIGKILL)
    service.start()
    service.wait(len(story.rows))

    for until_ms in (b.START_MS + 3 * DAY_MS + 7, b.START_MS + 9 * DAY_MS):
        assert story.expected(until_ms) == service.costs(until_ms)


def test_ends_told_before_their_begins_give_the_same_costs(
    kafka: str, topic_prefix: str, service: Service
):
    story = Story(seed=5)
    rows = story.rows[::-1]
    asyncio.run(publish(kafka, topic_prefix, rows))
    service.start()
    service.wait(len(rows))

    until_ms = b.START_MS + 9 * DAY_MS
    assert story.expected(until_ms) == service.costs(until_ms)


@pytest.mark.parametrize("order", [1, -1], ids=["begin first", "end first"])
def test_an_attempt_that_ended_before_it_began_by_a_clock_that_fell_costs_nothing(
    kafka: str,
    topic_prefix: str,
    service: Service,
    order: int,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(sys.modules[__name__], "WORKLOADS", 0)
    story, placed_ms = Story(seed=7), b.START_MS + DAY_MS
    facts = [
        b.queued("fell", "vision"),
        b.placed(2, "fell", "vision", at_ms=placed_ms),
        b.released(workloads.WorkloadSucceeded, 3, placed_ms - 3_600_000, "fell", "vision"),
    ]
    for fact in facts[::order]:
        story._tell(fact)
    service.start()
    for count, row in enumerate(story.rows, 1):  # each is a unit of its own
        asyncio.run(publish(kafka, topic_prefix, [row]))
        service.wait(count)

    spans = "SELECT ended_at_ms - started_at_ms FROM monitoring.cost_interval"
    assert "0" == service.database.execute(spans).strip()
    assert "" == service.costs(b.START_MS + 9 * DAY_MS)


def test_gauges_of_a_restarted_service_are_those_before(
    kafka: str, topic_prefix: str, service: Service
):
    story = Story(seed=6)
    asyncio.run(publish(kafka, topic_prefix, story.rows))
    service.start()
    service.wait(len(story.rows))
    before = gauges(service)
    service.end(signal.SIGTERM)
    service.start()
    deadline = time.monotonic() + 30
    while not (after := gauges(service)) and time.monotonic() < deadline:
        time.sleep(0.1)

    still_placed = sum(one.ended_at_ms is None for one in story.intervals)
    assert before == after
    assert still_placed == sum(before[name] for name in before if "muster_workloads" in name)
    assert still_placed == before['muster_gpu_allocated{flavor="h100"}']


def gauges(service: Service) -> dict[str, float]:
    """Samples that follow from memory alone and not from the time."""
    names = ("muster_workloads{", "muster_queue_workloads{", "muster_gpu_allocated{")
    return {name: value for name, value in service.metric(*names).items() if value}
