"""Nodes in order of their price for each further pod; looked at only when their turn comes.

A lower bound for all nodes at once (bounds.py) says until when one need not be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from shared.core.preemption.victims.bounds import FRACTION, Bounds
from shared.core.preemption.victims.node_offers import NodeOffers
from shared.core.preemption.victims.offers import RoomOffer
from shared.core.preemption.victims.simulated_removal import Part

OTHERS_MAX: Final = 3
"""Dearer nodes that are told."""


class OfferQueue:
    """The nodes of `part` for up to `pods` pods; those that have `changed` are looked at first."""

    def __init__(
        self,
        node_offers: NodeOffers,
        part: Part,
        bounds: Bounds,
        pods: int,
        changed: Iterable[str],
    ) -> None:
        self._node_offers = node_offers
        self._part = part
        self._pods = pods
        self._offers: dict[str, list[RoomOffer]] = {}
        self._heap: list[tuple[int, int, str]] = []
        self._waiting = bounds
        self._next = 0
        self.look_again(changed)

    def look_again(self, names: Iterable[str]) -> None:
        """These nodes have changed."""
        for name in names:
            if name in self._part.nodes:
                self._offers[name] = []
                self._look(name, self._pods)

    def pop(self, missing: int) -> tuple[str, RoomOffer] | None:
        """The node with the least price for each of the `missing` pods, and its offer."""
        while True:
            self._look_at_those_in_turn(missing)
            if not self._heap:
                return None
            price, _, name = heappop(self._heap)
            best = _best(self._offers[name], missing)
            if best is None:
                continue
            now = _price(best, missing)
            if now == price:
                return name, best
            heappush(self._heap, (now, self._rank(name), name))

    def others(self, taken: str) -> list[tuple[int, str, RoomOffer]]:
        """The next nodes, beside `taken`: (price, node, offer)."""
        for at in range(self._next, min(self._next + OTHERS_MAX, len(self._waiting))):
            name = self._waiting.name(at)
            if name not in self._offers:
                self._look(name, self._pods)
        found = []
        for _, _, name in sorted(set(self._heap)):
            best = _best(self._offers[name], self._pods)
            if name != taken and best is not None:
                found.append((best.price, name, best))
        return found[:OTHERS_MAX]

    def _look_at_those_in_turn(self, missing: int) -> None:
        """Those that might offer for less than the first that has been looked at."""
        while self._next < len(self._waiting) and (
            not self._heap or self._waiting.price(self._next) <= self._heap[0][0]
        ):
            name = self._waiting.name(self._next)
            self._next += 1
            if name not in self._offers:
                self._look(name, missing)

    def _rank(self, name: str) -> int:
        return self._part.nodes[name].rank

    def _look(self, name: str, missing: int) -> None:
        offers = self._offers[name] = self._node_offers.of(name, missing)
        best = _best(offers, missing)
        if best is not None:
            heappush(self._heap, (_price(best, missing), self._rank(name), name))


def _price(offer: RoomOffer, missing: int) -> int:
    return FRACTION * offer.price // min(offer.pods, missing)


def _best(offers: list[RoomOffer], missing: int) -> RoomOffer | None:
    return min(offers, key=lambda each: (_price(each, missing), each.pods), default=None)
