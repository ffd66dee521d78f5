"""What each message does to one workload: the transition, the fact, the command.

Each function takes the whole `Desk` (state of the cell and the outcome being written) and the
record. Devices are given back only when the pods are seen gone (design.md 1, States).
"""

from __future__ import annotations

from typing import Any, Final

from services.placement.desk import Desk
from services.placement.records import UNCHANGED, Record, Resize
from shared.core.lifecycle import State
from shared.core.model import Placement
from shared.events import pods, workloads
from shared.events.envelope import Received

BIND_TIMEOUT: Final = "bind-timeout"
PREEMPTED: Final = "preempted"
DRAINED: Final = "drained"
SPOT_NOTICE: Final = "spot-notice"
IDLE: Final = "idle"
OWN_REASONS: Final = frozenset(
    {"duration", "node-lost", "held", BIND_TIMEOUT, PREEMPTED, DRAINED, SPOT_NOTICE, IDLE}
)
"""Reasons of an eviction that decide what follows; a request cannot use them."""
BACKOFF: Final = "backoff"
"""Kind of the deadline before which a requeued workload is not tried."""
RESERVATION: Final = "reservation"
"""Kind of the deadline until which room is kept for a preemptor, which waits meanwhile."""
BACKOFF_SECONDS_MAX: Final = 64
HAS_PODS: Final = frozenset({State.PLACED, State.BOUND, State.RUNNING})


def place(desk: Desk, record: Record, placement: Placement, cause: Received) -> None:
    """Charge the placement and tell the binder."""
    before = record.become(State.PLACED)
    record.attempt += 1
    record.placement = placement
    record.resize = Resize(wanted=record.resize.wanted) if record.resize.wanted else UNCHANGED
    record.nomination = None
    record.refused_as = record.reason = record.message = ""
    desk.charge(record)
    desk.deadline(record, "bind", desk.now_ms + desk.start_seconds * 1000)
    desk.tell(
        record,
        before,
        workloads.WorkloadPlaced,
        cause,
        placement=placement,
        placed_at_ms=desk.now_ms,
        submitted_at_ms=record.workload.submitted_at_ms,
    )
    spec = record.workload.spec
    desk.command(
        record,
        pods.BindWorkload(
            workload_id=record.workload.id,
            team=record.workload.team,
            attempt=record.attempt,
            epoch=desk.epoch,
            placement=placement,
            pod_sets=spec.pod_sets,
            expected_duration_seconds=spec.expected_duration_seconds,
            cell=record.workload.cell,
        ),
        cause,
    )


def bound(desk: Desk, record: Record, _: pods.PodsBound, cause: Received) -> None:
    """All pods are written to the cluster."""
    if record.state is State.PLACED:
        before = record.become(State.BOUND)
        desk.tell(record, before, workloads.WorkloadBound, cause)


def running(desk: Desk, record: Record, _: pods.PodsRunning, cause: Received) -> None:
    """All pods run; the clock of its limits starts."""
    if record.state not in (State.PLACED, State.BOUND):
        return
    before = record.become(State.RUNNING)
    desk.promises.running(record, desk.now_ms)
    spec = record.workload.spec
    limits = (spec.max_duration_seconds, spec.time_to_live_seconds)
    limit = min((one for one in limits if one), default=0)
    desk.deadline(record, "duration" if limit else "", desk.now_ms + limit * 1000)
    desk.tell(record, before, workloads.WorkloadRunning, cause, running_at_ms=desk.now_ms)
    if record.placement is not None and len(record.placement.pods) != record.size:
        desk.off_size[record.workload.id] = None


def finished(desk: Desk, record: Record, fact: pods.PodsFinished, cause: Received) -> None:
    """All pods are terminal: over, or queued again while retries are left."""
    if record.state is State.CANCELLING or record.state is State.EVICTING:
        gone(desk, record, cause, succeeded=fact.succeeded)
    elif record.state in HAS_PODS and fact.succeeded:
        end(desk, record, State.SUCCEEDED, workloads.WorkloadSucceeded, cause)
    elif record.state in HAS_PODS and fact.lost:
        lost(desk, record, fact.message, cause)
    elif record.state in HAS_PODS:
        record.reason, record.message = fact.reason or "failed", fact.message
        fail(desk, record, cause)


def fail(desk: Desk, record: Record, cause: Received) -> None:
    """An attempt failed and nothing of it runs any more."""
    record.failures += 1
    if record.failures > record.workload.spec.max_retries:
        end(desk, record, State.FAILED, workloads.WorkloadFailed, cause)
        return
    before = record.become(State.EVICTING)
    desk.tell(record, before, workloads.WorkloadEvicted, cause)
    back(desk, record, cause, rests=True)


def pods_gone(desk: Desk, record: Record, fact: pods.PodsGone, cause: Received) -> None:
    """The binder saw the last pod of the attempt go."""
    gone(desk, record, cause, succeeded=fact.succeeded)


def gone(desk: Desk, record: Record, cause: Received, *, succeeded: bool) -> None:
    """No pod of the attempt exists any more."""
    if record.state is State.CANCELLING:
        if succeeded:
            end(desk, record, State.SUCCEEDED, workloads.WorkloadSucceeded, cause)
        else:
            end(desk, record, State.CANCELLED, workloads.WorkloadCancelled, cause)
    elif record.state is State.EVICTING and record.reason == "duration":
        end(desk, record, State.FAILED, workloads.WorkloadFailed, cause)
    elif record.state is State.EVICTING and succeeded:
        end(desk, record, State.SUCCEEDED, workloads.WorkloadSucceeded, cause)
    elif record.state is State.EVICTING:
        back(desk, record, cause, rests=record.reason == BIND_TIMEOUT)
    elif record.state in HAS_PODS:
        lost(desk, record, "its pods vanished from the cluster", cause)


def lost(desk: Desk, record: Record, message: str, cause: Received) -> None:
    """Its pods were taken from it: no retry is used up, but it rests, as its node may be bad."""
    record.reason, record.message = "pods-lost", message
    before = record.become(State.EVICTING)
    desk.tell(record, before, workloads.WorkloadEvicted, cause)
    back(desk, record, cause, rests=True)


def refused_by_cluster(
    desk: Desk, record: Record, fact: pods.BindRefused, cause: Received
) -> None:
    """The cluster would not take a pod; none of the attempt exists any more."""
    if record.state in HAS_PODS:
        record.reason = "bind-refused"
        record.message = f"{fact.node or 'the cluster'}: {fact.reason} {fact.message}".strip()
        before = record.become(State.EVICTING)
        desk.tell(record, before, workloads.WorkloadEvicted, cause)
        back(desk, record, cause, rests=True)
    else:
        gone(desk, record, cause, succeeded=False)


def back(desk: Desk, record: Record, cause: Received, *, rests: bool) -> None:
    """From evicting to its queue with its place kept, or to held; the devices are given back.

    What failed or was refused rests before its next attempt, so that a bad node is no hot loop.
    """
    if record.then_held:
        record.then_held = False
        end(desk, record, State.HELD, workloads.WorkloadHeld, cause)
        return
    seconds = min(2 ** min(record.attempt - 1, 10), BACKOFF_SECONDS_MAX)
    if rests:
        record.message = f"{record.message}; tried again in {seconds} s".lstrip("; ")
    end(desk, record, State.QUEUED, workloads.WorkloadRequeued, cause)
    if rests:
        desk.deadline(record, BACKOFF, desk.now_ms + seconds * 1000)


def end(
    desk: Desk,
    record: Record,
    state: State,
    fact: type[workloads.WorkloadReleasedDevices],
    cause: Received,
) -> None:
    """A transition after which the ledger holds nothing for the workload."""
    held = record.holds
    before = record.become(state)
    if held:
        desk.release(record)
    desk.withdraw(record)
    desk.deadline(record, "", 0)
    desk.tell(
        record,
        before,
        fact,
        cause,
        released_at_ms=desk.now_ms if held else 0,
        released_attempt=record.attempt if held else 0,
        released_resizes=record.resize.changes if held else 0,
    )


def evict(
    desk: Desk,
    record: Record,
    reason: str,
    message: str,
    cause: Received,
    *,
    gone_at_ms: int = 0,
    **more: Any,  # noqa: ANN401  # fields of the fact
) -> None:
    """Stop its pods with grace, until `gone_at_ms` at most; queued again when they are gone."""
    if record.state not in HAS_PODS:
        return
    record.reason, record.message = reason, message
    before = record.become(State.EVICTING)
    desk.deadline(record, "", 0)
    desk.tell(record, before, workloads.WorkloadEvicted, cause, **more)
    stop_pods(desk, record, reason, cause, gone_at_ms)


def stop_pods(
    desk: Desk, record: Record, reason: str, cause: Received, gone_at_ms: int = 0
) -> None:
    """Tell the binder to delete the pods of this attempt."""
    grace_seconds = 0 if reason == "node-lost" else record.workload.spec.grace_seconds
    if gone_at_ms:
        grace_seconds = min(grace_seconds, max(0, gone_at_ms - desk.now_ms) // 1000)
    command = pods.EvictPods(
        workload_id=record.workload.id,
        attempt=record.attempt,
        epoch=desk.epoch,
        reason=reason,
        grace_seconds=grace_seconds,
        cell=record.workload.cell,
    )
    desk.command(record, command, cause)


def cancel(desk: Desk, record: Record, cause: Received) -> None:
    """Its owner wants it stopped for good."""
    if record.state in (State.QUEUED, State.HELD):
        end(desk, record, State.CANCELLED, workloads.WorkloadCancelled, cause)
    elif record.state is State.EVICTING or record.state in HAS_PODS:
        stopping = record.state is State.EVICTING
        before = record.become(State.CANCELLING)
        desk.deadline(record, "", 0)
        desk.tell(record, before, workloads.WorkloadCancelling, cause)
        if not stopping:
            stop_pods(desk, record, "cancelled", cause)


def hold(desk: Desk, record: Record, cause: Received) -> None:
    """Keep it from running until released."""
    if record.state is State.QUEUED:
        end(desk, record, State.HELD, workloads.WorkloadHeld, cause)
    elif record.state in HAS_PODS:
        record.then_held = True
        evict(desk, record, "held", "held by its owner", cause)
    elif record.state is State.EVICTING:
        record.then_held = True
        desk.records.touch(record)


def release(desk: Desk, record: Record, cause: Received) -> None:
    """Undo a hold; quota hears of it and nominates it anew."""
    if record.state is State.HELD:
        before = record.become(State.QUEUED)
        desk.tell(record, before, workloads.WorkloadReleased, cause)
    elif record.then_held:
        record.then_held = False
        desk.records.touch(record)


def reprioritise(desk: Desk, record: Record, priority: int, cause: Received) -> None:
    """Change its priority while it waits; what runs keeps the one it was placed with."""
    if record.state not in (State.QUEUED, State.HELD) or priority == record.priority:
        return
    record.priority = priority
    before = record.become(record.state)
    desk.withdraw(record)
    desk.tell(record, before, workloads.WorkloadReprioritised, cause)


def deadline(desk: Desk, record: Record, kind: str, cause: Received) -> None:
    """A time limit of its present state has passed."""
    if kind == "bind":
        text = f"not running {desk.start_seconds} s after placing"
        evict(desk, record, BIND_TIMEOUT, text, cause)
    elif kind == "duration":
        evict(desk, record, "duration", "its time limit has passed", cause)
