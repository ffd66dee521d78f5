"""The state of one cell in memory, and the outcome that the batch in hand is writing.

Everything that a transition does passes through here once: charge and release in the cluster
arrays, the quota and the ledger rows; facts, commands and audit rows; deadlines.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from services.placement.backfill.headroom import Headroom
from services.placement.backfill.heads import HEAD_AFTER_HOURS
from services.placement.backfill.kept_quota import KeptQuota
from services.placement.backfill.promises import Promises
from services.placement.backfill.quota_heads import QuotaHeads
from services.placement.state.allocations import LedgerRows
from services.placement.state.records import Nomination, Record, Records
from services.placement.state.reservations import Reservations
from services.placement.state.spent_budgets import SpentBudgets
from services.placement.state.turns import Turns
from services.placement.state.usage import Usage
from shared.core.model.decision import Refusal
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement, PodPlacement
from shared.core.model.reason import Reason
from shared.core.placement.resize import joined, shrunk_to, surplus
from shared.core.queueing import WaitingIndex
from shared.core.scoring import Cluster
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received
from shared.events.topics import AGENT_COMMANDS, POD_COMMANDS, WORKLOAD_FACTS
from shared.events.workloads import PlacementRefused, Wire, WorkloadFact
from shared.runtime.handler import Change, Emit, Outcome

START_SECONDS: Final = 120
"""Bound but not running after so long: evicted and queued again."""
START_SECONDS_MAX: Final = 1_800
"""From placing to running at most, with the binder's backlog and the pull of images."""
TIME_TO_LIVE: Final = "time-to-live"
"""Kind of the deadline that stands whatever the state: it follows from the submission alone."""


@dataclass(slots=True, kw_only=True)
class Desk:
    """Memory of the placement service and the outcome of the present batch."""

    cell: int
    cluster: Cluster
    head_after_hours: int = HEAD_AFTER_HOURS
    start_seconds: int = START_SECONDS
    records: Records = field(default_factory=Records)
    usage: Usage = field(default_factory=Usage)
    spent_budgets: SpentBudgets = field(default_factory=SpentBudgets)
    reservations: Reservations = field(init=False)
    turns: Turns = field(init=False)
    waiting: WaitingIndex = field(init=False)
    promises: Promises = field(init=False)
    kept_quota: KeptQuota = field(init=False)
    headroom: Headroom = field(init=False)
    quota_heads: QuotaHeads = field(init=False)
    epoch: int = 0
    now_ms: int = 0
    outcome: Outcome = field(default_factory=Outcome)
    ledger: LedgerRows = field(default_factory=LedgerRows)
    freed_nodes: dict[str, Received] = field(default_factory=dict)
    """Nodes on which something became free or better in this batch, with the cause."""
    freed_queues: dict[str, Received] = field(default_factory=dict)
    """Queues whose quota grew or was given back in this batch, with the cause."""
    due: list[tuple[int, str, str, int]] = field(default_factory=list)
    """Heap of (due_ms, workload id, kind, version); stale entries are skipped."""
    last_cause: Received | None = None
    off_size: dict[str, None] = field(default_factory=dict)
    """Workloads that were seen to run with another number of pods than they are to have."""
    nominated: dict[str, Received] = field(default_factory=dict)
    """Nominations of this batch: the cause of what is told about them in it, and only in it."""
    _refusal_at: dict[str, int] = field(default_factory=dict)
    """Where the last refusal of a workload was put among what this batch tells."""

    def __post_init__(self) -> None:
        """Reservations are held in this cluster and this quota."""
        self.reservations = Reservations(self.cluster, self.usage, self.records)
        self.turns = Turns(self.usage, self.records)
        self.waiting = WaitingIndex(self.turns.rank, self.turns.rank_at_least)
        self.promises = Promises(self.cluster, self.records, self.head_after_hours)
        head_after_ms = self.head_after_hours * 3_600_000
        self.kept_quota = KeptQuota(
            self.usage, self.turns, self.waiting, self.promises, head_after_ms
        )
        self.headroom = Headroom(self.usage, self.spent_budgets, self.kept_quota)
        self.quota_heads = QuotaHeads(
            self.usage, self.records, self.headroom, self.promises, self.kept_quota
        )

    def begin(self, now_ms: int) -> None:
        """Start a batch."""
        self.now_ms = self.kept_quota.now_ms = now_ms
        self.promises.begin()
        self.outcome = Outcome()
        self.ledger = LedgerRows()
        self.freed_nodes = {}
        self.freed_queues = {}
        self.nominated = {}
        self._refusal_at = {}

    def pins_for(self, record: Record) -> tuple[int, ...]:
        """Kept nodes that it may use now, by being owed, too."""
        yields = self.turns.yields_to(record, self.promises.standing)
        return self.promises.pins_for(record, self.now_ms, yields)

    def tell(
        self,
        record: Record,
        before: State,
        fact: type[WorkloadFact],
        cause: Received,
        **more: Any,  # noqa: ANN401  # fields of the fact
    ) -> None:
        """Emit a fact with the whole state after the change, and its audit row."""
        workload = record.workload
        self.records.touch(record)
        payload = fact(
            workload_id=workload.id,
            team=workload.team,
            queue=workload.queue,
            version=record.version,
            state=record.state,
            attempt=record.attempt,
            priority=record.priority,
            cell=workload.cell,
            reason=record.reason,
            message=record.message,
            pod_reason=record.pod_reason,
            priority_class=record.priority_class,
            **more,
        )
        self._emit(payload, workload.id, cause, WORKLOAD_FACTS)
        self.outcome.changes.append(
            Change(
                subject=workload.id,
                version=record.version,
                before=before.value,
                after=record.state.value,
                cause=cause,
                actor=getattr(cause.event.payload, "actor", ""),
            )
        )

    def command(self, record: Record, payload: Wire, cause: Received) -> None:
        """Emit a command to the binder."""
        self._emit(payload, record.workload.id, cause, POD_COMMANDS)

    def command_node(self, payload: Wire, node: str, cause: Received) -> None:
        """Emit a command to the agent of a node."""
        self._emit(payload, node, cause, AGENT_COMMANDS)

    def refuse(
        self, record: Record, refusal: Refusal, cause: Received, *, again: bool = False
    ) -> None:
        """Tell why it waits, if the reason is another than before.

        `again`: tell it anyway, in place of what this batch has told about it already.
        """
        known = record.refused_as is refusal.reason and not again
        if known or record.nomination is None:
            return
        if again:
            self._take_back_refusal(record.workload.id)
        record.refused_as = refusal.reason
        record.because(refusal.reason, refusal.message)
        self.records.touch(record)
        payload = PlacementRefused(
            workload_id=record.workload.id,
            team=record.workload.team,
            queue=record.workload.queue,
            nomination=record.nomination.number,
            reason=refusal.reason,
            message=refusal.message,
            next_step=refusal.next_step,
            evidence=refusal.evidence,
            cell=record.workload.cell,
        )
        self._refusal_at[record.workload.id] = len(self.outcome.emits)
        self.tell_about(payload, record.workload.id, cause)

    def _take_back_refusal(self, workload_id: str) -> None:
        """At most as many places further ahead as were taken back before it."""
        emits, at = self.outcome.emits, self._refusal_at.pop(workload_id, -1)
        while at >= 0:
            payload = emits[at].payload
            if isinstance(payload, PlacementRefused) and payload.workload_id == workload_id:
                del emits[at]
                return
            at -= 1

    def tell_about(self, payload: Wire, workload_id: str, cause: Received) -> None:
        """Emit a fact that changes no state of the workload."""
        self._emit(payload, workload_id, cause, WORKLOAD_FACTS)

    def _emit(self, payload: Wire, subject: str, cause: Received, topic: Any) -> None:  # noqa: ANN401
        self.outcome.emits.append(
            Emit(payload=payload, topic=topic, subject=subject, cause=cause, partition=self.cell)
        )

    def charge(self, record: Record) -> None:
        """Write down what `place` has charged in the cluster arrays already."""
        assert record.placement is not None
        self.usage.charge(record.workload.queue, record.placement.flavor, record.placement.charge)
        self.records.on_nodes(record)
        self.promises.began(record, self.now_ms)
        self.ledger.charge(record.workload, record.attempt, record.placement)

    def release(self, record: Record) -> None:
        """Give back everything that the attempt holds."""
        assert record.placement is not None
        workload, placement = record.workload, record.placement
        self.cluster.release(workload.team, placement.pods, workload.spec.pod_sets)
        more = self.usage.release(workload.queue, placement.flavor, placement.charge)
        self.records.off_nodes(record)
        self.promises.ended(record, self.now_ms)
        self.ledger.release(workload, placement)
        record.placement = None
        self.reservations.released(workload.id)
        self._freed(more, placement.pods)

    def grow(self, record: Record, added: Placement) -> None:
        """Write down that it holds `added` too, charged in the cluster arrays already."""
        assert record.placement is not None
        workload = record.workload
        self.usage.charge(workload.queue, added.flavor, added.charge)
        self.ledger.charge(workload, record.attempt, added)
        record.placement = joined(record.placement, added)
        self.records.on_nodes(record)
        self.promises.began(record, self.now_ms)

    def shrink(self, record: Record, pods_kept: int) -> None:
        """Give back what the ranks from `pods_kept` on hold."""
        assert record.placement is not None
        workload, before = record.workload, record.placement
        gone = surplus(before, pods_kept)
        self.records.off_nodes(record)
        self.promises.left(record)
        record.placement = shrunk_to(workload, before, pods_kept)
        self.records.on_nodes(record)
        self.promises.began(record, self.now_ms)
        self.cluster.release(workload.team, gone, workload.spec.pod_sets)
        less = before.charge - record.placement.charge
        more = self.usage.release(workload.queue, before.flavor, less)
        self.ledger.shrink(workload, pods_kept, gone)
        self.reservations.released(workload.id)
        self._freed(more, gone)

    def _freed(self, queues: Iterable[str], pods: Iterable[PodPlacement]) -> None:
        if self.last_cause is not None:
            for pod in pods:
                self.freed_nodes[pod.node] = self.last_cause
            for name in queues:
                self.freed_queues[name] = self.last_cause

    def withdraw(self, record: Record, *, for_quota: bool = False) -> int:
        """Let it wait no more; until when room is kept for it all the same, as it moves, or 0.

        `for_quota`: from now on it waits for quota, and hears of a promise that is not kept.
        """
        self.waiting.remove(record.workload.id)
        if for_quota:
            self.promises.quota_gone(record.workload.id)
        else:
            self.promises.withdrawn(record.workload.id)
        record.nomination = None
        moves_until_ms = self.reservations.moves_until_ms(record.workload.id)
        if moves_until_ms and record.state is State.QUEUED:
            return moves_until_ms
        self.reservations.withdrawn(record.workload.id)
        return 0

    def nominate(self, record: Record, nomination: Nomination, cause: Received) -> None:
        """Let it wait for room; `cause` is what a placement in this batch comes from.

        In a later batch it is not: an event id is (cause, index), and would come twice.
        """
        if record.nomination is None or record.nomination.number != nomination.number:
            if record.reason is record.refused_as:
                record.because(Reason.NONE)
            # Another nomination is another question: it gets an answer.
            record.refused_as = Reason.NONE
        record.nomination = nomination
        self.nominated[record.workload.id] = cause
        self.records.touch(record)

    def know(self, record: Record) -> None:
        """A workload is heard of: from now on it is alive, and its time to live is watched."""
        self.records.add(record)
        workload = record.workload
        seconds = workload.spec.time_to_live_seconds
        if seconds:
            expires_ms = workload.submitted_at_ms + seconds * 1000
            heapq.heappush(self.due, (expires_ms, workload.id, TIME_TO_LIVE, 0))

    def deadline(self, record: Record, kind: str, due_ms: int) -> None:
        """Set the one deadline of its present state; an empty kind clears it."""
        record.deadline_kind = kind
        record.deadline_ms = due_ms if kind else 0
        self.records.touch(record)
        if kind:
            entry = (due_ms, record.workload.id, kind, record.version)
            heapq.heappush(self.due, entry)

    def passed(self, now_ms: int) -> list[Received]:
        """Deadlines that are due and still stand, as messages."""
        messages = []
        while self.due and self.due[0][0] <= now_ms:
            due_ms, workload_id, kind, version = heapq.heappop(self.due)
            record = self.records.alive.get(workload_id)
            if record and (kind == TIME_TO_LIVE or record.stands(kind, due_ms)):
                messages.append(deadline_message(kind, workload_id, version, due_ms))
        return messages
