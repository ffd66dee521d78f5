"""One search for victims: who asks, on what terms, and what is asked of the core."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Final

from services.preemption.losses import Losses
from services.preemption.memory import Memory, Stand
from services.preemption.world import World
from shared.core.charges import least_amount
from shared.core.lifecycle import State
from shared.core.model import Workload
from shared.core.placement import PlacementRequest
from shared.core.preemption.choose import EvictionPlan, Limits, NoEviction, choose_victims
from shared.core.quota.fair_share import borrows
from shared.core.value import replace

LIMITS: Final = Limits(trials_max=128)


class Searching:
    """Of one cell, in the world as it is after `World.refresh`."""

    def __init__(self, memory: Memory, world: World, losses: Losses) -> None:
        self._memory = memory
        self._world = world
        self._losses = losses

    def request(self, workload_id: str) -> PlacementRequest:
        """What it asks for now, and the nodes that are kept for it."""
        offer, kept = self._memory.offers[workload_id], self._memory.kept_for()
        return PlacementRequest(
            workload=self.preemptor(offer.workload),
            flavors=offer.flavors,
            headroom={},
            pins=tuple(one.pin for one in kept if one.workload_id == workload_id),
        )

    def search(self, request: PlacementRequest, now_ms: int) -> EvictionPlan | NoEviction:
        """For what is owed, in the end also on nodes that are kept for those who borrow."""
        answer, kept = self.choose(request, now_ms), self._memory.kept_for()
        found = not isinstance(answer, NoEviction) or answer.placement is not None
        if not kept or found or self._borrows(request.workload.id):
            return answer
        yielding = (one.pin for one in kept if self._borrows(one.workload_id))
        return self.choose(replaced(request, pins=(*request.pins, *yielding)), now_ms)

    def choose(self, request: PlacementRequest, now_ms: int) -> EvictionPlan | NoEviction:
        """The same on the nodes of the request's pins alone."""
        world = self._world
        return choose_victims(
            world.cluster,
            world.tree,
            world.occupants,
            request,
            self._losses.rules(now_ms),
            now_ms=now_ms,
            limits=LIMITS,
        )

    def _borrows(self, workload_id: str) -> bool:
        """Whether it waits for more than its queue owns."""
        offer = self._memory.offers.get(workload_id)
        if offer is None:
            return False
        queue = self._world.tree.node(offer.workload.queue)
        charge = least_amount(offer.workload.spec)
        return borrows(queue, offer.flavors, charge)

    def preemptor(self, workload: Workload) -> Workload:
        """With the priority that it has now."""
        stand = self.stand(workload)
        return replace(workload, priority=stand.priority)

    def stand(self, workload: Workload) -> Stand:
        """Of one of which only a refusal was heard, what it was queued with."""
        stand = self._memory.stands.get(workload.id)
        if stand is None or not stand.version:
            return Stand(State.QUEUED, 1, 0, workload.priority)
        return stand
