"""Quota on a real database: what memory holds is what a restart finds."""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from services.quota.answers import SILENCE_MS
from services.quota.handler import QuotaHandler
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.model.units import Resources
from shared.core.queueing.nomination.pending import Phase
from shared.events import workloads
from shared.events.organisation import CohortApplied, FlavorApplied
from shared.events.quotas import EndedWorkloadsCounted
from shared.events.topics import ORGANISATION_FACTS, QUEUE_FACTS, WORKLOAD_FACTS
from tests.fixtures.servers import Database
from tests.unit.admission.store_desk import Bench
from tests.unit.admission.support import received
from tests.unit.quota.support import a_refusal, a_workload, queue_document

NOW_MS = 1_700_000_000_000


@pytest.fixture
async def bench(database: Database) -> AsyncIterator[Bench]:
    bench = Bench(QuotaHandler(), database.url("quota"))
    await bench.open()
    yield bench
    await bench.close()


class Story:
    """Random lives of workloads, told to quota in batches; one placement is played here."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.offset = 0
        self.count = 0
        self.states: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.attempts: dict[str, int] = {}
        self.priorities: dict[str, int] = {}

    def batch(self, handler: QuotaHandler) -> list[Any]:
        return [self._one(handler) for _ in range(self.random.randrange(1, 9))]

    def _message(self, payload: Any, topic: str = WORKLOAD_FACTS.name) -> Any:
        self.offset += 1
        return received(payload, topic, self.offset, NOW_MS + self.offset)

    def _one(self, handler: QuotaHandler) -> Any:
        if not self.states or self.random.random() < 0.35:
            return self._arrival()
        identifier = self.random.choice(list(self.states))
        draw = self.random.random()
        if self.random.random() < 0.05:
            return self._priority(identifier)
        if self.states[identifier] == "placed":
            return self._release(identifier, draw)
        pending = handler.memory.records.alive.get(identifier)
        if pending is not None and pending.phase is Phase.OFFERED and 0.1 < draw < 0.3:
            return self._refusal(identifier, pending.nomination)
        return self._turn_of_events(identifier, draw)

    def _turn_of_events(self, identifier: str, draw: float) -> Any:
        if draw < 0.1:
            return self._message(self._command(identifier), QUEUE_FACTS.name)
        if draw < 0.2:
            self.states.pop(identifier)
            return self._fact(workloads.WorkloadCancelled, identifier, State.CANCELLED)
        if draw < 0.25:
            return self._fact(workloads.WorkloadHeld, identifier, State.HELD)
        if draw < 0.35:
            return self._fact(workloads.WorkloadReleased, identifier, State.QUEUED)
        return self._placement(identifier)

    def _arrival(self) -> Any:
        self.count += 1
        identifier = f"w{self.count:05}"
        self.states[identifier] = "queued"
        workload = a_workload(
            identifier,
            gpus=self.random.randrange(1, 4),
            queue=self.random.choice(["q", "r", "nowhere"]),
            priority=self.random.randrange(3),
        )
        self.priorities[identifier] = workload.priority
        return self._message(
            workloads.WorkloadQueued(workload=workload, body_hash="h"), QUEUE_FACTS.name
        )

    def _command(self, identifier: str) -> Any:
        kind = self.random.choice(["hold", "release", "cancel"])
        if kind == "hold":
            return workloads.HoldWorkload(workload_id=identifier, team="t")
        if kind == "release":
            return workloads.ReleaseWorkload(workload_id=identifier, team="t")
        return workloads.CancelWorkload(workload_id=identifier, team="t")

    def _priority(self, identifier: str) -> Any:
        self.priorities[identifier] = self.random.randrange(9)
        placed = self.states[identifier] == "placed"
        state = State.RUNNING if placed else State.QUEUED
        return self._fact(workloads.WorkloadReprioritised, identifier, state)

    def _refusal(self, identifier: str, nomination: int) -> Any:
        return self._message(a_refusal(identifier, nomination))

    def _placement(self, identifier: str) -> Any:
        self.states[identifier] = "placed"
        self.attempts[identifier] = self.attempts.get(identifier, 0) + 1
        placement = Placement(
            flavor="h100", pods=(), charge=Resources(gpu_milli=1000, cpu_milli=1, memory_mib=1)
        )
        return self._fact(
            workloads.WorkloadPlaced,
            identifier,
            State.PLACED,
            placement=placement,
            placed_at_ms=NOW_MS + self.offset,
            submitted_at_ms=1,
        )

    def _release(self, identifier: str, draw: float) -> Any:
        freed = {
            "released_at_ms": NOW_MS + self.offset,
            "released_attempt": self.attempts[identifier],
        }
        if draw < 0.5:
            self.states[identifier] = "queued"
            return self._fact(workloads.WorkloadRequeued, identifier, State.QUEUED, **freed)
        self.states.pop(identifier)
        return self._fact(workloads.WorkloadSucceeded, identifier, State.SUCCEEDED, **freed)

    def _fact(self, kind: Any, identifier: str, state: State, **rest: Any) -> Any:
        self.versions[identifier] = self.versions.get(identifier, 1) + 1
        common = {
            "workload_id": identifier,
            "team": "t",
            "queue": "q",
            "version": self.versions[identifier],
            "state": state,
            "attempt": self.attempts.get(identifier, 0),
            "priority": self.priorities.get(identifier, 0),
        }
        return self._message(kind(**(common | rest)))


def memory(handler: QuotaHandler) -> Any:
    """Everything that decides, in a form that can be compared."""
    core = handler.memory.core
    return (
        {
            one.id: (
                one.phase,
                one.held,
                one.hold_asked,
                one.cancelled,
                one.key,
                one.version if one.phase is not Phase.GONE else 0,
                one.nomination,
                one.flavor,
                one.charge,
                one.attempt,
                one.request,
                one.offered if one.phase in (Phase.OFFERED, Phase.REFUSED) else (),
            )
            for one in handler.memory.records.alive.values()
        },
        {
            node.name: (
                node.document,
                node.limits,
                {flavor: sums for flavor, sums in node.used.items() if any(sums)},
                {flavor: sums for flavor, sums in node.promised.items() if any(sums)},
            )
            for node in core.tree.nodes.values()
        },
        {
            name: sorted(line.open)
            for name, line in core.lines.items()
            if line.open or line.classes
        },
        core.open,
        handler.memory.records.early,
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_restart_finds_what_memory_held(
    bench: Bench, database: Database, seed: int
) -> None:
    story = Story(seed)
    documents = (
        FlavorApplied(name="h100", version=1, products=("H100",)),
        CohortApplied(name="c", version=1),
        queue_document("q", gpus=5, cohort="c"),
        queue_document("r", gpus=9, cohort="c", strict=True),
    )
    topic = ORGANISATION_FACTS.name
    await bench.decide([story._message(one, topic) for one in documents], NOW_MS)

    handler = bench.handler
    assert isinstance(handler, QuotaHandler)
    for turn in range(60):
        await bench.decide(story.batch(handler), NOW_MS + turn)
        if turn == 30:
            changed = queue_document("q", gpus=2, version=2, cohort="c", held=seed == 3)
            await bench.decide([story._message(changed, topic)], NOW_MS)
        if turn % 20 == 19:
            fresh = QuotaHandler()
            await fresh.load(bench.pool)
            assert memory(fresh) == memory(handler)

    rows = database.execute("SELECT count(*) FROM quota.usage_history")
    assert int(rows.strip()) > 5


async def test_use_in_the_history_adds_up_to_what_was_charged(
    bench: Bench, database: Database
) -> None:
    handler = bench.handler
    assert isinstance(handler, QuotaHandler)
    story = Story(9)
    for turn in range(60):
        await bench.decide(story.batch(handler), NOW_MS + turn)

    ended = int(database.execute("SELECT count(*) FROM quota.usage_history").strip())
    running = [one for one in handler.memory.records.alive.values() if one.phase is Phase.PLACED]
    # a placement of what was cancelled while it was unknown here is charged to nobody
    assert ended + len(running) == sum(story.attempts.values())
    assert ended > 5


async def test_answers_are_waited_for_anew_after_a_restart(bench: Bench) -> None:
    story = Story(1)
    documents = [queue_document("q", gpus=1)]
    await bench.decide([story._message(one, ORGANISATION_FACTS.name) for one in documents], NOW_MS)
    queued = workloads.WorkloadQueued(workload=a_workload("w1"), body_hash="h")
    await bench.decide([story._message(queued, QUEUE_FACTS.name)], NOW_MS)
    fresh = QuotaHandler()
    await fresh.load(bench.pool)

    later_ms = NOW_MS + 60_000
    review = fresh.due(later_ms)
    assert [one.topic for one in review] == ["deadline/debts/cell-0/1"]
    fresh.decide(review, later_ms)
    assert fresh.memory.answers.due_ms() == later_ms + SILENCE_MS


async def test_a_priority_that_came_before_its_workload_outlives_a_restart(bench: Bench) -> None:
    story = Story(1)
    documents = [queue_document("q", gpus=1)]
    await bench.decide([story._message(one, ORGANISATION_FACTS.name) for one in documents], NOW_MS)
    story.states["w1"], story.versions["w1"] = "queued", 1
    await bench.decide([story._priority("w1")], NOW_MS)
    bench.handler = QuotaHandler()
    await bench.open()

    queued = workloads.WorkloadQueued(workload=a_workload("w1"), body_hash="h")
    await bench.decide([story._message(queued, QUEUE_FACTS.name)], NOW_MS)
    fresh = QuotaHandler()
    await fresh.load(bench.pool)

    assert story.priorities["w1"] == 2
    assert fresh.memory.records.alive["w1"].priority == 2


async def test_the_role_of_the_service_cannot_rewrite_its_audit(bench: Bench) -> None:
    rows = await bench.pool.fetch(
        "SELECT has_table_privilege('muster_quota', 'quota.audit', 'UPDATE') AS may"
    )

    assert rows[0]["may"] is False


async def test_totals_of_ended_workloads_outlive_the_process_and_are_told_again(
    bench: Bench,
) -> None:
    story = Story(1)
    lives = [story._message(fact_of_end(f"w{i}")) for i in range(3)]
    await bench.decide(lives, NOW_MS)
    bench.handler = QuotaHandler()
    await bench.open()

    (due,) = [one for one in bench.handler.due(NOW_MS) if one.event.subject == "cell-0"]
    outcome = await bench.decide([due], NOW_MS)

    assert [EndedWorkloadsCounted(team="t", ended=3)] == [one.payload for one in outcome.emits]


def fact_of_end(identifier: str) -> workloads.WorkloadFact:
    return workloads.WorkloadCancelled(
        workload_id=identifier,
        team="t",
        queue="q",
        version=2,
        state=State.CANCELLED,
        attempt=0,
        priority=0,
    )
