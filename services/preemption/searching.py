"""One search for victims: for which workload, on what terms, and what is asked of the core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace as replaced
from typing import Final

from services.preemption.losses import Losses
from services.preemption.memory import PreemptionMemory
from services.preemption.records import Stand
from services.preemption.world import World
from shared.core.model.charges import least_amount
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Workload
from shared.core.model.value import replace
from shared.core.placement.place import PlacementRequest
from shared.core.preemption.eligibility.plan import EvictionPlan, NoEviction, SearchLimits
from shared.core.preemption.victims import choose_victims
from shared.core.quota.fair_share import Start, borrowers, borrows
from shared.events.nodes import KeptFor

LIMITS: Final = SearchLimits(trials_max=128)


class Searching:
    """Of one cell, in the world as it is after `World.refresh`."""

    def __init__(self, memory: PreemptionMemory, world: World, losses: Losses) -> None:
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
            owned_only=offer.within_nominal,
        )

    def search(self, request: PlacementRequest, now_ms: int) -> EvictionPlan | NoEviction:
        """For work that is owed room also on nodes kept for borrowers, if that costs less."""
        answer = self.choose(request, now_ms)
        if isinstance(answer, NoEviction) and answer.placement is not None:
            return answer
        wider = self.wider(request)
        if wider is request:
            return answer
        other = self.choose(wider, now_ms)
        return other if isinstance(answer, NoEviction) or _better(other, answer) else answer

    def wider(self, request: PlacementRequest) -> PlacementRequest:
        """On nodes kept for those that give way as well; the same if nothing does."""
        yielding = self._yielding(request)
        return replaced(request, pins=(*request.pins, *yielding)) if yielding else request

    def _yielding(self, request: PlacementRequest) -> Sequence[int]:
        """Pins of those that give way: they borrow, and the request does not."""
        kept = self._memory.kept_for()
        if not kept or self._borrows(request.workload.id):
            return ()
        borrowing = borrowers(self._starts(kept))
        return [one.pin for one in kept if one.workload_id in borrowing]

    def _starts(self, kept: Sequence[KeptFor]) -> Iterator[Start]:
        """Those for which nodes are kept, as far as they are known."""
        for one in kept:
            offer, node = self._memory.offers.get(one.workload_id), one.nodes[0]
            state = self._world.cluster.nodes.get(node)
            if offer is not None and state is not None and state.inventory is not None:
                queue = self._world.tree.node(offer.workload.queue)
                charge = least_amount(offer.workload.spec)
                yield one.workload_id, queue, state.inventory.flavor, charge

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


def _better(other: EvictionPlan | NoEviction, plan: EvictionPlan) -> bool:
    """Whether no work has to go, or it costs less."""
    if isinstance(other, NoEviction):
        return other.placement is not None
    return other.cost_gpu_ms < plan.cost_gpu_ms
