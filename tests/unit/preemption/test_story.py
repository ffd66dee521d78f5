"""Random histories of placement, heard by preemption: it never breaks, and sees what there is."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.placement.state.records import Record
from services.preemption.world import HELD
from shared.core.backfill.spare_room import WIDE
from shared.core.model.lifecycle import HOLDING, State
from shared.core.model.nouns import Workload
from shared.core.scoring.cluster import Cluster
from shared.events import nodes, quotas
from shared.events.organisation import CohortApplied, PriorityClassApplied, QueueApplied
from shared.events.plans import EvictionPlanAccepted, ReservationExpired
from shared.events.pods import PodsGone, PodsRunning
from shared.events.quotas import QuotaChanged
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    WorkloadEvicted,
    WorkloadPlaced,
)
from tests.support.placement_driver import a_workload, command, nominated, pod_fact
from tests.support.placement_story import Story
from tests.unit.preemption.world import AT_ONCE, Cell

QUEUES = ("q0", "q1", "q2")
PROTECTED = "kept"
HEARD = (
    quotas.WorkloadNominated,
    quotas.NominationWithdrawn,
    nodes.NodeInventoryReported,
    nodes.GpuHealthReported,
    nodes.NodeRemoved,
    nodes.NodeNoticeReported,
)


def tell(random: Random, batches: int) -> None:
    """A story in which preemption has its say."""
    cell, story = Cell(nodes=0), Story(random, calm=True)
    for _ in range(batches):
        payloads = story.batch(cell.driver)
        cell.hear(*map(applied, (one for one in payloads if isinstance(one, QuotaChanged))))
        cell.hear(*(one for one in payloads if isinstance(one, HEARD)))
        cell.send(*payloads)
        cell.turn(story.seconds() + 1)
        agree(cell)


def applied(fact: QuotaChanged) -> QueueApplied | CohortApplied:
    """The document from which the limits follow."""
    if fact.kind == "cohort":
        return CohortApplied(
            name=fact.name, version=fact.version, parent=fact.parent, flavors=fact.flavors
        )
    return QueueApplied(
        name=fact.name,
        version=fact.version,
        team="red",
        cohort=fact.parent,
        flavors=fact.flavors,
        policy=AT_ONCE,
    )


def agree(cell: Cell) -> None:
    """Everybody who holds devices and is not about to leave is charged, as placement says."""
    world, memory = cell.handler.world, cell.handler.memory
    world.refresh()
    leaving = {name for flight in memory.flights.values() for name in flight.victims}
    records = cell.driver.handler.state.records.alive
    staying = {
        name: one.placement
        for name, one in records.items()
        if one.state in HELD and name not in leaving
    }
    seen = {name: one.placement for name, one in world.occupants.tenants.running.items()}
    assert {name: one for name, one in seen.items() if name not in leaving} == staying
    assert memory.placements.keys() == {n for n, one in records.items() if one.state in HOLDING}
    assert pins(world.cluster) == pins(cell.driver.handler.state.cluster)
    if len(staying) == len(memory.placements) and not memory.flights:
        assert held(world.cluster) == held(cell.driver.handler.state.cluster)


def pins(cluster: Cluster) -> dict[str, int]:
    """Nodes kept for promised starts; evictions may make room in the spare rooms as well."""
    return {
        node.name: node.pin
        for node in cluster.nodes.values()
        if 0 < node.pin < WIDE and node.inventory
    }


def held(cluster: Cluster) -> dict[str, Any]:
    """What is held of each node; how the agents' reports are read is each service's own."""
    return {
        node.name: (
            node.cpu_used_milli,
            node.memory_used_mib,
            {gpu: (use.state, use.milli, use.team) for gpu, use in node.uses.items() if use.milli},
        )
        for node in cluster.nodes.values()
        if node.cpu_used_milli
    }


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.randoms(use_true_random=False))
def test_no_history_makes_it_see_what_is_not_there(random: Random):
    tell(random, 25)


class Game:
    """Three queues of four GPUs each that lend each other all they have."""

    def __init__(self, random: Random) -> None:
        self.cell = Cell(gpus=4, nodes=3)
        self.random = random
        self.born = 0
        self.works: dict[str, Workload] = {}
        self.cell.hear(PriorityClassApplied(name=PROTECTED, version=1, value=1, protected=True))
        for name in QUEUES:
            self.cell.queue(name, 4)

    def step(self) -> None:
        """Something happens, and preemption looks at it."""
        random, cell = self.random, self.cell
        if random.random() < 0.8:
            self.born += 1
            gpus, queue = random.choice((1, 2, 4)), random.choice(QUEUES)
            priority = random.randrange(6)
            workload = a_workload(
                f"w{self.born}",
                gpus=gpus,
                queue=queue,
                priority=priority,
                priority_class=PROTECTED if random.random() < 0.1 else "",
            )
            self.works[workload.id] = workload
            cell.both(nominated(workload, order=self.born))
        for record in self.some(State.PLACED):
            cell.send(pod_fact(PodsRunning, record.workload.id, record.attempt))
        for record in self.some(State.EVICTING, State.CANCELLING):
            self.gone(record)
        for record in self.some(State.RUNNING)[:1]:
            kind = random.choice((CancelWorkload, HoldWorkload))
            cell.send(command(kind, record.workload.id))
        reservations = cell.driver.handler.state.reservations
        for record in self.some(State.QUEUED):
            if reservations.of(record.workload.id) and random.random() < 0.3:
                cell.send(command(CancelWorkload, record.workload.id))
        cell.turn(1)
        if random.random() < 0.3:
            cell.hear_again(random.randrange(40))
        agree(cell)

    def some(self, *states: State) -> list[Record]:
        """About a third of those in these states."""
        records = self.cell.driver.handler.state.records.alive.values()
        return [one for one in records if one.state in states and self.random.random() < 0.3]

    def gone(self, record: Record) -> None:
        """Its pods are gone; who is queued again is nominated again."""
        self.cell.send(pod_fact(PodsGone, record.workload.id, record.attempt))
        if record.state is State.QUEUED:
            self.cell.both(nominated(record.workload, number=record.attempt + 1))


@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.randoms(use_true_random=False))
def test_every_plan_comes_to_an_end(random: Random):
    game = Game(random)
    for _ in range(40):
        game.step()
    for _ in range(3):
        for record in list(game.cell.driver.handler.state.records.alive.values()):
            if record.state in (State.EVICTING, State.CANCELLING):
                game.gone(record)

    assert {} == game.cell.handler.memory.flights
    assert 0 == len(game.cell.driver.handler.state.reservations)
    nobody_went_for_nothing(game.cell.said)
    nobody_went_against_the_rules(game)


def nobody_went_for_nothing(said: list[Any]) -> None:
    """Evictions are those of accepted plans; each of these ends with a start or with a refund."""
    promised: dict[str, str] = {}
    victims: set[tuple[str, str]] = set()
    for fact in said:
        if isinstance(fact, EvictionPlanAccepted):
            assert fact.workload_id not in promised
            promised[fact.workload_id] = fact.plan_id
            victims |= {(fact.plan_id, one.workload_id) for one in fact.victims}
            movers = [one.workload_id for one in fact.victims if one.moves_to is not None]
            assert promised.keys().isdisjoint(movers)
            promised |= {one: f"{fact.plan_id}/{one}" for one in movers}
        elif isinstance(fact, WorkloadEvicted) and fact.preemption is not None:
            victims.remove((fact.preemption.plan_id, fact.workload_id))
        elif isinstance(fact, WorkloadPlaced):
            promised.pop(fact.workload_id, None)
        elif isinstance(fact, ReservationExpired):
            assert promised.pop(fact.workload_id) == fact.plan_id
    assert not promised
    assert not victims


def nobody_went_against_the_rules(game: Game) -> None:
    """Lower priority inside a queue, borrowers across; no pair evicts each other again.

    Who moves goes on, but never for somebody less important.
    """
    evicted: list[tuple[str, str]] = []
    for fact in game.cell.said:
        if not isinstance(fact, EvictionPlanAccepted):
            continue
        mine = game.works[fact.workload_id]
        for one in fact.victims:
            theirs = game.works[one.workload_id]
            if one.moves_to is not None:
                assert theirs.priority <= mine.priority
                assert theirs.spec.priority_class != PROTECTED
                continue
            assert (mine.queue == theirs.queue) == (one.rule == "priority")
            assert mine.queue != theirs.queue or theirs.priority < mine.priority
            assert theirs.spec.priority_class != PROTECTED
            evicted.append((mine.id, theirs.id))
    assert all(
        evicted.count(pair) < 2 or not evicted.count((pair[1], pair[0])) for pair in evicted
    )


def test_many_plans_are_made_in_these_games():
    game = Game(Random(7))
    for _ in range(150):
        game.step()

    assert len(game.cell.plans) > 4
