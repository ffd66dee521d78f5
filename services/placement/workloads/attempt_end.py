"""What the end of an attempt does to its workload: over, held, or queued again with its place.

Devices are given back only when the pods are seen gone (docs/lifecycle.md).
"""

from __future__ import annotations

from typing import Any

from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads.transitions import BACKOFF, HAS_PODS, RESERVATION
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.nodes.backoff import rest_seconds, setbacks_in_a_row
from shared.core.nodes.pod_failures import FailureCause
from shared.events import pods, workloads
from shared.events.envelope import Received
from shared.events.pods import WAITED_FOR


def finished(state: CellState, record: Record, fact: pods.PodsFinished, cause: Received) -> None:
    """All pods are terminal: over, or queued again while retries are left.

    What is being evicted had succeeded before: the binder answers an eviction by `PodsGone` alone.
    """
    evicting = record.state is State.EVICTING
    if record.state is State.CANCELLING or (evicting and not fact.succeeded):
        gone(state, record, cause, succeeded=fact.succeeded)
    elif fact.succeeded and (evicting or record.state in HAS_PODS):
        end(state, record, State.SUCCEEDED, workloads.WorkloadSucceeded, cause)
    elif record.state in HAS_PODS and fact.cause is FailureCause.NEVER_STARTS:
        never(state, record, Reason.NEVER_STARTS, fact, cause)
    elif record.state in HAS_PODS and fact.lost:
        refused = fact.cause is FailureCause.KUBELET_REFUSED
        reason = Reason.KUBELET_REFUSED if refused else Reason.PODS_LOST
        record.because(reason, fact.message, fact.pod_reason)
        lost(state, record, cause)
    elif record.state in HAS_PODS:
        record.because(Reason.FAILED, fact.message, fact.pod_reason)
        fail(state, record, cause, fact.exit_code)


def fail(state: CellState, record: Record, cause: Received, exit_code: int) -> None:
    """An attempt failed and nothing of it runs any more."""
    spec, how = record.workload.spec, record.pod_reason
    final = how in spec.final_failures
    if final:
        record.message = f"{record.message}; no retry after {how} (final_failures)".lstrip("; ")
    record.failures += how not in spec.uncounted_failures
    if final or record.failures > spec.max_retries:
        end(state, record, State.FAILED, workloads.WorkloadFailed, cause, exit_code=exit_code)
        return
    before = record.become(State.EVICTING)
    state.unit.tell(record, before, workloads.WorkloadEvicted, cause, exit_code=exit_code)
    back(state, record, cause, setback=True)


def gone(state: CellState, record: Record, cause: Received, *, succeeded: bool) -> None:
    """No pod of the attempt exists any more."""
    if record.state is State.CANCELLING:
        if succeeded:
            end(state, record, State.SUCCEEDED, workloads.WorkloadSucceeded, cause)
        else:
            end(state, record, State.CANCELLED, workloads.WorkloadCancelled, cause)
    elif record.state is State.EVICTING and record.reason is Reason.DURATION:
        end(state, record, State.FAILED, workloads.WorkloadFailed, cause)
    elif record.state is State.EVICTING and succeeded:
        end(state, record, State.SUCCEEDED, workloads.WorkloadSucceeded, cause)
    elif record.state is State.EVICTING:
        back(state, record, cause, setback=record.reason is Reason.BIND_TIMEOUT)
    elif record.state in HAS_PODS:
        record.because(Reason.PODS_LOST, "its pods vanished from the cluster")
        lost(state, record, cause)


def never(
    state: CellState, record: Record, reason: Reason, fact: pods.PodSetback, cause: Received
) -> None:
    """It cannot run, however often it is tried: it has failed, in the words of the cluster."""
    record.because(reason, fact.message, fact.pod_reason)
    end(state, record, State.FAILED, workloads.WorkloadFailed, cause)


def lost(state: CellState, record: Record, cause: Received) -> None:
    """Its pods were taken from it: no retry is used up, but it rests, as its node may be bad."""
    before = record.become(State.EVICTING)
    state.unit.tell(record, before, workloads.WorkloadEvicted, cause)
    back(state, record, cause, setback=True)


def refused_by_cluster(
    state: CellState, record: Record, fact: pods.BindRefused, cause: Received
) -> None:
    """The cluster would not take a pod; none of the attempt exists any more."""
    if record.state in HAS_PODS and fact.ends:
        never(state, record, Reason.POD_REFUSED, fact, cause)
    elif record.state in HAS_PODS:
        message = fact.message
        if fact.pod_reason not in WAITED_FOR:
            message = f"{fact.node or 'the cluster'}: {fact.pod_reason} {message}".strip()
        record.because(Reason.BIND_REFUSED, message, fact.pod_reason)
        lost(state, record, cause)
    else:
        gone(state, record, cause, succeeded=False)


def back(state: CellState, record: Record, cause: Received, *, setback: bool) -> None:
    """From evicting to its queue with its place kept, or to held; the devices are given back.

    After a setback it rests before its next attempt (core/nodes/backoff.py), so that a bad node is
    no hot loop.
    """
    ran_ms = state.unit.now_ms - record.running_at_ms if record.running_at_ms else 0
    record.setbacks = setbacks_in_a_row(record.setbacks, ran_ms, setback=setback)
    if record.then_held:
        record.then_held = False
        end(state, record, State.HELD, workloads.WorkloadHeld, cause)
        return
    seconds = rest_seconds(record.setbacks) if setback else 0
    if seconds:
        record.message = f"{record.message}; tried again in {seconds} s".lstrip("; ")
    end(state, record, State.QUEUED, workloads.WorkloadRequeued, cause)
    if seconds:
        state.deadlines.set(record, BACKOFF, state.unit.now_ms + seconds * 1000)


def end(
    state: CellState,
    record: Record,
    after: State,
    fact: type[workloads.WorkloadReleasedDevices],
    cause: Received,
    **more: Any,  # noqa: ANN401  # fields of the fact
) -> None:
    """A transition after which the ledger holds nothing for the workload."""
    held = record.holds
    before = record.become(after)
    if held:
        state.release(record)
    moved = state.withdraw(record)
    state.deadlines.set(record, RESERVATION if moved else "", moved)
    state.unit.tell(
        record,
        before,
        fact,
        cause,
        released_at_ms=state.unit.now_ms if held else 0,
        released_attempt=record.attempt if held else 0,
        released_resizes=record.resize.changes if held else 0,
        **more,
    )
