"""Pod sets counted into a place in order, on paper: how many of each find room beside the others.

Nothing is charged. The nodes that a set would take are noted with what is left of them, and what
the next set finds is the room of its index less what it lost on these. So the work grows with the
nodes taken and not with those there are, and its sum has a bound.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from shared.core.cluster.node_state import NodeState, copy_of
from shared.core.cluster.topology import chain
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Level, Spread
from shared.core.model.units import UNLIMITED, pods_within
from shared.core.placement.feasibility import permitted
from shared.core.placement.room import Place, RoomIndex, room_index
from shared.core.scoring import Cluster, node_room, shares_on

STEPS_MAX: Final = 128
"""Nodes taken for one refusal, in all places that are tried."""
COPY_STEPS: Final = 32
"""What a node counts if its GPUs must be told apart, as pods take shares or instances of them."""


@dataclass
class Drafts:
    """All that is counted for one refusal."""

    cluster: Cluster
    gang: Gang
    steps: int = STEPS_MAX
    """Nodes that may still be taken."""
    _indexes: dict[tuple[str, PodDemand], RoomIndex] = field(default_factory=dict)

    @property
    def distinct(self) -> bool:
        """Whether each pod has a node of its own."""
        return self.gang.spread is Spread.REQUIRED

    def index(self, flavor: str, demand: PodDemand) -> RoomIndex:
        """Room for `demand` alone in `flavor`."""
        index = self._indexes.get((flavor, demand))
        if index is None:
            node_classes = sum(permitted(self.cluster, self.gang, demand, flavor), ())
            index = self._indexes[flavor, demand] = room_index(
                self.cluster, node_classes, demand, self.gang.team, distinct=self.distinct
            )
        return index

    def ample(self, flavor: str) -> bool:
        """Whether all surely find room: each pod before takes room of others on one node alone."""
        before = 0
        for demand in self.gang.demands:
            index = self.index(flavor, demand)
            largest = index.largest(Level.NODE)
            lost = before * largest[0] if largest else 0
            if index.total - lost < demand.count:
                return False
            before += demand.count
        return True

    def fill(self, flavor: str, place: Place | None) -> tuple[int, ...] | None:
        """By pod set, how many find room in `place`, or anywhere in `flavor`, beside those before.

        None if that takes more than may be counted, or whole slices.
        """
        if self.steps < 0 or any(demand.slices for demand in self.gang.demands):
            return None
        taken: dict[NodeState, _Left] = {}
        fit = [self._count(demand, flavor, place, taken) for demand in self.gang.demands]
        return tuple(fit) if self.steps >= 0 else None

    def _count(
        self, demand: PodDemand, flavor: str, place: Place | None, taken: dict[NodeState, _Left]
    ) -> int:
        index = self.index(flavor, demand)
        lost = Counter[Place | None]()
        for node, left in taken.items():
            less = index.room(node) - left.room(demand) if index.room(node) else 0
            for part in (node, *chain(node), None):
                lost[part] += less
        room = (index.total if place is None else index.room(place)) - lost[place]
        fits = min(room, demand.count)
        if demand is not self.gang.demands[-1]:
            self._take(demand, _nodes(index, lost, place, fits), fits, taken)
        return fits

    def _take(
        self,
        demand: PodDemand,
        nodes: Iterator[tuple[int, NodeState]],
        pods: int,
        taken: dict[NodeState, _Left],
    ) -> None:
        exact = not all(each.adds_up for each in self.gang.demands)
        for room, node in nodes:
            if node not in taken:
                self.steps -= COPY_STEPS if exact else 1
                if self.steps < 0:
                    return
                taken[node] = _Left(node, self.gang.team, exact=exact, distinct=self.distinct)
            taken[node].take(demand, min(room, pods))
            pods -= min(room, pods)
        assert not pods, "their room was counted"


class _Left:
    """What pods that were counted leave of a node."""

    def __init__(self, node: NodeState, team: str, *, exact: bool, distinct: bool) -> None:
        self._node = node
        if exact:
            self._node = copy_of(node)
        self._team = team
        self._exact = exact
        self._distinct = distinct
        self._gpus = self._cpu_milli = self._memory_mib = 0
        """What they take, where that adds up."""

    def room(self, demand: PodDemand) -> int:
        """How many pods of `demand` fit beside them."""
        if self._distinct:
            return 0
        node = self._node
        if self._exact:
            return node_room(node, demand, self._team)
        gpus = demand.gpus
        return pods_within(
            (node.free_count - self._gpus) // gpus if gpus else UNLIMITED,
            node.free_cpu_milli - self._cpu_milli,
            demand.cpu_milli,
            node.free_memory_mib - self._memory_mib,
            demand.memory_mib,
        )

    def take(self, demand: PodDemand, pods: int) -> None:
        """Note `pods` pods more, for which there is room."""
        self._gpus += demand.gpus * pods
        self._cpu_milli += demand.cpu_milli * pods
        self._memory_mib += demand.memory_mib * pods
        for _ in range(pods if self._exact else 0):
            shares = shares_on(self._node, demand, self._team)
            amounts = demand.cpu_milli, demand.memory_mib
            self._node.hold(self._team, shares, *amounts, media=demand.media)


def _nodes(
    index: RoomIndex, lost: Counter[Place | None], place: Place | None, pods: int
) -> Iterator[tuple[int, NodeState]]:
    """(room, node) for `pods` pods in `place`, in the order in which a gang fills it."""
    if isinstance(place, NodeState):
        yield index.room(place) - lost[place], place
        return
    if place is None:
        ranked = index.at_least(Level.NODE, 1, pods + len(lost))
    else:
        ranked = index.children(place)
    parts = [(room - lost[part], rank, part) for room, rank, part in ranked]
    parts = sorted(part for part in parts if part[0] > 0) if lost else parts
    while pods > 0 and parts:
        at = min(bisect_left(parts, (pods,)), len(parts) - 1) if place is not None else 0
        room, _, part = parts.pop(at)
        yield from _nodes(index, lost, part, min(room, pods))
        pods -= room
