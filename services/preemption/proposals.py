"""The plans of one turn. They are sent when it ends; until then they may take more.

A gang that is giving up pods is asked for no more until these are gone (ADR 28). So what would
take further surplus of a gang that was asked in this turn, or all of it, joins that plan and
follows its preemptor.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace as changed

from services.preemption.memory import PreemptionMemory
from services.preemption.records import Flight
from services.preemption.world import World
from shared.core.preemption.eligibility.plan import EvictionPlan, Victim
from shared.events.plans import ProposeEvictionPlan


class Proposals:
    """See the module."""

    def __init__(self, memory: PreemptionMemory, world: World) -> None:
        self._memory = memory
        self._world = world
        self._plans: list[ProposeEvictionPlan] = []
        self._of_victim: dict[str, int] = {}
        """By gang that gives up pods: the place of its plan."""

    def add(self, plan: ProposeEvictionPlan) -> None:
        """One more."""
        smaller = [one.workload_id for one in plan.victims if one.pods_kept]
        self._of_victim |= dict.fromkeys(smaller, len(self._plans))
        self._world.may_give_more(self._of_victim)
        self._plans.append(plan)

    def asks_again(self, plan: EvictionPlan) -> bool:
        """Whether it takes from a gang that was asked in this turn."""
        return any(one.workload_id in self._of_victim for one in plan.victims)

    def may_be(self, plan: EvictionPlan, queue: str) -> bool:
        """Whether it can be a plan of its own, or join others."""
        return not self.asks_again(plan) or bool(self._joins(plan, queue))

    def _joins(self, plan: EvictionPlan, queue: str) -> list[int]:
        """The places of the plans that its victims belong to; none if it may not join them."""
        more = {one.workload_id: one for one in plan.victims}
        places = sorted({self._of_victim.get(name, -1) for name in more})
        may = places[0] >= 0 and all(self._takes(place, more, queue) for place in places)
        return places if may else []

    def join(self, plan: EvictionPlan, queue: str) -> Flight | None:
        """Let the plans that its victims belong to take more; the first of them.

        None if they may not: they are for the same queue, and take them by the same rules.
        """
        places = self._joins(plan, queue)
        if not places:
            return None
        more = {one.workload_id: one for one in plan.victims}
        flights = [self._take(place, more) for place in places]
        known = self._plans[places[0]]
        self._plans[places[0]] = changed(known, followers=known.followers + 1 + plan.followers)
        return flights[0]

    def _takes(self, place: int, more: Mapping[str, Victim], queue: str) -> bool:
        known = self._plans[place]
        mine = [(one, more[one.workload_id]) for one in known.victims if one.workload_id in more]
        return known.queue == queue and all(one.rule == other.rule.value for one, other in mine)

    def _take(self, place: int, more: Mapping[str, Victim]) -> Flight:
        """What is taken of the victims of one plan; they lose by both."""
        known = self._plans[place]
        before = self._memory.flights[known.plan_id]
        kept, losses, victims = dict(before.victims), dict(before.losses), []
        for one in known.victims:
            other = more.get(one.workload_id)
            if other is None:
                victims.append(one)
                continue
            kept[one.workload_id] = len(other.kept_ranks)
            losses[self._memory.offers[one.workload_id].workload.team] += other.lost_gpu_ms
            lost_gpu_ms = one.lost_gpu_ms + other.lost_gpu_ms
            victims.append(changed(one, pods_kept=len(other.kept_ranks), lost_gpu_ms=lost_gpu_ms))
        self._plans[place] = changed(known, victims=tuple(victims))
        flight = changed(before, victims=kept, losses=losses)
        self._memory.fly(flight)
        return flight

    def asks_no_more(self, plan: EvictionPlan) -> None:
        """Those of its victims that were asked in this turn are left alone from now on."""
        for one in plan.victims:
            self._of_victim.pop(one.workload_id, None)
        self._world.may_give_more(self._of_victim)

    def end(self) -> list[ProposeEvictionPlan]:
        """All, to be sent now."""
        self._world.may_give_more(())
        return self._plans
