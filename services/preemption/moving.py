"""When work is moved for other work: seldom, one search at a time, within a budget for the cell.

A search for moves costs many times one for victims, so a class of equal requests gets one a
minute and a turn at most one; what is moved in an hour is bounded (mission P9;
core/preemption/moves/moving.py).
"""

from __future__ import annotations

from typing import Final

from services.preemption.memory import PreemptionMemory
from services.preemption.records import Flight
from services.preemption.world import World
from shared.core.model.nouns import Placement
from shared.core.model.request import PlacementRequest
from shared.core.preemption.eligibility.plan import (
    EvictionPlan,
    Moved,
    NoEviction,
    Obstacle,
    Rule,
)
from shared.core.preemption.eligibility.rules import PreemptionRules
from shared.core.preemption.moves import MovingState, choose_moves, limits_for, may_ask
from shared.events import plans

MOVES_PER_HOUR: Final = 60
HOUR_MS: Final = 3_600_000
NO_HELP: Final = frozenset({Obstacle.FITS, Obstacle.DELAY, Obstacle.QUOTA})
"""Answers that moves cannot change."""


class Moving:
    """The budget of one cell, and what is told of moves."""

    def __init__(self, memory: PreemptionMemory, world: World, per_hour: int) -> None:
        self._memory = memory
        self._world = world
        self._per_hour = per_hour

    def may_help(self, request: PlacementRequest, answer: NoEviction, now_ms: int) -> bool:
        """Whether moves are allowed now, and could make room where evictions do not."""
        return (
            answer.obstacle not in NO_HELP
            and self._left(now_ms) > 0
            and may_ask(self._world.tree, request)
        )

    def choose(
        self, request: PlacementRequest, rules: PreemptionRules, now_ms: int
    ) -> EvictionPlan | None:
        """The fewest moves, within what is left of the budget."""
        world = self._world
        state = MovingState(world.cluster, world.tree, world.occupants, rules, now_ms)
        limits = limits_for(request.workload.pods, self._left(now_ms))
        name = request.workload.id
        kept = (one.nodes for one in self._memory.kept_for() if one.workload_id == name)
        return choose_moves(state, request, limits, next(kept, ()))

    def proposed(self, plan_id: str, plan: EvictionPlan, now_ms: int) -> None:
        """Their new places count as taken."""
        for one in plan.moves:
            self._fly(plan_id, one.workload_id, one.placement, now_ms, {"": 0})

    def accepted(self, fact: plans.EvictionPlanAccepted, now_ms: int) -> None:
        """They stop now; it counts for an hour."""
        moved = [one for one in fact.victims if one.moves_to is not None]
        for one in moved:
            assert one.moves_to is not None
            self._fly(fact.plan_id, one.workload_id, one.moves_to, now_ms, {})
        if moved:
            self._memory.moved([*self._recent(now_ms), *[now_ms] * len(moved)])

    def _fly(
        self, plan_id: str, workload_id: str, to: Placement, now_ms: int, losses: dict[str, int]
    ) -> None:
        self._memory.fly(Flight(f"{plan_id}/{workload_id}", workload_id, {}, to, now_ms, losses))

    def _left(self, now_ms: int) -> int:
        return self._per_hour - len(self._recent(now_ms))

    def _recent(self, now_ms: int) -> list[int]:
        return [at_ms for at_ms in self._memory.moves if at_ms > now_ms - HOUR_MS]


def planned(one: Moved) -> plans.PlannedVictim:
    """A mover as a plan names it."""
    return plans.PlannedVictim(
        workload_id=one.workload_id,
        version=one.version,
        attempt=one.attempt,
        rule=Rule.MOVE.value,
        lost_gpu_ms=one.lost_gpu_ms,
        moves_to=one.placement,
    )
