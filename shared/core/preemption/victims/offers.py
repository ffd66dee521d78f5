"""What one node offers to pods: the cheapest occupants to leave for each number of pods.

Whole GPUs with one holder each add up: a knapsack over the number of GPUs freed, exact. Where they
do not (shared GPUs, MIG, NUMA, too little CPU or memory), the placer's own count of room decides:
all that may leave is thought away, then taken back in every way that leaves room, the dearest
first; exact until the bound on steps, then the first way found from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from shared.core.cluster.node_state import NodeState
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import PodPlacement
from shared.core.model.units import UNLIMITED
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.scoring import node_room

STEPS_MAX: Final = 400
"""Questions for the room of one node."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way in which an occupant makes room on a node."""

    occupant: Occupant
    ranks: frozenset[int]
    """All of its pods that have left then, anywhere."""
    pods: tuple[PodPlacement, ...]
    """Those of this node that leave now."""
    gpus: int
    """Whole GPUs that are free then."""
    cpu_milli: int
    memory_mib: int
    price: int


@dataclass(frozen=True, slots=True)
class RoomOffer:
    """Room for `pods` more pods, for a price."""

    pods: int
    ways: tuple[Way, ...]
    price: int


Move = Callable[[Way, NodeState], None]


def by_counting(
    node: NodeState, demand: PodDemand, ways: Sequence[Sequence[Way]], pods_max: int
) -> list[RoomOffer] | None:
    """Offers for up to `pods_max` more pods, one way of each inner list; None if CPU is short.

    For whole GPUs that are not aligned, each held by one occupant only.
    """
    room = node.free_count // demand.gpus
    spare = node.free_count - room * demand.gpus
    most = min(pods_max * demand.gpus - spare, sum(max(w.gpus for w in each) for each in ways))
    best: list[tuple[int, tuple[Way, ...]] | None] = [(0, ())] + [None] * max(most, 0)
    for each in ways:
        following = list(best)
        for freed, known in enumerate(best):
            if known is None:
                continue
            for way in each:
                at = min(freed + way.gpus, most)
                price = known[0] + way.price
                there = following[at]
                if there is None or price < there[0]:
                    following[at] = price, (*known[1], way)
        best = following
    found: list[RoomOffer] = []
    for pods in range(1, pods_max + 1):
        need = pods * demand.gpus - spare
        able = [each for each in best[need:] if each is not None] if need <= most else []
        if not able:
            break
        price, chosen = min(able, key=lambda each: each[0])
        if not _feeds(node, demand, chosen, room + pods):
            return None
        found.append(RoomOffer(pods, chosen, price))
    return found


def _feeds(node: NodeState, demand: PodDemand, ways: Sequence[Way], pods: int) -> bool:
    """Whether CPU and memory suffice for `pods` when `ways` have left."""
    cpu_milli = node.free_cpu_milli + sum(way.cpu_milli for way in ways)
    memory_mib = node.free_memory_mib + sum(way.memory_mib for way in ways)
    return cpu_milli >= pods * demand.cpu_milli and memory_mib >= pods * demand.memory_mib


def by_search(
    trial: NodeState,
    demand: PodDemand,
    team: str,
    ways: Sequence[Way],
    pods_max: int,
    *,
    leave: Move,
    come_back: Move,
) -> list[RoomOffer]:
    """The same for any demand; `trial` is a copy, which is left as it was."""
    room = node_room(trial, demand, team)
    order = sorted(ways, key=lambda way: (-way.price, way.occupant.id))
    for way in order:
        leave(way, trial)
    most = min(node_room(trial, demand, team) - room, pods_max)
    found = []
    for pods in sorted({1, most}) if most > 0 else ():
        keep = _Keep(trial, demand, team, order, room + pods, leave, come_back)
        found.append(RoomOffer(pods, keep.ways, keep.price))
    for way in order:
        come_back(way, trial)
    return found


class _Keep:
    """What stays on a node that must have room for so many pods: the dearest possible."""

    def __init__(  # noqa: PLR0917  # wiring of one search
        self,
        trial: NodeState,
        demand: PodDemand,
        team: str,
        order: Sequence[Way],
        pods: int,
        leave: Move,
        come_back: Move,
    ) -> None:
        self._trial, self._demand, self._team = trial, demand, team
        self._order, self._pods = order, pods
        self._leave, self._come_back = leave, come_back
        self._steps = 0
        self.price = UNLIMITED
        self.ways: tuple[Way, ...] = tuple(order)
        self._try(0, 0, ())

    def _try(self, at: int, price: int, gone: tuple[Way, ...]) -> None:
        if price >= self.price:
            return
        if at == len(self._order):
            self.price, self.ways = price, gone
            return
        way = self._order[at]
        self._come_back(way, self._trial)
        self._steps += 1
        stays = node_room(self._trial, self._demand, self._team) >= self._pods
        if stays:
            self._try(at + 1, price, gone)
        self._leave(way, self._trial)
        if not stays or self._steps < STEPS_MAX:
            self._try(at + 1, price + way.price, (*gone, way))
