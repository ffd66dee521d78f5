"""What the owner of a workload wants of it: to stop it, keep it, let it go on, or reorder it."""

from __future__ import annotations

from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads.attempt_end import end
from services.placement.workloads.transitions import HAS_PODS, evict, stop_pods
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.events import workloads
from shared.events.envelope import Received


def cancel(
    state: CellState, record: Record, command: workloads.CancelWorkload, cause: Received
) -> None:
    """Its owner wants it stopped for good."""
    if record.state is not State.CANCELLING:
        record.because(Reason.CANCELLED, _by("cancelled", command.by))
        _stop(state, record, cause)


def _stop(state: CellState, record: Record, cause: Received) -> None:
    if record.state in (State.QUEUED, State.HELD):
        end(state, record, State.CANCELLED, workloads.WorkloadCancelled, cause)
    elif record.state is State.EVICTING or record.state in HAS_PODS:
        stopping = record.state is State.EVICTING
        before = record.become(State.CANCELLING)
        state.deadlines.set(record, "", 0)
        state.unit.tell(record, before, workloads.WorkloadCancelling, cause)
        if not stopping:
            stop_pods(state, record, record.reason, cause)


def expire(state: CellState, record: Record, cause: Received) -> None:
    """Its time to live is over: stopped for good, as if its owner cancelled it."""
    if record.state is not State.CANCELLING:
        seconds = record.workload.spec.time_to_live_seconds
        message = f"its time to live, {seconds} s since it was submitted, is over"
        record.because(Reason.TIME_TO_LIVE, message)
        _stop(state, record, cause)


def hold(
    state: CellState, record: Record, command: workloads.HoldWorkload, cause: Received
) -> None:
    """Keep it from running until released."""
    message = _by("held", command.by)
    if record.state is State.QUEUED:
        record.refused_as = Reason.NONE
        record.because(Reason.HELD, message)
        end(state, record, State.HELD, workloads.WorkloadHeld, cause)
    elif record.state in HAS_PODS:
        record.then_held = True
        evict(state, record, Reason.HELD, message, cause)
    elif record.state is State.EVICTING:
        record.then_held = True
        state.records.touch(record)


def release(
    state: CellState, record: Record, _: workloads.ReleaseWorkload, cause: Received
) -> None:
    """Undo a hold; quota hears of it and nominates it anew."""
    if record.state is State.HELD:
        record.because(Reason.NONE)
        before = record.become(State.QUEUED)
        state.unit.tell(record, before, workloads.WorkloadReleased, cause)
    elif record.then_held:
        record.then_held = False
        state.records.touch(record)


def reprioritise(
    state: CellState, record: Record, command: workloads.ReprioritiseWorkload, cause: Received
) -> None:
    """Change its priority and class, whatever it does, unless it is being stopped for good.

    Quota hears the fact, not the command. Of one that waits it takes its nomination back and gives
    another, unless it has nominated it by this priority already: then the nomination holds.
    """
    known = record.priority, record.priority_class or record.workload.spec.priority_class
    ends = record.over or record.state is State.CANCELLING
    if ends or known == (command.priority, command.priority_class):
        return
    record.priority, record.priority_class = command.priority, command.priority_class
    before = record.become(record.state)
    if record.state is State.RUNNING:
        state.off_size[record.workload.id] = None  # what is to grow has another place in that line
    elif command.priority != known[0] and not record.holds and not _is_by_priority(record):
        state.withdraw(record)
    state.unit.tell(record, before, workloads.WorkloadReprioritised, cause)


def _is_by_priority(record: Record) -> bool:
    """Whether it is nominated by the priority that it has."""
    nomination = record.nomination
    return nomination is not None and nomination.order_key[:1] == (-record.priority,)


def _by(done: str, by: str) -> str:
    return f"{done} by {by or 'its owner'}"
