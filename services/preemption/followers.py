"""Those that wait behind a preemptor and need no plan of their own: its plan makes room for them.

A victim often leaves more room than its preemptor takes, and an elastic gang that gives up surplus
is asked once for all equals that wait (core/preemption/crowd.py). Placement keeps nothing for a
follower, it gives out what is freed in the order of all. But here its place counts as taken until
the plan is at its end, so that meanwhile the next of its class is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as replaced
from typing import Final

from services.preemption.memory import PreemptionMemory
from services.preemption.preemptor_classes import PreemptorClasses
from services.preemption.records import Flight
from services.preemption.world import World
from shared.core.model.charges import least_amount
from shared.core.model.nouns import Placement, Workload
from shared.core.model.request import PlacementRequest
from shared.core.model.value import replace
from shared.core.placement.resize import surplus
from shared.core.preemption import crowd_of, may_crowd, parts_of
from shared.core.preemption.eligibility.occupant import gpu_milli_of
from shared.core.preemption.eligibility.plan import EvictionPlan, NoEviction
from shared.core.preemption.eligibility.rules import policy_of

PODS_MAX: Final = 2_048
"""Pods of all that are looked for at once."""

Choose = Callable[[PlacementRequest], EvictionPlan | NoEviction]


class Followers:
    """Of one cell. Not remembered over a restart: a look at each finds it again."""

    def __init__(self, memory: PreemptionMemory, world: World, lines: PreemptorClasses) -> None:
        self._memory = memory
        self._world = world
        self._lines = lines
        self._plan_of: dict[str, str] = {}
        """By node that victims are leaving: for which plan."""
        self._of_plan: dict[str, list[str]] = {}

    def look(self) -> None:
        """See which nodes are being left. O(pods of victims in flight)."""
        self._plan_of.clear()
        for flight in self._memory.flights.values():
            self._leaving(flight)

    def proposed(self, flight: Flight, behind: Sequence[tuple[str, Placement]]) -> None:
        """A plan that makes room for those `behind` its preemptor too."""
        self._leaving(flight)
        for workload_id, placement in behind:
            self._follow(flight.plan_id, workload_id, placement)

    def follows(self, workload_id: str, placement: Placement) -> bool:
        """Whether it can count on `placement`, which is free in the end: only victims leave it."""
        found = {self._plan_of.get(pod.node, "") for pod in placement.pods}
        if "" in found:
            return False
        self._follow(min(found), workload_id, placement)
        self._world.promise(workload_id, placement)
        return True

    def _follow(self, plan_id: str, workload_id: str, placement: Placement) -> None:
        self._of_plan.setdefault(plan_id, []).append(workload_id)
        self._memory.followers[workload_id] = placement
        self._lines.remove(workload_id)

    def _leaving(self, flight: Flight) -> None:
        for name, pods_kept in flight.victims.items():
            placement = self._memory.placements.get(name)
            for pod in surplus(placement, pods_kept) if placement is not None else ():
                self._plan_of.setdefault(pod.node, flight.plan_id)

    def landed(self, plan_id: str) -> Sequence[str]:
        """What has followed this plan until now, and has no place yet."""
        names = self._of_plan.pop(plan_id, ())
        return [name for name in names if self.left(name)]

    def left(self, workload_id: str) -> bool:
        """It has its place, waits no more or waits anew; whether it followed."""
        memory = self._memory
        if memory.followers.pop(workload_id, None) is None:
            return False
        memory.dirty[workload_id] = None
        return True

    # ── one plan for all equals ──

    def together(
        self,
        request: PlacementRequest,
        plan: EvictionPlan,
        choose: Choose,
        may_be: Callable[[EvictionPlan], bool],
        now_ms: int,
    ) -> tuple[EvictionPlan, Sequence[tuple[str, Placement]]]:
        """`plan`, or one that makes room for equals behind the preemptor too, which come with it.

        Only where all that it takes is surplus of elastic gangs, as what goes whole goes for one,
        and where it `may_be` proposed beside what was proposed in this turn.
        """
        workload, kept = request.workload, self._memory.kept_for()
        equals = self._equals(workload, plan, now_ms) if may_crowd(workload) else ()
        pins = tuple(one.pin for one in kept if one.workload_id in equals)
        count = len(equals)
        while count > 1:
            crowd = crowd_of(workload, count)
            found = choose(replaced(request, workload=crowd, pins=pins))
            if isinstance(found, EvictionPlan) and _takes_surplus(found) and may_be(found):
                first, *others = parts_of(workload, found.placement)
                behind = list(zip(equals[1:count], others, strict=True))
                return replace(found, placement=first, followers=len(behind)), behind
            count //= 2
        return plan, ()

    def _equals(self, workload: Workload, plan: EvictionPlan, now_ms: int) -> Sequence[str]:
        """It and those behind it that may be looked for, as many as could find room there."""
        if not _takes_surplus(plan):
            return ()
        gpu_milli, *_ = least_amount(workload.spec)
        room_milli = sum(self._surplus_milli(one.workload_id) for one in plan.victims)
        most = min(PODS_MAX // workload.pods, room_milli // max(gpu_milli, 1))
        queue = self._world.tree.node(workload.queue)
        since_ms = now_ms - policy_of(queue).preemption_delay_seconds * 1000
        offers = self._memory.offers
        names = self._lines.equals(workload.id, most)
        return [one for one in names if offers[one].workload.submitted_at_ms <= since_ms]

    def _surplus_milli(self, workload_id: str) -> int:
        occupant = self._world.occupants.of(workload_id)
        sizes = self._world.occupants.sizes_of(workload_id)
        assert occupant is not None
        return gpu_milli_of(surplus(occupant.placement, min(sizes)))


def _takes_surplus(plan: EvictionPlan) -> bool:
    return not plan.moves and all(one.kept_ranks for one in plan.victims)
