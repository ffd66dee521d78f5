"""Facts about workloads, and commands to them, as rows and events of the read model."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from services.gateway.app.told_starts import ToldStart
from services.gateway.projection import projection_idle
from services.gateway.projection.projection_rows import ProjectionBatch, WorkloadRow
from shared.core.backfill.eta import PROMISE
from shared.core.model.charges import workload_resources
from shared.core.model.lifecycle import TERMINAL, State
from shared.core.model.nouns import Placement
from shared.core.model.reason import Reason
from shared.core.model.units import NOTHING
from shared.events import nodes, quotas, workloads
from shared.events.envelope import Event

NOWHERE: Final = Placement(flavor="", pods=(), charge=NOTHING)
_json: Final = msgspec.json.Encoder()


def queued(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadQueued) -> None:
    """A workload is in a queue, with all defaults filled."""
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
    row.priority_class = row.priority_class or spec.priority_class
    batch.specs[workload.id] = _json.encode(spec).decode()
    batch.note(event, workload.id, workload.team, fact.version, State.QUEUED.value)


def rejected(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadRejected) -> None:
    """A submission broke rules."""
    row = batch.workload(fact.workload_id, fact.team, event.time_ms)
    row.name = fact.name
    row.kind = fact.kind
    row.body_hash = fact.body_hash
    row.cell = fact.cell
    row.ended_at_ms = event.time_ms
    if fact.version > row.version:
        row.change(fact.version, State.REJECTED.value, event.time_ms, live=False)
        row.because(Reason.REJECTED, fact.message)
    detail = _json.encode({"errors": fact.errors}).decode()
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        fact.version,
        State.REJECTED.value,
        reason=Reason.REJECTED,
        message=fact.message,
        detail=detail,
    )


def conflicted(batch: ProjectionBatch, event: Event, fact: workloads.SubmissionConflicted) -> None:
    """A key was used for another submission."""
    batch.note(
        event, fact.workload_id, fact.team, 0, "", reason=Reason.CONFLICTED, message=fact.message
    )


def commanded(batch: ProjectionBatch, event: Event, command: Any) -> None:  # noqa: ANN401  # five commands alike
    """A command for the workload was given."""
    by = f" by {command.by}" if command.by else ""
    note = getattr(command, "note", "")
    message = f"{_wish(command)}: asked for{by}{f': {note}' if note else ''}"
    detail = _json.encode({"actor": command.actor, "by": command.by, "note": note}).decode()
    batch.note(event, command.workload_id, command.team, 0, "", message=message, detail=detail)


def _wish(command: Any) -> str:  # noqa: ANN401  # five commands alike
    match command:
        case workloads.CancelWorkload():
            return "cancel"
        case workloads.HoldWorkload():
            return "hold"
        case workloads.ReleaseWorkload():
            return "release"
        case workloads.ResizeWorkload():
            return f"{command.pods} pods"
        case workloads.ReprioritiseWorkload():
            return f"priority class {command.priority_class}"
        case _:
            return "eviction"


def _changed(
    batch: ProjectionBatch, event: Event, fact: workloads.WorkloadFact
) -> WorkloadRow | None:
    """What all facts of placement have in common; None when a newer one was merged before."""
    row = batch.workload(fact.workload_id, fact.team, event.time_ms)
    row.cell = fact.cell
    if fact.version <= row.version:
        return None
    state = fact.state
    row.change(fact.version, state.value, event.time_ms, live=state not in TERMINAL)
    row.queue = fact.queue
    row.priority = fact.priority
    row.priority_class = fact.priority_class or row.priority_class
    row.attempt = fact.attempt
    row.because(fact.reason, fact.message, fact.pod_reason)
    return row


def _note(
    batch: ProjectionBatch, event: Event, fact: workloads.WorkloadFact, detail: str = ""
) -> None:
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        fact.version,
        fact.state.value,
        reason=fact.reason,
        message=fact.message,
        detail=detail,
        pod_reason=fact.pod_reason,
    )


def fact(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadFact) -> None:
    """A fact of placement that changes the state and nothing else."""
    _changed(batch, event, fact)
    _note(batch, event, fact)


def evicted(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadEvicted) -> None:
    """The workload is stopped; with the preemptor or the reason."""
    row = _changed(batch, event, fact)
    if row is not None:
        row.exit_code = fact.exit_code
    detail = _json.encode({"note": fact.note}).decode() if fact.note else ""
    if fact.preemption is not None:
        story = {"preemption": fact.preemption, "back_at_ms": fact.back_at_ms}
        detail = _json.encode(story).decode()
    if fact.idle is not None:
        detail = projection_idle.released(batch, event, fact, fact.idle)
    _note(batch, event, fact, detail)


def placed(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadPlaced) -> None:
    """It has nodes and devices."""
    row = _changed(batch, event, fact)
    detail = _json.encode(fact.placement).decode()
    if row is not None:
        row.submitted_at_ms = fact.submitted_at_ms
        row.placed_at_ms = fact.placed_at_ms
        row.place(fact.placement, detail)
    _note(batch, event, fact, detail)


def resized(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadResized) -> None:
    """It has other nodes and devices while it runs."""
    row = _changed(batch, event, fact)
    detail = _json.encode(fact.placement).decode()
    if row is not None:
        row.place(fact.placement, detail)
    _note(batch, event, fact, detail)


def learned(batch: ProjectionBatch, event: Event, fact: nodes.NodeDevicesLearned) -> None:
    """Some hold other GPUs of their node; their states are what they were."""
    del event
    for one in fact.workloads:
        text = _json.encode(one.placement).decode()
        row = batch.workloads.get(one.workload_id)
        if row is not None and row.placement and row.attempt == one.attempt:
            row.placement = text
        else:
            batch.learned[one.workload_id] = (one.workload_id, one.attempt, text)


def running(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadRunning) -> None:
    """All of its pods run."""
    row = _changed(batch, event, fact)
    if row is not None:
        row.running_at_ms = fact.running_at_ms
    batch.note(event, fact.workload_id, fact.team, fact.version, fact.state.value)


def ended(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadReleasedDevices) -> None:
    """It is over, and its devices are free."""
    row = _changed(batch, event, fact)
    if row is not None:
        row.ended_at_ms = event.time_ms
        row.exit_code = getattr(fact, "exit_code", 0)
    _note(batch, event, fact)


def back(batch: ProjectionBatch, event: Event, fact: workloads.WorkloadFact) -> None:
    """Waits again, or is held: it has no place any more."""
    row = _changed(batch, event, fact)
    if row is not None:
        row.queued_at_ms = event.time_ms
        row.place(NOWHERE, "")
    _note(batch, event, fact)


def refused(
    batch: ProjectionBatch, event: Event, fact: workloads.PlacementRefused | quotas.QuotaRefused
) -> None:
    """Why it waits; a start that it is promised is scored."""
    promised_ms = fact.evidence.get("promised_start_ms", 0)
    if promised_ms:
        told = ToldStart(fact.workload_id, PROMISE, promised_ms, promised_ms, event.time_ms)
        batch.told_starts.setdefault((fact.workload_id, PROMISE), told)
    detail = _json.encode({"next_step": fact.next_step, "evidence": fact.evidence}).decode()
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        0,
        State.QUEUED.value,
        reason=fact.reason,
        message=fact.message,
        detail=detail,
    )
