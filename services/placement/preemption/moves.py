"""What goes on elsewhere so that a preemptor finds room: its new place is kept, then it stops.

A mover is evicted with its own grace and queued again when its pods are gone, as any other is; in
that very unit it is placed where its reservation says. Its quota goes with it, so neither it nor
the preemptor waits for quota that the other gives back (ADR 41).
"""

from __future__ import annotations

from services.placement.state.records import Record
from services.placement.state.reservations import Reservation
from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from shared.core.model.nouns import Placement, Workload
from shared.core.model.reason import Reason
from shared.core.model.wording import listing, moment
from shared.core.preemption.moves import Mover
from shared.events.envelope import Received
from shared.events.plans import PlannedVictim, ProposeEvictionPlan
from shared.events.workloads import Preemption


def movers_of(state: CellState, plan: ProposeEvictionPlan) -> list[Mover]:
    """From where to where each goes, in the order of the plan."""
    found = []
    for one in plan.victims:
        record = state.records.alive[one.workload_id]
        if one.moves_to is not None and record.placement is not None:
            found.append((record.workload, record.placement, one.moves_to))
    return found


def move_problem(record: Record, to: Placement | None) -> str:
    """Why it cannot go on there; "" when it can, or does not move at all."""
    before = record.placement
    if to is None or before is None:
        return ""
    if to.flavor != before.flavor or not to.charge.fits_in(before.charge):
        return f"{record.workload.id} would be charged more, or elsewhere, by its move"
    if _shape(to) != _shape(before):
        return f"{record.workload.id} would have other pods after its move"
    return ""


def _shape(placement: Placement) -> list[tuple[int, str]]:
    return sorted((pod.rank, pod.pod_set) for pod in placement.pods)


def keep_room(state: CellState, plan: ProposeEvictionPlan, expires_at_ms: int) -> None:
    """Reserve the new place of each, until what is on its nodes has gone. O(movers x victims)."""
    for one in plan.victims:
        if one.moves_to is not None:
            state.reservations.add(
                Reservation(
                    plan_id=f"{plan.plan_id}/{one.workload_id}",
                    workload_id=one.workload_id,
                    queue=state.records.alive[one.workload_id].workload.queue,
                    rule=one.rule,
                    placement=one.moves_to,
                    victims=((one.workload_id, one.attempt, 0),),
                    expires_at_ms=expires_at_ms,
                    movers=out_of(state, plan, one.moves_to, one.workload_id),
                )
            )


def out_of(
    state: CellState, plan: ProposeEvictionPlan, placement: Placement, workload_id: str
) -> tuple[tuple[str, int], ...]:
    """What must be gone from these nodes besides, before `workload_id` starts there.

    Of a preemptor's, its victims are not named here: it is placed with their quota.
    """
    nodes, preemptor = {pod.node for pod in placement.pods}, workload_id == plan.workload_id
    found = []
    for one in plan.victims:
        there = state.records.alive[one.workload_id].placement
        besides = one.workload_id != workload_id and (one.moves_to is not None or not preemptor)
        if besides and there is not None and any(pod.node in nodes for pod in there.pods):
            found.append((one.workload_id, one.attempt))
    return tuple(found)


def move(
    state: CellState,
    planned: PlannedVictim,
    preemptor: Record,
    plan: ProposeEvictionPlan,
    message: Received,
) -> None:
    """Stop it, and tell it for what and where it goes on."""
    workload, to = preemptor.workload, planned.moves_to
    assert to is not None
    where = listing(sorted({pod.node for pod in to.pods}))
    text = (
        f"moved at {moment(state.unit.now_ms)} for workload {workload.id} of team {workload.team}"
        f" (queue {workload.queue}); it goes on at {where} as soon as its pods have stopped"
    )
    mover, taken = (
        state.records.alive[planned.workload_id],
        taken_for(workload, plan, planned.rule),
    )
    transitions.evict(state, mover, Reason.MOVED, text, message, preemption=taken)


def taken_for(preemptor: Workload, plan: ProposeEvictionPlan, rule: str) -> Preemption:
    """What a victim or a mover is told of what takes its place."""
    return Preemption(
        plan_id=plan.plan_id,
        rule=rule,
        workload_id=preemptor.id,
        team=preemptor.team,
        queue=preemptor.queue,
    )
