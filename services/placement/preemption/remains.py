"""What is carried out of a plan after others for the same preemptor came too late.

The victims that still run and that the rules still give go, as far as the preemptor needs them:
who may go is judged anew (core/preemption/eligibility/rules.py) by the quota of now, and whoever
can stay, the dearest first, stays. Nobody is added: protected classes, cooldowns and loss budgets
are known to the preemption service alone, which gave its word for those of its plan, in the class
that they had then. So the work is bounded by the victims of one plan, and `SPARED_MAX` trials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from services.placement.preemption.plan_checks import can_go, runs
from services.placement.state.records import Record
from services.placement.state.reservations import given_up
from services.placement.unit.cell_state import CellState
from shared.core.model.amounts import Amount, amount
from shared.core.model.charges import least_amount
from shared.core.model.nouns import Placement
from shared.core.model.value import replace
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.rules import EligibilityJudge, PreemptionRules, Spared
from shared.events.plans import PlannedVictim, ProposeEvictionPlan

SPARED_MAX: Final = 16
"""Victims without whom it is tried."""

Try = Callable[[Record, ProposeEvictionPlan], Placement | None]
"""Where the preemptor would go with the victims gone."""


def what_is_left(
    state: CellState, record: Record, plan: ProposeEvictionPlan, where: Try
) -> tuple[ProposeEvictionPlan, Placement] | None:
    """The least of `plan` that can still be done, and where the preemptor goes, or None."""
    plan = replace(plan, victims=tuple(_that_run(state, plan)))
    plan = replace(plan, victims=_lawful(state, record, plan) or ())
    placement = _placed(state, record, plan, where)
    if placement is None:
        return None
    order = sorted(plan.victims, key=lambda one: (-one.lost_gpu_ms, one.workload_id))
    for victim in order[:SPARED_MAX]:
        fewer = replace(plan, victims=tuple(one for one in plan.victims if one is not victim))
        without = _placed(state, record, fewer, where)
        if without is not None:
            plan, placement = fewer, without
    return plan, placement


def _placed(
    state: CellState, record: Record, plan: ProposeEvictionPlan, where: Try
) -> Placement | None:
    """None also if the rules do not give exactly these victims."""
    lawful = _lawful(state, record, plan)
    return where(record, plan) if lawful == plan.victims else None


def _that_run(state: CellState, plan: ProposeEvictionPlan) -> Iterable[PlannedVictim]:
    """As they are now; what the others held is free, or not theirs to give any more."""
    for victim in {one.workload_id: one for one in plan.victims}.values():
        record = runs(state, victim)
        if record is None or record.attempt != victim.attempt or not can_go(record, victim):
            continue
        if record.priority_class == victim.priority_class:
            yield replace(victim, version=record.version)


def _lawful(
    state: CellState, record: Record, plan: ProposeEvictionPlan
) -> tuple[PlannedVictim, ...] | None:
    """Those who may go one after the other; None if the quota is not enough even so."""
    workload = replace(record.workload, priority=record.priority)
    charge = least_amount(workload.spec)
    judge = EligibilityJudge(
        state.usage.tree,
        PreemptionRules(),
        workload,
        charge,
        flavor=plan.flavor,
        now_ms=state.unit.now_ms,
        straddling=True,
        owned_only=record.nomination is not None and record.nomination.within_nominal,
    )
    taken: list[tuple[PlannedVictim, Occupant, Amount]] = []
    for victim, occupant, gives in _leaving(state, plan, workload.queue):
        if not isinstance(judge.rule(occupant, gives), Spared):
            judge.take(occupant, gives)
            taken.append((victim, occupant, gives))
    short = judge.short(charge)
    for _, occupant, gives in reversed(taken):
        judge.give_back(occupant, gives)
    if short is not None:
        return None
    going = {victim.workload_id for victim, _, _ in taken}
    return tuple(one for one in plan.victims if one.workload_id in going)


def _leaving(
    state: CellState, plan: ProposeEvictionPlan, queue: str
) -> list[tuple[PlannedVictim, Occupant, Amount]]:
    """Each with what it gives; those of the preemptor's `queue` first, then the largest last."""
    found = []
    for victim in plan.victims:
        record = state.records.alive[victim.workload_id]
        part = given_up(record, victim.pods_kept)
        if record.placement is None or part is None:
            continue
        occupant = Occupant(
            workload=record.workload,
            placement=record.placement,
            priority=record.priority,
            attempt=record.attempt,
            version=record.version,
            started_at_ms=record.began_at_ms,
        )
        found.append((victim, occupant, amount(part.charge)))
    found.sort(key=lambda one: (one[1].queue != queue, one[2], one[1].id))
    return found
