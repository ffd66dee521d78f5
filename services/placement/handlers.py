"""The placement service: from messages to transitions, trials and rows.

Every message goes to the transition of one workload, one node or one quota; then what waits is
tried, in order; then all rows of the batch are written at once.

Facts about an attempt that is not the present one change nothing: what that attempt held was
given back when it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from services.placement import (
    heads,
    idle_release,
    promise_news,
    resizing,
    shunning,
    store,
    transitions,
)
from services.placement.agreement import Agreement
from services.placement.desk import START_SECONDS, Desk
from services.placement.drains import Drains
from services.placement.evictions import Evictions
from services.placement.fleet import Fleet
from services.placement.growth import Growth
from services.placement.kept_room import KeptRoom
from services.placement.ledger import ledger_writes
from services.placement.queue_drains import QueueDrains
from services.placement.records import Nomination, Record
from services.placement.shunning import Shunning
from services.placement.switching import KIND as SWITCH
from services.placement.switching import Switching
from services.placement.transitions import OWN_REASONS
from services.placement.trials import Trials
from services.placement.workload_rows import workload_writes
from shared.core.cluster import Cluster
from shared.core.lifecycle import State
from shared.core.model import Workload
from shared.core.shunning import DEFAULTS, ShunPolicy
from shared.events import nodes, plans, pods, quotas, topics, workloads
from shared.events.deadlines import DeadlinePassed
from shared.events.envelope import Received
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome
from shared.runtime.trimming import Trim


class PlacementHandler:
    """One cell's placement; `seed` decides ties between equal nodes."""

    name = "placement"

    def __init__(
        self,
        *,
        cell: int = 0,
        seed: int = 0,
        trims: Sequence[Trim] = (),
        mig_switch_seconds: int = 0,
        head_after_hours: int = heads.HEAD_AFTER_HOURS,
        start_seconds: int = START_SECONDS,
        shun: ShunPolicy = DEFAULTS,
    ) -> None:
        self.trims = trims
        self._start_seconds = start_seconds
        self._shun = shun
        self._switch_seconds = mig_switch_seconds
        self._head_after_hours = head_after_hours
        self._cell = cell
        self._seed = seed
        self._actions: dict[type, Callable[[Received, Any], None]] = {
            workloads.WorkloadQueued: self._queued,
            workloads.CancelWorkload: self._with_record(transitions.cancel),
            workloads.HoldWorkload: self._with_record(transitions.hold),
            workloads.ReleaseWorkload: self._with_record(transitions.release),
            workloads.ReprioritiseWorkload: self._reprioritise,
            workloads.ResizeWorkload: self._resize,
            workloads.RequestEviction: self._evict,
            plans.ProposeEvictionPlan: self._plan,
            plans.ReleaseIdleWorkload: self._idle,
            quotas.WorkloadNominated: self._nominated,
            quotas.NominationWithdrawn: self._withdrawn,
            quotas.QuotaChanged: self._quota_changed,
            quotas.QueueUsageTold: self._usage_told,
            quotas.DebtsTold: lambda _, fact: self.desk.turns.debts_told(fact),
            pods.PodsBound: self._of_attempt(transitions.bound),
            pods.PodsRunning: self._of_attempt(self._running),
            pods.PodsFinished: self._of_attempt(self._finished),
            pods.PodsGone: self._of_attempt(self._gone),
            pods.BindRefused: self._of_attempt(self._refused),
            pods.PodsResized: self._of_attempt(resizing.resized),
            pods.ResizeRefused: self._of_attempt(resizing.refused),
            nodes.NodeInventoryReported: self._inventory,
            nodes.GpuHealthReported: self._health,
            nodes.NodeRemoved: self._removed,
            nodes.NodeNoticeReported: self._notice,
            nodes.CordonNode: self._cordon,
            nodes.UncordonNode: self._uncordon,
            DeadlinePassed: self._deadline,
        }
        self._forget()

    def _forget(self) -> None:
        self.desk = Desk(
            cell=self._cell,
            cluster=Cluster(seed=self._seed),
            head_after_hours=self._head_after_hours,
            start_seconds=self._start_seconds,
        )
        self.fleet = Fleet()
        self._quotas: set[str] = set()
        self._trials = Trials(self.desk)
        self._evictions = Evictions(self.desk, self._trials)
        self._growth = Growth(self.desk, self._trials)
        self._queue_drains = QueueDrains(self.desk)
        self.drains = Drains(self.desk, self.fleet, self._evictions)
        self.shunning = Shunning(self.desk, self.fleet, self.drains, self._evictions, self._shun)
        self._switching = Switching(
            self.desk, self.fleet, self._trials, self.drains, self._switch_seconds
        )
        self._kept_room = KeptRoom(self.desk, self.fleet)
        self._agreement = Agreement()

    def topics(self) -> Sequence[tuple[topics.Topic, Sequence[int]]]:
        """Queue, quota, pod and node facts of the cell, eviction plans, and drains of nodes."""
        cell = (self._cell,)
        return [
            (topics.QUEUE_FACTS, cell),
            (topics.QUOTA_FACTS, cell),
            (topics.POD_FACTS, cell),
            (topics.NODE_FACTS, cell),
            (topics.PLAN_COMMANDS, cell),
            (topics.NODE_COMMANDS, cell),
        ]

    def reads(self) -> Collection[type[Wire]]:
        """The payloads that have an action."""
        return self._actions

    async def load(self, reader: Reader) -> None:
        """Rebuild from placement's own tables."""
        self._forget()
        await store.load(self.desk, self.fleet, reader, f"cell-{self._cell}")
        await self.drains.load(reader)
        await self.shunning.load(reader)
        self._trials.load()
        self._growth.load()
        self._queue_drains.load()
        self._kept_room.load()

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Everything is in memory; now and then it is compared with the database."""
        if messages:
            await self._agreement.check(self.desk, reader)

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        """Apply the messages in order, then try what waits; deterministic."""
        desk = self.desk
        desk.begin(now_ms)
        self._quotas = set()
        for message in messages:
            desk.last_cause = message
            action = self._actions.get(type(message.event.payload))
            if action is not None:
                action(message, message.event.payload)
                if desk.reservations.ready or desk.reservations.left:
                    self._evictions.settle(message)
        self._queue_drains.run()
        self._trials.run()
        self._growth.run()
        self._kept_room.tell()
        outcome, changed = desk.outcome, desk.records.take_touched()
        outcome.writes.extend(workload_writes(changed, now_ms))
        outcome.writes.extend(desk.reservations.writes())
        outcome.writes.extend(desk.promises.writes())
        outcome.writes.extend(self.drains.writes())
        outcome.writes.extend(self.shunning.writes(changed))
        outcome.writes.extend(desk.turns.writes())
        outcome.writes.extend(ledger_writes(self.fleet, self._quotas, desk))
        return outcome

    def due(self, now_ms: int) -> Sequence[Received]:
        """Deadlines that have passed, and the rest of trials that were cut short."""
        rest = (
            self._trials.rest(now_ms)
            or self._queue_drains.rest(now_ms)
            or self._growth.rest(now_ms)
        )
        nodes = (*self._switching.due(now_ms), *self.shunning.due(now_ms))
        return [*self.desk.passed(now_ms), *self.desk.promises.due(now_ms), *rest, *nodes]

    def next_due_ms(self) -> int | None:
        """The earliest deadline; 0 when trials were cut short."""
        if self._trials.unfinished or self._queue_drains.unfinished:
            return 0
        deadline_ms = self.desk.due[0][0] if self.desk.due else None
        due = (
            deadline_ms,
            self._growth.next_due_ms(),
            self._switching.next_due_ms(),
            self.shunning.next_due_ms(),
            self.desk.promises.next_due_ms(),
        )
        return min((one for one in due if one is not None), default=None)

    # ── workloads ──

    def _with_record(
        self, transition: Callable[[Desk, Record, Received], None]
    ) -> Callable[[Received, Any], None]:
        def apply(message: Received, payload: Any) -> None:  # noqa: ANN401  # any command
            record = self.desk.records.alive.get(payload.workload_id)
            if record is not None:
                transition(self.desk, record, message)

        return apply

    def _know(self, workload: Workload, version: int) -> Record | None:
        """Its record, made on first sight; None when it is over."""
        record = self.desk.records.alive.get(workload.id)
        if record is None and not self.desk.records.known(workload.id):
            record = Record(
                workload=workload,
                state=State.QUEUED,
                version=version,
                priority=workload.priority,
            )
            self.desk.records.add(record)
        return record

    def _queued(self, _: Received, fact: workloads.WorkloadQueued) -> None:
        self._know(fact.workload, fact.version)

    def _nominated(self, message: Received, fact: quotas.WorkloadNominated) -> None:
        """A nomination may overtake `WorkloadQueued`: they come on two topics."""
        record = self._know(fact.workload, 1)
        if record is None or record.state is not State.QUEUED:
            return
        flavors = tuple(one.flavor for one in fact.flavors)
        nomination = Nomination(
            number=fact.nomination,
            order_key=fact.order_key,
            flavors=flavors,
            strict=fact.strict,
            within_nominal=fact.within_nominal,
        )
        self.desk.nominate(record, nomination, message)
        if self.desk.reservations.of(record.workload.id) is not None:
            self._evictions.nominated_again(record, message)
        elif record.deadline_kind != transitions.BACKOFF:
            self._trials.add(record, message)

    def _withdrawn(self, _: Received, fact: quotas.NominationWithdrawn) -> None:
        record = self.desk.records.alive.get(fact.workload_id)
        if record and record.nomination and record.nomination.number == fact.nomination:
            self.desk.withdraw(record)
            self.desk.records.touch(record)

    def _reprioritise(self, message: Received, command: workloads.ReprioritiseWorkload) -> None:
        record = self.desk.records.alive.get(command.workload_id)
        if record is not None:
            transitions.reprioritise(self.desk, record, command.priority, message)

    def _resize(self, _: Received, command: workloads.ResizeWorkload) -> None:
        record = self.desk.records.alive.get(command.workload_id)
        if record is not None:
            resizing.want(self.desk, record, command.pods)

    def _evict(self, message: Received, command: workloads.RequestEviction) -> None:
        record = self.desk.records.alive.get(command.workload_id)
        if record is not None:
            text = f"evicted by {command.actor or 'an operator'}"
            reason = "operator" if command.reason in OWN_REASONS else command.reason
            transitions.evict(self.desk, record, reason, text, message)

    def _plan(self, message: Received, plan: plans.ProposeEvictionPlan) -> None:
        self._evictions.propose(message, plan)

    def _idle(self, message: Received, plan: plans.ReleaseIdleWorkload) -> None:
        idle_release.release(self.desk, message, plan)

    def _deadline(self, message: Received, fact: DeadlinePassed) -> None:
        if fact.kind == SWITCH:
            self._switching.look(message)
            return
        if fact.kind == shunning.KIND:
            self.shunning.expired(fact.subject, message)
            return
        if fact.kind == promise_news.DUE:
            self.desk.promises.changed()
            return
        record = self.desk.records.alive.get(fact.subject)
        if record is None or record.deadline_kind != fact.kind:
            return
        if fact.kind == transitions.RESERVATION:
            text = "its victims did not leave in time"
            self._evictions.expire(record, "timed-out", text, message)
            return
        if fact.kind != transitions.BACKOFF:
            transitions.deadline(self.desk, record, fact.kind, message)
            return
        self.desk.deadline(record, "", 0)
        if record.nomination is not None:
            self._trials.add(record, message)

    # ── pods ──

    def _of_attempt(
        self, transition: Callable[[Desk, Record, Any, Received], None]
    ) -> Callable[[Received, Any], None]:
        def apply(message: Received, fact: pods.PodFact) -> None:
            record = self.desk.records.alive.get(fact.workload_id)
            if record is not None and record.attempt == fact.attempt and record.holds:
                transition(self.desk, record, fact, message)

        return apply

    def _running(
        self, desk: Desk, record: Record, fact: pods.PodsRunning, cause: Received
    ) -> None:
        self.shunning.started(record, cause)
        transitions.running(desk, record, fact, cause)

    def _finished(
        self, desk: Desk, record: Record, fact: pods.PodsFinished, cause: Received
    ) -> None:
        """What ended well before it was told to run has started, too."""
        if fact.succeeded and record.state in (State.PLACED, State.BOUND):
            self.shunning.started(record, cause)
        transitions.finished(desk, record, fact, cause)

    def _gone(self, desk: Desk, record: Record, fact: pods.PodsGone, cause: Received) -> None:
        if record.reason == transitions.BIND_TIMEOUT and not fact.succeeded:
            self.shunning.gave_up(record, fact.unstarted, cause)
        transitions.pods_gone(desk, record, fact, cause)

    def _refused(
        self, desk: Desk, record: Record, fact: pods.BindRefused, cause: Received
    ) -> None:
        self.shunning.gave_up(record, fact.unstarted, cause)
        transitions.refused_by_cluster(desk, record, fact, cause)

    # ── nodes and quota ──

    def _inventory(self, message: Received, fact: nodes.NodeInventoryReported) -> None:
        if not self.fleet.report(fact):
            return
        self.desk.cluster.put_node(self.drains.seen(self.fleet.present[fact.node.name]))
        self.desk.promises.changed()
        self.desk.freed_nodes[fact.node.name] = message
        if not fact.node.ready:
            self._lost(fact.node.name, message)

    def _health(self, message: Received, fact: nodes.GpuHealthReported) -> None:
        if not self.fleet.health(fact):
            return
        self.desk.cluster.put_node(self.drains.seen(self.fleet.present[fact.node]))
        self.desk.promises.changed()
        if fact.healthy:
            self.desk.freed_nodes[fact.node] = message
        elif fact.gpu < 0:
            self._lost(fact.node, message)

    def _removed(self, message: Received, fact: nodes.NodeRemoved) -> None:
        if self.fleet.remove(fact.node, fact.generation):
            self.desk.cluster.remove_node(fact.node)
            self.drains.removed(fact.node, message)
            self.shunning.forgive(fact.node, "removed", message)
            self.desk.promises.changed()
            self._lost(fact.node, message)

    def _notice(self, message: Received, fact: nodes.NodeNoticeReported) -> None:
        self.drains.notice(message, fact)

    def _cordon(self, message: Received, command: nodes.CordonNode) -> None:
        self.drains.cordon(message, command)

    def _uncordon(self, message: Received, command: nodes.UncordonNode) -> None:
        self.drains.uncordon(message, command)
        self.shunning.forgive(command.node, "uncordoned", message)

    def _lost(self, node: str, cause: Received) -> None:
        self._evictions.lost(node, cause)
        for record in list(self.desk.records.of_node(node)):
            transitions.evict(self.desk, record, "node-lost", f"node {node} is lost", cause)

    def _usage_told(self, _: Received, fact: quotas.QueueUsageTold) -> None:
        self.desk.turns.told(fact)

    def _quota_changed(self, message: Received, fact: quotas.QuotaChanged) -> None:
        changed = self.desk.usage.put(fact)
        self._quotas.update(changed)
        self.desk.freed_queues.update(dict.fromkeys(changed, message))
        if changed:
            self._queue_drains.begin(fact.name)
