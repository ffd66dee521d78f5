"""What leaves a part of the fabric so that the pods of one demand find room there: counting.

1. `reach`: nodes are taken in order of price for each further pod (offer_queue.py), by what they
   offer (node_offers.py); a gang that goes makes room on all its nodes (made_room.py).
2. `trim`: every victim that can come back does, the dearest first.
3. `improve`: one at a time is replaced by others if that is cheaper.

Idea: weighted set cover, greedy, then reverse delete (Chvatal, 1979; ADR 23). Works on copies of
nodes; only the quota tree knows, through the judge, what has left.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.victims.bounds import Bounds
from shared.core.preemption.victims.made_room import MadeRoom
from shared.core.preemption.victims.node_offers import NodeOffers
from shared.core.preemption.victims.offer_queue import OfferQueue
from shared.core.preemption.victims.offers import RoomOffer
from shared.core.preemption.victims.simulated_removal import least_gone

SWAPS_MAX: Final = 16
"""Victims for which cheaper ones are looked for, the dearest first."""
SWAP_LOOKS_MAX: Final = 8_192
"""Looks at nodes by all swaps together, about a second; the last swap is not cut short."""


class VictimChoice:
    """What leaves the part and for the demand of `room`, beside those that left before.

    `amortised`: a node pays for its own pods of a gang only, not for the whole.
    """

    def __init__(self, room: MadeRoom, *, amortised: bool = False) -> None:
        self.dearer: list[tuple[int, str, RoomOffer]] = []
        """Other nodes that were looked at for the first pod: (price, node, offer)."""
        self._room = room
        self._leavers = room.leavers
        self._running = room.leavers.scope.occupants.tenants.running
        self._pods = room.demand.count
        self._fixed = frozenset(room.leavers.out)
        self._bounds = Bounds(room.leavers.scope, room.part, room.demand, self._pods)
        self._offers = NodeOffers(room, amortised=amortised)

    def reach(self) -> bool:
        """Let the cheapest leave until there is room; whether there is a way."""
        leavers, pods = self._leavers, self._pods
        queue = OfferQueue(self._offers, self._room.part, self._bounds, pods, leavers.changed())
        while (missing := self._room.missing) > 0:
            found = queue.pop(missing)
            if found is None:
                return False
            if not leavers.out and pods == 1:
                self.dearer = queue.others(found[0])
            queue.look_again([found[0], *self._take(found[1])])
        return True

    def trim(self) -> None:
        """Let all come back that need not leave, the dearest first."""
        for occupant in self._chosen():
            sizes = self._leavers.scope.occupants.sizes_of(occupant.id)
            out = self._leavers.out[occupant.id]
            least_gone(occupant, sizes, out, partial(self._suffices, occupant))

    def _suffices(self, occupant: Occupant, ranks: frozenset[int]) -> bool | None:
        """Let exactly `ranks` of it be gone if there is room then too."""
        before = self._leavers.out[occupant.id]
        self._room.let_go(occupant, ranks)
        if self._room.missing <= 0:
            return True
        self._room.let_go(occupant, before)
        return None

    def improve(self) -> None:
        """Replace one victim at a time by others where that is cheaper."""
        before = self._offers.looks
        for occupant in self._chosen()[:SWAPS_MAX]:
            if self._offers.looks > before + SWAP_LOOKS_MAX:
                break
            if occupant.id in self._leavers.out:
                self._swap(occupant)

    def _chosen(self) -> list[Occupant]:
        """What leaves for this demand, the dearest first."""
        out, cost = self._leavers.out, self._leavers.cost
        chosen = [self._running[name] for name in out if name not in self._fixed]
        return sorted(chosen, key=lambda each: (-cost(each, out[each.id]), each.id))

    def _swap(self, occupant: Occupant) -> None:
        """Let others leave instead of it, if they cost less."""
        before, cost = dict(self._leavers.out), self._leavers.total_cost
        self._offers.banned.add(occupant.id)
        self._room.let_go(occupant, frozenset())
        if self.reach():
            self.trim()
        if self._room.missing > 0 or self._leavers.total_cost >= cost:
            self._room.restore(before)
        self._offers.banned.discard(occupant.id)

    def _take(self, offer: RoomOffer) -> list[str]:
        """Let those of an offer leave, all or none; the nodes that changed."""
        out = self._leavers.out
        before = {way.occupant.id: out.get(way.occupant.id) for way in offer.ways}
        changed: list[str] = []
        for way in offer.ways:
            ranks = way.ranks | out.get(way.occupant.id, frozenset())
            if not self._leavers.admits(way.occupant, ranks):
                for other in offer.ways:
                    self._room.let_go(other.occupant, before[other.occupant.id] or frozenset())
                self._offers.banned.add(way.occupant.id)
                return [name for name in way.occupant.nodes if name in self._room.part.nodes]
            changed += self._room.let_go(way.occupant, ranks)
            changed += self._next_piece(way.occupant)
        return changed

    def _next_piece(self, occupant: Occupant) -> list[str]:
        """Where the highest rank of an elastic gang is that has not left: it costs less now.

        So do its other pods, but none can leave before this one.
        """
        left = len(occupant.placement.pods) - len(self._leavers.out[occupant.id])
        if occupant.id not in self._leavers.scope.occupants.surplus:
            return []
        return [pod.node for pod in occupant.placement.pods if pod.rank == left - 1]
