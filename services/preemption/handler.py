"""The preemption service: facts go into memory, and now and then it looks for victims.

It reads much and decides little, so a fact costs as little as can be: only the types that it needs
are decoded, none is noted in the inbox, and nothing is worked out before a search asks for it.
Searches are turns of their own, begun by deadlines; they pause four times as long as they took, so
that facts are never kept waiting for long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import replace as changed

from services.preemption.idle import IdleReclaim
from services.preemption.memory import CLASS, COHORT, DEBT, NODE, QUEUE, TEAM, PreemptionMemory
from services.preemption.moving import MOVES_PER_HOUR
from services.preemption.planner import Planner
from services.preemption.records import UNKNOWN, KnownNode
from services.preemption.world import World
from shared.adapters.clock import SystemClock
from shared.core.model.decision import Reason
from shared.core.model.value import replace
from shared.events import idleness, nodes, organisation, plans, quotas, topics, workloads
from shared.events.deadlines import DeadlinePassed, deadline_message
from shared.events.envelope import Received
from shared.events.topics import Topic
from shared.events.workloads import Wire
from shared.ports.clock import Clock
from shared.ports.reader import Reader
from shared.runtime.handler import Emit, Outcome

PAUSE_FACTOR: Final = 4
TURN_SECONDS: Final = 0.1
"""A turn that has searched so long ends soon."""
SOLVABLE: Final = frozenset(
    {
        Reason.WAITING_FOR_QUOTA,
        Reason.NO_CAPACITY,
        Reason.GANG_SHORT,
        Reason.TOPOLOGY,
        Reason.NO_MIG_POSITION,
        Reason.NODES_UNHEALTHY,
    }
)
"""Refusals that others could solve by leaving."""
TRANSITIONS: Final = (
    workloads.WorkloadPlaced,
    workloads.WorkloadRunning,
    workloads.WorkloadResized,
    workloads.WorkloadSucceeded,
    workloads.WorkloadFailed,
    workloads.WorkloadCancelled,
    workloads.WorkloadCancelling,
    workloads.WorkloadEvicted,
    workloads.WorkloadRequeued,
    workloads.WorkloadHeld,
    workloads.WorkloadReleased,
    workloads.WorkloadReprioritised,
)
"""No workload is evicted before it runs, so `WorkloadBound` says nothing here."""


class PreemptionHandler:
    """One cell's preemption; `seed` is that of placement."""

    name = "preemption"
    linger_seconds = 0.05
    by_version = True

    def __init__(
        self,
        *,
        cell: int = 0,
        seed: int = 0,
        moves_per_hour: int = MOVES_PER_HOUR,
        clock: Clock | None = None,
    ) -> None:
        self._cell = cell
        self._moves_per_hour = moves_per_hour
        self._seed = seed
        self._clock = clock or SystemClock()
        self._actions: dict[type[Wire], Callable[[Any], None]] = {
            quotas.WorkloadNominated: self._nominated,
            quotas.NominationWithdrawn: lambda fact: self.planner.withdrawn(fact.workload_id),
            quotas.DebtsTold: self._debts,
            workloads.PlacementRefused: self._refused,
            plans.EvictionPlanAccepted: lambda fact: self.planner.accepted(fact, self._now_ms),
            plans.EvictionPlanRefused: lambda fact: self.planner.refused_plan(fact, self._now_ms),
            plans.ReservationExpired: lambda fact: self.planner.expired(fact, self._now_ms),
            idleness.IdlenessNoticed: self._idle,
            idleness.IdlenessEnded: self._idle,
            organisation.QueueApplied: lambda fact: self._document(QUEUE, fact),
            organisation.CohortApplied: lambda fact: self._document(COHORT, fact),
            organisation.PriorityClassApplied: self._class,
            organisation.TeamApplied: self._team,
            organisation.DocumentDeleted: self._deleted,
            nodes.NodeInventoryReported: self._inventory,
            nodes.GpuHealthReported: self._health,
            nodes.NodeRemoved: self._removed,
            nodes.NodeNoticeReported: self._notice,
            nodes.NodeCordoned: lambda fact: self._cordon(fact.node, cordoned=True),
            nodes.NodeUncordoned: lambda fact: self._cordon(fact.node, cordoned=False),
            nodes.NodeShunned: lambda fact: self._shun(fact.node, shunned=True),
            nodes.NodeUnshunned: lambda fact: self._shun(fact.node, shunned=False),
            nodes.NodesKept: self._kept,
            nodes.NodeDevicesLearned: self._learned,
            **dict.fromkeys(TRANSITIONS, self._changed),
        }
        self._begin(PreemptionMemory())

    def _begin(self, memory: PreemptionMemory) -> None:
        self.memory = memory
        self.world = World(memory, self._seed)
        self.planner = Planner(memory, self.world, self._cell, self._moves_per_hour)
        self.idle = IdleReclaim(memory)
        self._turns = 0
        self._now_ms = 0
        self._pause_until_ms = 0

    def topics(self) -> Sequence[tuple[topics.Topic, Sequence[int]]]:
        """Organisation, nominations, facts of the ledger, of nodes and of idle work."""
        cell = (self._cell,)
        return [
            (topics.ORGANISATION_FACTS, (0,)),
            (topics.QUOTA_FACTS, cell),
            (topics.WORKLOAD_FACTS, cell),
            (topics.NODE_FACTS, cell),
            (topics.IDLENESS_FACTS, cell),
        ]

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return (DeadlinePassed, *self._actions)

    async def load(self, reader: Reader) -> None:
        """Rebuild from the journal."""
        memory = PreemptionMemory()
        await memory.load(reader, f"cell-{self._cell}")
        self._begin(memory)

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Everything is in memory."""

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Take in the facts; in a turn, look for victims."""
        self._now_ms = now_ms
        outcome = Outcome()
        for message in messages:
            payload = message.event.payload
            if isinstance(payload, DeadlinePassed):
                self._turn(message, outcome)
            else:
                action = self._actions.get(type(payload))
                if action is not None:
                    action(payload)
        outcome.writes.extend(self.memory.journal.writes())
        return outcome

    def due(self, now_ms: int) -> Sequence[Received]:
        """A turn, when another is due and the last one was long enough ago."""
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > now_ms:
            return ()
        self._turns += 1
        return (deadline_message("turn", f"cell-{self._cell}", self._turns, now_ms),)

    def next_due_ms(self) -> int | None:
        """When the next turn begins."""
        turns = (self.planner.lines.due_ms(), self.idle.due_ms())
        due_ms = min((one for one in turns if one is not None), default=None)
        return None if due_ms is None else max(due_ms, self._pause_until_ms)

    def _turn(self, message: Received, outcome: Outcome) -> None:
        started = self._clock.monotonic_seconds()
        name = message.event.id
        released = self.idle.turn(name, self._now_ms)
        proposed: list[plans.ProposeEvictionPlan | plans.ReleaseIdleWorkload] = [*released]

        def has_time() -> bool:
            return self._clock.monotonic_seconds() < started + TURN_SECONDS

        plans_made = (*proposed, *self.planner.turn(name, self._now_ms, has_time))
        self._tell(topics.PLAN_COMMANDS, plans_made, message, outcome)
        refusals = self.planner.refusals.end()
        self._tell(topics.PREEMPTION_FACTS, refusals, message, outcome)
        took_ms = (self._clock.monotonic_seconds() - started) * 1000
        self._pause_until_ms = self._now_ms + round(took_ms * (1 + PAUSE_FACTOR))

    def _tell(
        self, topic: Topic, payloads: Iterable[Any], cause: Received, outcome: Outcome
    ) -> None:
        for one in payloads:
            emit = Emit(
                payload=one,
                topic=topic,
                subject=one.workload_id,
                cause=cause,
                partition=self._cell,
            )
            outcome.emits.append(emit)

    # ── facts ──

    def _nominated(self, fact: quotas.WorkloadNominated) -> None:
        self.memory.nominated(fact)
        if not fact.next_of_own:  # nothing goes for it before it is refused
            self.planner.nominated(fact.workload.id)

    def _refused(self, fact: workloads.PlacementRefused) -> None:
        solvable = fact.reason in SOLVABLE
        if not self.memory.refused(fact.workload_id, solvable=solvable):
            return
        if solvable:
            self.planner.refused(fact.workload_id)
        else:
            self.planner.withdrawn(fact.workload_id)

    def _changed(self, fact: workloads.WorkloadFact) -> None:
        if self.memory.changed(fact):
            self.planner.changed(fact.workload_id, fact.state)

    def _idle(self, fact: idleness.IdlenessNoticed | idleness.IdlenessEnded) -> None:
        if isinstance(fact, idleness.IdlenessNoticed):
            self.idle.noticed(fact)
        else:
            self.idle.ended(fact)

    def _document(
        self, kind: str, fact: organisation.QueueApplied | organisation.CohortApplied
    ) -> None:
        known = self.memory.documents.get(fact.name)
        if known is None or known.version < fact.version:
            self.memory.put(kind, self.memory.documents, fact.name, fact)
            self.world.apply(fact)

    def _class(self, fact: organisation.PriorityClassApplied) -> None:
        self.memory.put(CLASS, self.memory.protected, fact.name, fact.protected)
        self.memory.dirty.update(dict.fromkeys(self.memory.placements))

    def _team(self, fact: organisation.TeamApplied) -> None:
        self.idle.policy(fact)
        if fact.loss_gpu_seconds_per_hour is not None:
            self.memory.put(
                TEAM, self.memory.loss_limits, fact.name, fact.loss_gpu_seconds_per_hour
            )
        elif self.memory.loss_limits.pop(fact.name, None) is not None:
            self.memory.journal.drop(TEAM, fact.name)

    def _deleted(self, deleted: organisation.DocumentDeleted) -> None:
        """What a class protected stays protected: work of it may still run."""
        empty = organisation.emptied(deleted)
        match empty:
            case organisation.QueueApplied():
                self._document(QUEUE, empty)
            case organisation.CohortApplied():
                self._document(COHORT, empty)
            case organisation.TeamApplied():
                self._team(empty)
            case _:
                pass

    def _inventory(self, fact: nodes.NodeInventoryReported) -> None:
        known = self.memory.machines.get(fact.node.name, UNKNOWN)
        machine = changed(known, generation=fact.generation, node=fact.node)
        self._machine(fact.node.name, machine)

    def _health(self, fact: nodes.GpuHealthReported) -> None:
        known = self.memory.machines.get(fact.node)
        if known is None or known.node is None or known.generation >= fact.generation:
            return
        if fact.gpu < 0:
            node = replace(known.node, ready=fact.healthy)
        else:
            gpus = (
                replace(one, healthy=fact.healthy) if one.index == fact.gpu else one
                for one in known.node.gpus
            )
            node = replace(known.node, gpus=tuple(gpus))
        self._machine(fact.node, changed(known, generation=fact.generation, node=node))

    def _notice(self, fact: nodes.NodeNoticeReported) -> None:
        """Placement tells what comes of it; here it only makes older news old."""
        known = self.memory.machines.get(fact.node)
        if known is not None and known.node is not None:
            self._machine(fact.node, changed(known, generation=fact.generation))

    def _learned(self, fact: nodes.NodeDevicesLearned) -> None:
        self.memory.learned(fact)

    def _cordon(self, name: str, *, cordoned: bool) -> None:
        """What placement tells of a node may be read before its inventory: another topic."""
        known = self.memory.machines.get(name, UNKNOWN)
        self._put(name, changed(known, cordoned=cordoned))

    def _shun(self, name: str, *, shunned: bool) -> None:
        known = self.memory.machines.get(name, UNKNOWN)
        self._put(name, changed(known, shunned=shunned))

    def _debts(self, fact: quotas.DebtsTold) -> None:
        memory = self.memory
        for node, debt in fact.debts.items():
            if memory.debts.get(node, (0, 0))[1] < fact.at_ms:
                memory.put(DEBT, memory.debts, node, (debt, fact.at_ms))
                self.world.tree.set_debt(node, debt)

    def _kept(self, fact: nodes.NodesKept) -> None:
        self.memory.keep(fact)
        self.world.keep()

    def _removed(self, fact: nodes.NodeRemoved) -> None:
        """Placement takes back what it told of it; what it told since is of the next machine."""
        known = self.memory.machines.get(fact.node)
        if known is not None and known.node is not None:  # as placement does
            self._machine(fact.node, changed(known, generation=fact.generation, node=None))

    def _machine(self, name: str, machine: KnownNode) -> None:
        known = self.memory.machines.get(name)
        if known is None or known.generation < machine.generation:
            self._put(name, machine)

    def _put(self, name: str, machine: KnownNode) -> None:
        self.memory.put(NODE, self.memory.machines, name, machine)
        self.world.report(name, machine)
