"""What the owner of a workload wants of it: to stop it, keep it, let it go on, or reorder it."""

from __future__ import annotations

from typing import Final

from services.placement.desk import TIME_TO_LIVE, Desk
from services.placement.endings import end
from services.placement.records import Record
from services.placement.transitions import HAS_PODS, HELD, evict, stop_pods
from shared.core.lifecycle import State
from shared.events import workloads
from shared.events.envelope import Received

CANCELLED: Final = "cancelled"


def cancel(desk: Desk, record: Record, command: workloads.CancelWorkload, cause: Received) -> None:
    """Its owner wants it stopped for good."""
    if record.state is not State.CANCELLING:
        record.reason, record.message = CANCELLED, _by("cancelled", command.actor)
        _stop(desk, record, CANCELLED, cause)


def _stop(desk: Desk, record: Record, reason: str, cause: Received) -> None:
    if record.state in (State.QUEUED, State.HELD):
        end(desk, record, State.CANCELLED, workloads.WorkloadCancelled, cause)
    elif record.state is State.EVICTING or record.state in HAS_PODS:
        stopping = record.state is State.EVICTING
        before = record.become(State.CANCELLING)
        desk.deadline(record, "", 0)
        desk.tell(record, before, workloads.WorkloadCancelling, cause)
        if not stopping:
            stop_pods(desk, record, reason, cause)


def expire(desk: Desk, record: Record, cause: Received) -> None:
    """Its time to live is over: stopped for good, as if its owner cancelled it."""
    if record.state is not State.CANCELLING:
        seconds = record.workload.spec.time_to_live_seconds
        record.reason = TIME_TO_LIVE
        record.message = f"its time to live, {seconds} s since it was submitted, is over"
        _stop(desk, record, TIME_TO_LIVE, cause)


def hold(desk: Desk, record: Record, command: workloads.HoldWorkload, cause: Received) -> None:
    """Keep it from running until released."""
    message = _by("held", command.actor)
    if record.state is State.QUEUED:
        record.refused_as = ""
        record.reason, record.message = HELD, message
        end(desk, record, State.HELD, workloads.WorkloadHeld, cause)
    elif record.state in HAS_PODS:
        record.then_held = True
        evict(desk, record, HELD, message, cause)
    elif record.state is State.EVICTING:
        record.then_held = True
        desk.records.touch(record)


def release(desk: Desk, record: Record, _: workloads.ReleaseWorkload, cause: Received) -> None:
    """Undo a hold; quota hears of it and nominates it anew."""
    if record.state is State.HELD:
        record.reason = record.message = ""
        before = record.become(State.QUEUED)
        desk.tell(record, before, workloads.WorkloadReleased, cause)
    elif record.then_held:
        record.then_held = False
        desk.records.touch(record)


def reprioritise(
    desk: Desk, record: Record, command: workloads.ReprioritiseWorkload, cause: Received
) -> None:
    """Change its priority while it waits; what runs keeps the one it was placed with.

    Quota, which may have heard an earlier such command while it did not wait, nominates it anew
    unless it has done so by this priority: then the nomination holds.
    """
    if record.state not in (State.QUEUED, State.HELD) or command.priority == record.priority:
        return
    record.priority = command.priority
    before = record.become(record.state)
    nomination = record.nomination
    if nomination is None or nomination.order_key[:1] != (-command.priority,):
        desk.withdraw(record)
    desk.tell(record, before, workloads.WorkloadReprioritised, cause)


def _by(done: str, actor: str) -> str:
    return f"{done} by {actor}" if actor else f"{done} by its owner"
