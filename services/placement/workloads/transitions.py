"""What placing, running and stopping do to one workload: the transition, the fact, the command.

Each function takes the whole `CellState` (state of the cell and the outcome being written) and the
record. Devices are given back only when the pods are seen gone (docs/lifecycle.md).
"""

from __future__ import annotations

from typing import Any, Final

from services.placement.state.records import UNCHANGED, Record, Resize
from services.placement.unit.cell_state import START_SECONDS_MAX, CellState
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.model.reason import Reason
from shared.events import pods, workloads
from shared.events.envelope import Received
from shared.ports.cluster import GRACE_SECONDS_MIN

BIND: Final = "bind"
"""Kind of the deadline by which what was placed must run."""
DURATION: Final = "duration"
"""Kind of the deadline by which what runs must have ended."""
BACKOFF: Final = "backoff"
"""Kind of the deadline before which a requeued workload is not tried."""
RESERVATION: Final = "reservation"
"""Kind of the deadline until which room is kept for a preemptor, which waits meanwhile."""
HAS_PODS: Final = frozenset({State.PLACED, State.BOUND, State.RUNNING})


def place(state: CellState, record: Record, placement: Placement, cause: Received) -> None:
    """Charge the placement and tell the binder."""
    before = record.become(State.PLACED)
    record.attempt += 1
    record.running_at_ms = 0
    record.placement = placement
    record.resize = Resize(wanted=record.resize.wanted) if record.resize.wanted else UNCHANGED
    record.nomination = None
    record.refused_as = Reason.NONE
    record.because(Reason.NONE)
    state.charge(record)
    state.deadlines.set(record, BIND, _latest_start_ms(state, record))
    state.unit.tell(
        record,
        before,
        workloads.WorkloadPlaced,
        cause,
        placement=placement,
        placed_at_ms=state.unit.now_ms,
        submitted_at_ms=record.workload.submitted_at_ms,
    )
    spec = record.workload.spec
    state.unit.command(
        record,
        pods.BindWorkload(
            workload_id=record.workload.id,
            team=record.workload.team,
            attempt=record.attempt,
            epoch=state.epoch,
            placement=placement,
            pod_sets=spec.pod_sets,
            expected_duration_seconds=spec.expected_duration_seconds,
            cell=record.workload.cell,
            namespace=record.workload.namespace,
            service_account=record.workload.service_account,
            labels=spec.labels,
            grace_seconds=max(spec.grace_seconds, GRACE_SECONDS_MIN),
            pod_group=record.workload.pod_group,
        ),
        cause,
    )


def bound(state: CellState, record: Record, _: pods.PodsBound, cause: Received) -> None:
    """All pods are on their nodes: from now on it has the time of a start.

    Before, the binder may have a backlog, and it refuses by itself what it cannot bind in time.
    """
    if record.state is State.PLACED:
        before = record.become(State.BOUND)
        _start_within_limit(state, record)
        state.unit.tell(record, before, workloads.WorkloadBound, cause)


def running(state: CellState, record: Record, _: pods.PodsRunning, cause: Received) -> None:
    """All pods run; the clock of its limit starts."""
    if record.state not in (State.PLACED, State.BOUND):
        return
    before = record.become(State.RUNNING)
    record.running_at_ms = state.unit.now_ms
    state.promises.running(record, state.unit.now_ms)
    limit = record.workload.spec.max_duration_seconds or 0
    state.deadlines.set(record, DURATION if limit else "", state.unit.now_ms + limit * 1000)
    state.unit.tell(
        record, before, workloads.WorkloadRunning, cause, running_at_ms=state.unit.now_ms
    )
    if record.placement is not None and len(record.placement.pods) != record.size:
        state.off_size[record.workload.id] = None


def pulling(state: CellState, record: Record, _: pods.PodsPulling, __: Received) -> None:
    """An image is being pulled: it has until the longest time that a start may take."""
    if record.deadline_kind == BIND:
        state.deadlines.set(record, BIND, _latest_start_ms(state, record))


def pulled(state: CellState, record: Record, _: pods.PodsPulled, __: Received) -> None:
    """All images are there: from now on it has the time of a start."""
    if record.deadline_kind == BIND:
        _start_within_limit(state, record)


def _start_within_limit(state: CellState, record: Record) -> None:
    due_ms = state.unit.now_ms + state.start_seconds * 1000
    state.deadlines.set(record, BIND, min(due_ms, _latest_start_ms(state, record)))


def _latest_start_ms(state: CellState, record: Record) -> int:
    return record.began_at_ms + max(START_SECONDS_MAX, state.start_seconds) * 1000


def evict(
    state: CellState,
    record: Record,
    reason: Reason,
    message: str,
    cause: Received,
    *,
    gone_at_ms: int = 0,
    **more: Any,  # noqa: ANN401  # fields of the fact
) -> None:
    """Stop its pods with grace, until `gone_at_ms` at most; queued again when they are gone."""
    if record.state not in HAS_PODS:
        return
    record.because(reason, message)
    before = record.become(State.EVICTING)
    state.deadlines.set(record, "", 0)
    state.unit.tell(record, before, workloads.WorkloadEvicted, cause, **more)
    stop_pods(state, record, reason, cause, gone_at_ms)


def stop_pods(
    state: CellState,
    record: Record,
    reason: Reason,
    cause: Received,
    gone_at_ms: int = 0,
    *,
    fenced_nodes: tuple[str, ...] = (),
) -> None:
    """Tell the binder to delete the pods of this attempt, on `fenced_nodes` by force."""
    lost = reason is Reason.NODE_LOST
    grace_seconds = GRACE_SECONDS_MIN if lost else record.workload.spec.grace_seconds
    if gone_at_ms:
        grace_seconds = min(grace_seconds, (gone_at_ms - state.unit.now_ms) // 1000)
    grace_seconds = max(grace_seconds, GRACE_SECONDS_MIN)
    command = pods.EvictPods(
        workload_id=record.workload.id,
        attempt=record.attempt,
        epoch=state.epoch,
        reason=reason,
        grace_seconds=grace_seconds,
        cell=record.workload.cell,
        fenced_nodes=fenced_nodes,
    )
    state.unit.command(record, command, cause)


def deadline(state: CellState, record: Record, kind: str, cause: Received) -> None:
    """A time limit of its present state has passed."""
    if kind == BIND:
        seconds = (record.deadline_ms - record.began_at_ms) // 1000
        text = f"not running {seconds} s after placing"
        evict(state, record, Reason.BIND_TIMEOUT, text, cause)
    elif kind == DURATION:
        evict(state, record, Reason.DURATION, "its time limit has passed", cause)
