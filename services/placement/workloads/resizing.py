"""A running gang holds more or fewer pods: one transaction for each change of what it holds.

    grow    charge, WorkloadResized, ResizePods -> PodsResized: it stays so
                                                -> ResizeRefused: give back, WorkloadResized
    shrink  ResizePods -> PodsResized: the pods given up are gone; give back, WorkloadResized

So `WorkloadResized` is told exactly when the ledger changes, and devices are given back only when
their pods are seen gone. One resize of an attempt is open at a time; an eviction or the end of the
attempt simply releases all that is held then.
"""

from __future__ import annotations

from dataclasses import replace

from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.model.reason import Reason
from shared.core.placement.resize import (
    REST_SECONDS,
    growth_rest_seconds,
    joined,
    shrunk_to,
    sizes,
    sizes_of,
)
from shared.events import pods, workloads
from shared.events.envelope import Received


def grow(state: CellState, record: Record, added: Placement, cause: Received) -> None:
    """Let it hold `added` too, which is charged in the cluster arrays, and start those pods."""
    assert record.placement is not None
    wanted = joined(record.placement, added)
    _ask(state, record, wanted, (Reason.GROWN, "there is room for it"), cause)
    rests_until_ms = state.unit.now_ms + growth_rest_seconds(record.workload.spec) * 1000
    record.resize = replace(record.resize, rests_until_ms=rests_until_ms)
    state.grow(record, added)
    _tell(state, record, cause)


def want(state: CellState, record: Record, wanted: int) -> None:
    """Its owner asks for a size, which holds until he asks for another; `Growth` sees to it.

    A number that it cannot have changes nothing: the gateway has said so.
    """
    if wanted not in sizes_of(record.workload) or wanted == record.size:
        return
    size = 0 if wanted == record.workload.pods else wanted
    record.resize = replace(record.resize, wanted=size, rests_until_ms=0)
    state.records.touch(record)
    state.off_size[record.workload.id] = None


def settle(state: CellState, record: Record, cause: Received) -> None:
    """Give up what it has above the size that its owner wants, as far as ranks allow."""
    assert record.placement is not None
    least = [one for one in sizes(record.workload, record.placement) if one >= record.size]
    if least:
        shrink(
            state,
            record,
            least[-1],
            Reason.RESIZED,
            cause,
            message="its owner asked for this size",
        )


def shrink(
    state: CellState,
    record: Record,
    pods_kept: int,
    reason: Reason,
    cause: Received,
    *,
    message: str = "",
) -> bool:
    """Stop its pods from rank `pods_kept` on; false when it may not be of that size now.

    `core.resize.sizes` gives the numbers that may be kept. What they hold is given back when they
    are seen gone. `reason` and `message` are told then, in `WorkloadResized`.
    """
    placement = record.placement
    if placement is None or not may_shrink(record, pods_kept):
        return False
    kept = shrunk_to(record.workload, placement, pods_kept)
    _ask(state, record, kept, (reason, message), cause)
    return True


def may_shrink(record: Record, pods_kept: int) -> bool:
    """Whether it runs, no resize is open, and it can go on with its first `pods_kept` ranks."""
    placement = record.placement
    if record.state is not State.RUNNING or record.resize.open or placement is None:
        return False
    return pods_kept in sizes(record.workload, placement)


def resized(state: CellState, record: Record, fact: pods.PodsResized, cause: Received) -> None:
    """The binder has brought the pods to the size that was asked for."""
    if not _answers(record, fact.number):
        return
    resize = record.resize
    _close(state, record)
    if resize.pods < resize.pods_before:
        _give_back(state, record, resize.pods, cause)


def refused(state: CellState, record: Record, fact: pods.ResizeRefused, cause: Received) -> None:
    """The cluster would not take a new pod: it runs on with those it had."""
    if not _answers(record, fact.number):
        return
    message = f"{fact.node or 'the cluster'}: {fact.pod_reason} {fact.message}".strip()
    record.resize = replace(
        record.resize,
        reason=Reason.RESIZE_REFUSED,
        message=message,
        pod_reason=fact.pod_reason,
    )
    pods_before = record.resize.pods_before
    _close(state, record)
    _give_back(state, record, pods_before, cause)


def _answers(record: Record, number: int) -> bool:
    """Whether the resize is the open one, of an attempt that is not being stopped."""
    running = record.state is State.RUNNING
    return running and record.resize.open and record.resize.number == number


def _ask(
    state: CellState, record: Record, wanted: Placement, why: tuple[Reason, str], cause: Received
) -> None:
    """Open the next resize and command it."""
    assert record.placement is not None
    workload, known = record.workload, record.resize
    record.resize = replace(
        known,
        number=known.number + 1,
        pods_before=len(record.placement.pods),
        pods=len(wanted.pods),
        open=True,
        reason=why[0],
        message=why[1],
        pod_reason="",
    )
    state.records.touch(record)
    command = pods.ResizePods(
        workload_id=workload.id,
        team=workload.team,
        attempt=record.attempt,
        number=record.resize.number,
        epoch=state.epoch,
        placement=wanted,
        pod_sets=workload.spec.pod_sets,
        grace_seconds=workload.spec.grace_seconds,
        expected_duration_seconds=_seconds_left(state, record),
        cell=workload.cell,
        namespace=workload.namespace,
        service_account=workload.service_account,
        labels=workload.spec.labels,
    )
    state.unit.command(record, command, cause)


def _seconds_left(state: CellState, record: Record) -> int | None:
    """How long a pod that joins now is expected to run: with the others, to their end."""
    expected = record.workload.spec.expected_duration_seconds
    if not expected or not record.began_at_ms:
        return expected
    return max(1, expected - (state.unit.now_ms - record.began_at_ms) // 1000)


def _close(state: CellState, record: Record) -> None:
    record.resize = replace(record.resize, open=False)
    state.records.touch(record)
    state.off_size[record.workload.id] = None


def _give_back(state: CellState, record: Record, pods_kept: int, cause: Received) -> None:
    rests_until_ms = state.unit.now_ms + REST_SECONDS * 1000
    record.resize = replace(record.resize, rests_until_ms=rests_until_ms)
    state.shrink(record, pods_kept)
    _tell(state, record, cause)


def _tell(state: CellState, record: Record, cause: Received) -> None:
    """What it holds from now on."""
    placement = record.placement
    assert placement is not None
    resize = record.resize = replace(record.resize, changes=record.resize.changes + 1)
    before = record.become(State.RUNNING)
    size = f"{len(placement.pods)} of {record.size} pods"
    message = f"{size}: {resize.message}" if resize.message else size
    record.because(resize.reason, message, resize.pod_reason)
    state.unit.tell(
        record,
        before,
        workloads.WorkloadResized,
        cause,
        placement=placement,
        resized_at_ms=state.unit.now_ms,
        resizes=resize.changes,
    )
    record.because(Reason.NONE)
