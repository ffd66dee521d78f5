"""Idle work is stopped like a victim, with its grace, and then held for its owner (ADR 27).

Not queued again: it would start, be idle and be stopped, over and over. Not ended either: its
owner releases it when he comes back, and it goes on from its checkpoint. It failed nothing.
"""

from __future__ import annotations

from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.wording import moment
from shared.events.envelope import Received
from shared.events.plans import IdleReleaseRefused, ReleaseIdleWorkload
from shared.events.workloads import IdleRelease


def release(state: CellState, message: Received, plan: ReleaseIdleWorkload) -> None:
    """Evict the attempt that was seen idle and hold the workload, or say why not."""
    record = state.records.alive.get(plan.workload_id)
    runs = record is not None and record.state is State.RUNNING
    if record is None or not runs or record.attempt != plan.attempt:
        _refuse(state, message, plan, f"attempt {plan.attempt} does not run any more")
        return
    if record.priority_class != plan.priority_class:  # preemption may spare this one
        text = f"its priority class is {record.priority_class} by now"
        _refuse(state, message, plan, text)
        return
    text = (
        f"released at {moment(state.unit.now_ms)}: its GPUs were used"
        f" {plan.utilization_percent} % at most from {moment(plan.since_ms)}"
        f" to {moment(plan.until_ms)}; it is held until its owner releases it"
    )
    record.then_held = True
    evidence = IdleRelease(
        plan_id=plan.plan_id,
        since_ms=plan.since_ms,
        until_ms=plan.until_ms,
        utilization_percent=plan.utilization_percent,
    )
    transitions.evict(state, record, Reason.IDLE, text, message, idle=evidence)


def _refuse(state: CellState, message: Received, plan: ReleaseIdleWorkload, text: str) -> None:
    fact = IdleReleaseRefused(
        plan_id=plan.plan_id,
        workload_id=plan.workload_id,
        team=plan.team,
        queue=plan.queue,
        cell=plan.cell,
        reason=Reason.WORKLOAD_CHANGED,
        message=text,
    )
    state.unit.tell_about(fact, plan.workload_id, message)
