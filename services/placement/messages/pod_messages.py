"""Facts of the binder about the pods of one attempt.

Facts about an attempt that is not the present one change nothing: what that attempt held was
given back when it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from services.placement.cell import Action, Cell
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import attempt_end, resizing, transitions
from shared.core.model.lifecycle import State
from shared.core.nodes.pod_failures import FailureCause
from shared.events import pods
from shared.events.envelope import Received


def _record(cell: Cell, fact: pods.PodFact) -> Record | None:
    """The workload, if the fact is about its present attempt, of which is heard now."""
    record = cell.state.records.alive.get(fact.workload_id)
    if record is not None and record.attempt == fact.attempt and record.holds:
        cell.state.heard.note(fact.workload_id, cell.state.unit.now_ms)
        return record
    return None


def _of_attempt(transition: Callable[[CellState, Record, Any, Received], None]) -> Action:
    def apply(cell: Cell, message: Received, fact: pods.PodFact) -> None:
        record = _record(cell, fact)
        if record is not None:
            transition(cell.state, record, fact, message)

    return apply


def running(cell: Cell, message: Received, fact: pods.PodsRunning) -> None:
    """All pods of it run, so their nodes start work."""
    record = _record(cell, fact)
    if record is not None:
        cell.shunning.started(record, message)
        transitions.running(cell.state, record, fact, message)


def finished(cell: Cell, message: Received, fact: pods.PodsFinished) -> None:
    """All pods are terminal; what ended well before it was told to run has started, too."""
    record = _record(cell, fact)
    if record is None:
        return
    if fact.succeeded and record.state in (State.PLACED, State.BOUND):
        cell.shunning.started(record, message)
    if fact.cause is FailureCause.KUBELET_REFUSED and fact.node:
        cell.shunning.refused(record, fact.node, message)
    attempt_end.finished(cell.state, record, fact, message)


def unstarted(cell: Cell, message: Received, fact: pods.PodsUnstarted) -> None:
    """Some did not start in time, and its nodes hear of it."""
    record = _record(cell, fact)
    if record is not None:
        cell.shunning.gave_up(record, fact.ranks, message)


def devices(cell: Cell, message: Received, fact: pods.PodDevicesTold) -> None:
    """Kubelets have said which GPUs its pods have."""
    cell.takeovers.told(message, fact)


def gone(state: CellState, record: Record, fact: pods.PodsGone, cause: Received) -> None:
    """The binder saw the last pod of the attempt go."""
    attempt_end.gone(state, record, cause, succeeded=fact.succeeded)


def refused(cell: Cell, message: Received, fact: pods.BindRefused) -> None:
    """The cluster would not take a pod, or not in time."""
    record = _record(cell, fact)
    if record is not None:
        cell.shunning.gave_up(record, fact.unstarted, message)
        attempt_end.refused_by_cluster(cell.state, record, fact, message)


ACTIONS: Final[dict[type, Action]] = {
    pods.PodsBound: _of_attempt(transitions.bound),
    pods.PodsRunning: running,
    pods.PodsPulling: _of_attempt(transitions.pulling),
    pods.PodsPulled: _of_attempt(transitions.pulled),
    pods.PodsFinished: finished,
    pods.PodsUnstarted: unstarted,
    pods.PodDevicesTold: devices,
    pods.PodsGone: _of_attempt(gone),
    pods.BindRefused: refused,
    pods.PodsResized: _of_attempt(resizing.resized),
    pods.ResizeRefused: _of_attempt(resizing.refused),
}
