"""Whether an eviction plan still speaks of what is: its preemptor, and its victims.

A plan was made on facts; between them and the ledger a workload may have ended, moved or shrunk.
"""

from __future__ import annotations

from services.placement.preemption.moves import move_problem
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import resizing, transitions
from shared.core.model.lifecycle import State
from shared.events.plans import PlannedVictim, ProposeEvictionPlan


def preemptor_problem(state: CellState, record: Record | None, plan: ProposeEvictionPlan) -> str:
    """Why the preemptor is not to be placed by this plan; "" when nothing is in the way."""
    if record is None or record.state is not State.QUEUED:
        return f"{plan.workload_id} does not wait"
    if record.version != plan.version:
        return f"{plan.workload_id} is at version {record.version}, not {plan.version}"
    if record.nomination is None or plan.flavor not in record.nomination.flavors:
        return f"{plan.workload_id} may not be placed in {plan.flavor}"
    if state.reservations.of(plan.workload_id) is not None:
        return f"{plan.workload_id} has a reservation already"
    if record.deadline_kind == transitions.BACKOFF:
        return f"{plan.workload_id} waits after a failed attempt"
    return ""


def victim_problem(state: CellState, plan: ProposeEvictionPlan) -> str:
    """The first victim that is not as the plan saw it; "" when all are."""
    for victim in plan.victims:
        record = _runs(state, victim)
        if record is None:
            return f"{victim.workload_id} does not run any more"
        if (record.version, record.attempt) != (victim.version, victim.attempt):
            return f"{victim.workload_id} is at version {record.version}, not {victim.version}"
        if not _can_go(record, victim):
            return f"{victim.workload_id} cannot go on with {victim.pods_kept} pods now"
        if problem := move_problem(record, victim.moves_to):
            return problem
    if len({victim.workload_id for victim in plan.victims}) < len(plan.victims):
        return "a victim is named twice"
    return ""


def _runs(state: CellState, victim: PlannedVictim) -> Record | None:
    """The victim if it has pods; None if not."""
    record = state.records.alive.get(victim.workload_id)
    return record if record is not None and record.state in transitions.HAS_PODS else None


def _can_go(record: Record, victim: PlannedVictim) -> bool:
    """Whole, or down to the pods that it keeps."""
    return not victim.pods_kept or resizing.may_shrink(record, victim.pods_kept)
