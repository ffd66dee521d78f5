"""The unit of work in hand: its time and cause, what it tells, and what became free in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from services.placement.state.allocations import LedgerRows
from services.placement.state.records import Nomination, Record, Records
from shared.core.model.decision import Refusal
from shared.core.model.lifecycle import State
from shared.core.model.nouns import PodPlacement
from shared.core.model.reason import Reason
from shared.events.envelope import Received
from shared.events.topics import AGENT_COMMANDS, POD_COMMANDS, WORKLOAD_FACTS, Topic
from shared.events.workloads import PlacementRefused, Wire, WorkloadFact
from shared.runtime.handler import Change, Emit, Outcome


@dataclass(slots=True, kw_only=True)
class UnitOfWork:
    """What lasts as long as one batch of messages; only the time and `last_cause` outlive it."""

    cell: int
    records: Records
    now_ms: int = 0
    last_cause: Received | None = None
    """The message in hand, or the last one there was."""
    outcome: Outcome = field(default_factory=Outcome)
    ledger: LedgerRows = field(default_factory=LedgerRows)
    freed_nodes: dict[str, Received] = field(default_factory=dict)
    """Nodes on which something became free or better, with the cause."""
    freed_queues: dict[str, Received] = field(default_factory=dict)
    """Queues with quota that grew or was given back, with the cause."""
    nominated: dict[str, Received] = field(default_factory=dict)
    """Nominations of this unit: the cause of what is told about them in it, and only in it."""
    _refusal_at: dict[str, int] = field(default_factory=dict)
    """Where the last refusal of a workload was put among what this unit tells."""

    def begin(self, now_ms: int) -> None:
        """Start the next unit."""
        self.now_ms = now_ms
        self.outcome = Outcome()
        self.ledger = LedgerRows()
        self.freed_nodes, self.freed_queues = {}, {}
        self.nominated, self._refusal_at = {}, {}

    def freed(self, queues: Iterable[str], pods: Iterable[PodPlacement]) -> None:
        """Something is free again where these pods were, and in the quota of these queues."""
        if self.last_cause is not None:
            for pod in pods:
                self.freed_nodes[pod.node] = self.last_cause
            for name in queues:
                self.freed_queues[name] = self.last_cause

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

    def tell_about(self, payload: Wire, workload_id: str, cause: Received) -> None:
        """Emit a fact that changes no state of the workload."""
        self._emit(payload, workload_id, cause, WORKLOAD_FACTS)

    def command(self, record: Record, payload: Wire, cause: Received) -> None:
        """Emit a command to the binder."""
        self._emit(payload, record.workload.id, cause, POD_COMMANDS)

    def ask_binder(self, payload: Wire, subject: str, cause: Received) -> None:
        """Emit a question to the binder that is about many workloads."""
        self._emit(payload, subject, cause, POD_COMMANDS)

    def command_node(self, payload: Wire, node: str, cause: Received) -> None:
        """Emit a command to the agent of a node."""
        self._emit(payload, node, cause, AGENT_COMMANDS)

    def nominate(self, record: Record, nomination: Nomination, cause: Received) -> None:
        """Let it wait for room; `cause` is what a placement in this unit comes from.

        In a later unit it is not: an event id is (cause, index), and would come twice.
        """
        if record.nomination is None or record.nomination.number != nomination.number:
            if record.reason is record.refused_as:
                record.because(Reason.NONE)
            # Another nomination is another question: it gets an answer.
            record.refused_as = Reason.NONE
        record.nomination = nomination
        self.nominated[record.workload.id] = cause
        self.records.touch(record)

    def refuse(
        self, record: Record, refusal: Refusal, cause: Received, *, again: bool = False
    ) -> None:
        """Tell why it waits, if the reason is another than before.

        `again`: tell it anyway, in place of what this unit has told about it already.
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

    def _emit(self, payload: Wire, subject: str, cause: Received, topic: Topic) -> None:
        self.outcome.emits.append(
            Emit(payload=payload, topic=topic, subject=subject, cause=cause, partition=self.cell)
        )
