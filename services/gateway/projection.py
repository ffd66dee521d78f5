"""The read model: turns facts into the rows that reads and event streams are answered from.

A handler without memory but the number of the last event: each batch becomes one upsert by
table. Several facts about one workload in a batch are merged first, because a statement may not
touch a row twice. Facts may come in any order between topics: what changes is taken from the
newest version, what never changes from whichever fact has it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import msgspec

from services.gateway import projection_idle, projection_plans
from services.gateway.projection_rows import Batch, WorkloadRow
from services.gateway.projection_sql import writes
from shared.core.lifecycle import TERMINAL, State
from shared.core.model import Placement, workload_resources
from shared.core.units import NOTHING
from shared.events import idleness, nodes, plans, quotas, workloads
from shared.events.envelope import Event, Received
from shared.events.topics import (
    CELL_PARTITIONS,
    IDLENESS_FACTS,
    NODE_FACTS,
    QUEUE_FACTS,
    QUOTA_FACTS,
    WORKLOAD_FACTS,
    Topic,
)
from shared.events.workloads import Wire
from shared.ports.reader import Reader
from shared.runtime.handler import Outcome
from shared.runtime.trimming import Trim

_json: Final = msgspec.json.Encoder()


class Projection:
    """Handler of the projection process."""

    name = "gateway"
    linger_seconds = 0.05

    def __init__(self, trims: Sequence[Trim] = ()) -> None:
        self.trims = trims
        self._next_seq = 1

    def topics(self) -> Sequence[tuple[Topic, Sequence[int]]]:
        """Every fact of every cell."""
        cells = range(CELL_PARTITIONS)
        topics = (QUEUE_FACTS, QUOTA_FACTS, WORKLOAD_FACTS, NODE_FACTS, IDLENESS_FACTS)
        return [(topic, cells) for topic in topics]

    def reads(self) -> Collection[type[Wire]]:
        """The facts that have rows."""
        return APPLY

    async def load(self, reader: Reader) -> None:
        """Go on with the number after the last event."""
        rows = await reader.fetch("SELECT coalesce(max(seq), 0) + 1 AS seq FROM gateway.event")
        self._next_seq = rows[0]["seq"]

    async def prepare(self, messages: Sequence[Received], reader: Reader) -> None:
        """Nothing to look up."""

    def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:  # noqa: ARG002  # facts have times
        """The rows after `messages`."""
        batch = Batch(self._next_seq)
        for message in messages:
            event = message.event
            apply = APPLY.get(type(event.payload))
            if apply is not None:
                apply(batch, event, event.payload)
        self._next_seq = batch.next_seq
        return Outcome(writes=writes(batch))

    def due(self, now_ms: int) -> Sequence[Received]:  # noqa: ARG002
        """It has no deadlines."""
        return ()

    def next_due_ms(self) -> int | None:
        """It has no deadlines."""
        return None


def _queued(batch: Batch, event: Event, fact: workloads.WorkloadQueued) -> None:
    workload = fact.workload
    spec = workload.spec
    row = batch.workload(workload.id, workload.team, event.time_ms)
    row.submitted_at_ms = workload.submitted_at_ms
    row.name = spec.name
    row.kind = spec.kind.value
    row.body_hash = fact.body_hash
    row.labels = _json.encode(spec.labels).decode() if spec.labels else None
    row.pods = workload.pods
    row.gpu_milli = workload_resources(spec).gpu_milli
    seconds = spec.expected_duration_seconds or spec.max_duration_seconds
    row.expected_ms = seconds * 1000 if seconds else None
    row.cell = workload.cell
    row.queued_at_ms = max(row.queued_at_ms or 0, event.time_ms)
    if fact.version > row.version:
        row.change(fact.version, State.QUEUED.value, event.time_ms, live=True)
        row.queue = workload.queue
        row.priority = workload.priority
    batch.specs[workload.id] = _json.encode(spec).decode()
    batch.note(event, workload.id, workload.team, fact.version, State.QUEUED.value)


def _rejected(batch: Batch, event: Event, fact: workloads.WorkloadRejected) -> None:
    row = batch.workload(fact.workload_id, fact.team, event.time_ms)
    row.name = fact.name
    row.kind = fact.kind
    row.body_hash = fact.body_hash
    row.cell = fact.cell
    row.ended_at_ms = event.time_ms
    if fact.version > row.version:
        row.change(fact.version, State.REJECTED.value, event.time_ms, live=False)
        row.reason = "Rejected"
        row.message = fact.message
    detail = _json.encode({"errors": fact.errors}).decode()
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        fact.version,
        State.REJECTED.value,
        reason="Rejected",
        message=fact.message,
        detail=detail,
    )


def _conflicted(batch: Batch, event: Event, fact: workloads.SubmissionConflicted) -> None:
    batch.note(
        event, fact.workload_id, fact.team, 0, "", reason="Conflicted", message=fact.message
    )


def _commanded(batch: Batch, event: Event, command: Any) -> None:  # noqa: ANN401  # five commands alike
    message = f"asked for by {command.actor}" if command.actor else ""
    if isinstance(command, workloads.ResizeWorkload):
        message = f"{command.pods} pods {message}".rstrip()
    batch.note(event, command.workload_id, command.team, 0, "", message=message)


def _changed(batch: Batch, event: Event, fact: workloads.WorkloadFact) -> WorkloadRow | None:
    """What all facts of placement have in common; None when a newer one was merged before."""
    row = batch.workload(fact.workload_id, fact.team, event.time_ms)
    row.cell = fact.cell
    if fact.version <= row.version:
        return None
    state = fact.state
    row.change(fact.version, state.value, event.time_ms, live=state not in TERMINAL)
    row.queue = fact.queue
    row.priority = fact.priority
    row.attempt = fact.attempt
    row.reason = fact.reason
    row.message = fact.message
    return row


def _note(batch: Batch, event: Event, fact: workloads.WorkloadFact, detail: str = "") -> None:
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        fact.version,
        fact.state.value,
        reason=fact.reason,
        message=fact.message,
        detail=detail,
    )


def _fact(batch: Batch, event: Event, fact: workloads.WorkloadFact) -> None:
    _changed(batch, event, fact)
    _note(batch, event, fact)


def _evicted(batch: Batch, event: Event, fact: workloads.WorkloadEvicted) -> None:
    _changed(batch, event, fact)
    detail = ""
    if fact.preemption is not None:
        story = {"preemption": fact.preemption, "back_at_ms": fact.back_at_ms}
        detail = _json.encode(story).decode()
    if fact.idle is not None:
        detail = projection_idle.released(batch, event, fact, fact.idle)
    _note(batch, event, fact, detail)


def _placed(batch: Batch, event: Event, fact: workloads.WorkloadPlaced) -> None:
    row = _changed(batch, event, fact)
    detail = _json.encode(fact.placement).decode()
    if row is not None:
        row.submitted_at_ms = fact.submitted_at_ms
        row.placed_at_ms = fact.placed_at_ms
        row.place(fact.placement, detail)
    _note(batch, event, fact, detail)


def _resized(batch: Batch, event: Event, fact: workloads.WorkloadResized) -> None:
    row = _changed(batch, event, fact)
    detail = _json.encode(fact.placement).decode()
    if row is not None:
        row.place(fact.placement, detail)
    _note(batch, event, fact, detail)


def _running(batch: Batch, event: Event, fact: workloads.WorkloadRunning) -> None:
    row = _changed(batch, event, fact)
    if row is not None:
        row.running_at_ms = fact.running_at_ms
    batch.note(event, fact.workload_id, fact.team, fact.version, fact.state.value)


def _ended(batch: Batch, event: Event, fact: workloads.WorkloadReleasedDevices) -> None:
    row = _changed(batch, event, fact)
    if row is not None:
        row.ended_at_ms = event.time_ms
    _note(batch, event, fact)


def _back(batch: Batch, event: Event, fact: workloads.WorkloadFact) -> None:
    """Waits again, or is held: it has no place any more."""
    row = _changed(batch, event, fact)
    if row is not None:
        row.queued_at_ms = event.time_ms
        row.place(NOWHERE, "")
    _note(batch, event, fact)


def _refused(
    batch: Batch, event: Event, fact: workloads.PlacementRefused | quotas.QuotaRefused
) -> None:
    detail = _json.encode({"next_step": fact.next_step, "evidence": fact.evidence}).decode()
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        0,
        State.QUEUED.value,
        reason=fact.reason.value,
        message=fact.message,
        detail=detail,
    )


def _limits(batch: Batch, event: Event, fact: quotas.QuotaChanged) -> None:
    known = batch.limits.get(fact.name)
    if known is None or known[2] <= fact.version:
        body = _json.encode(fact).decode()
        batch.limits[fact.name] = (fact.name, fact.kind, fact.version, body, event.time_ms)


def _usage(batch: Batch, event: Event, fact: quotas.QueueUsageTold) -> None:  # noqa: ARG001  # the fact has its own time
    known = batch.usage.get(fact.queue)
    if known is None or known[2] <= fact.at_ms:
        row = (fact.queue, fact.gpu_seconds, fact.at_ms, fact.half_life_ms)
        batch.usage[fact.queue] = row


def _budget(batch: Batch, event: Event, fact: quotas.BudgetWarned) -> None:
    known = batch.budgets.get(fact.team)
    if known is None or known[2] <= event.time_ms:
        batch.budgets[fact.team] = (fact.team, _json.encode(fact).decode(), event.time_ms)


def _node(batch: Batch, event: Event, fact: nodes.NodeInventoryReported) -> None:
    node = fact.node
    known = batch.nodes.get(node.name)
    if known is None or known[2] < fact.generation:
        batch.nodes[node.name] = (
            node.name,
            fact.cell,
            fact.generation,
            node.flavor,
            node.pool,
            len(node.gpus),
            _json.encode(node).decode(),
            False,
            event.time_ms,
        )


def _node_removed(batch: Batch, event: Event, fact: nodes.NodeRemoved) -> None:
    known = batch.nodes.get(fact.node)
    if known is None:
        row = (fact.node, fact.cell, fact.generation, "", "", 0, "", True, event.time_ms)
        batch.nodes[fact.node] = row
    elif known[2] <= fact.generation:
        batch.nodes[fact.node] = (*known[:2], fact.generation, *known[3:7], True, event.time_ms)


def _health(batch: Batch, event: Event, fact: nodes.GpuHealthReported) -> None:
    place = (fact.node, fact.gpu)
    known = batch.health.get(place)
    if known is None or known[2] <= fact.generation:
        batch.health[place] = (
            fact.node,
            fact.gpu,
            fact.generation,
            fact.healthy,
            fact.reason,
            event.time_ms,
        )


NOWHERE: Final = Placement(flavor="", pods=(), charge=NOTHING)

APPLY: Final[dict[type[Wire], Callable[[Batch, Event, Any], None]]] = {
    workloads.WorkloadQueued: _queued,
    workloads.WorkloadRejected: _rejected,
    workloads.SubmissionConflicted: _conflicted,
    workloads.CancelWorkload: _commanded,
    workloads.HoldWorkload: _commanded,
    workloads.ReleaseWorkload: _commanded,
    workloads.ReprioritiseWorkload: _commanded,
    workloads.ResizeWorkload: _commanded,
    workloads.RequestEviction: _commanded,
    workloads.WorkloadPlaced: _placed,
    workloads.WorkloadBound: _fact,
    workloads.WorkloadRunning: _running,
    workloads.WorkloadResized: _resized,
    workloads.WorkloadSucceeded: _ended,
    workloads.WorkloadFailed: _ended,
    workloads.WorkloadCancelled: _ended,
    workloads.WorkloadCancelling: _fact,
    workloads.WorkloadEvicted: _evicted,
    workloads.WorkloadRequeued: _back,
    workloads.WorkloadHeld: _back,
    workloads.WorkloadReleased: _back,
    workloads.WorkloadReprioritised: _fact,
    workloads.PlacementRefused: _refused,
    quotas.QuotaRefused: _refused,
    plans.EvictionPlanAccepted: projection_plans.accepted,
    plans.EvictionPlanRefused: projection_plans.refused,
    plans.ReservationExpired: projection_plans.expired,
    idleness.IdlenessNoticed: projection_idle.noticed,
    idleness.IdlenessEnded: projection_idle.ended,
    quotas.QuotaChanged: _limits,
    quotas.QueueUsageTold: _usage,
    quotas.BudgetWarned: _budget,
    nodes.NodeInventoryReported: _node,
    nodes.NodeRemoved: _node_removed,
    nodes.GpuHealthReported: _health,
}
"""Facts that change the read model; a nomination changes no state and is passed over."""
