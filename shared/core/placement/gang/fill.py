"""Pods of one demand, into a part of the fabric: in as few of its parts as can be.

The tightest part that holds all that is left is taken, else the largest and so on, which is exact
for pods of one shape. Parts are filled one after the other, so pods that follow each other lie
together, and whole slices of them do (core/placement/room.py counts in these).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.images import LOOKED_MAX, missing
from shared.core.cluster.node_state import Domain, NodeState
from shared.core.cluster.statement import Statement
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Level
from shared.core.placement.feasibility import Tiers
from shared.core.placement.gang.exact import Exhaustive
from shared.core.placement.gang.orders import OtherOrders
from shared.core.placement.room import Place as Part
from shared.core.placement.room import Ranked, RoomIndex, room_index
from shared.core.scoring import Cluster, node_room, shares_on

_WIDE: Final = (Level.BLOCK, Level.ZONE)
"""Levels of slices that forbid to look at the racks of several blocks at once."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One attempt: the gang, and the node classes that each pod set may use, preferred first."""

    cluster: Cluster
    gang: Gang
    tiers: tuple[Tiers, ...]
    statement: Statement
    exhaustive: Exhaustive
    flavor: str
    orders: OtherOrders
    by_devices: bool = False
    """Whether room is counted by devices alone: never less than the exact room."""

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        gang: Gang,
        tiers: tuple[Tiers, ...],
        statement: Statement,
        flavor: str,
    ) -> Layout:
        """One with which nothing was tried yet."""
        exhaustive, orders = Exhaustive(gang, statement), OtherOrders(gang)
        return cls(cluster, gang, tiers, statement, exhaustive, flavor, orders)

    def counted(self, demand: PodDemand) -> PodDemand:
        """The demand by which room is counted for `demand`."""
        return replace(demand, cpu_milli=0, memory_mib=0) if self.by_devices else demand

    def nodes(self) -> list[NodeState]:
        """The node of each pod that was charged."""
        return [node for _, node, _ in self.statement.pods]

    def node_classes(self, demand: PodDemand) -> tuple[CapacityIndex, ...]:
        """All node classes on which a pod of `demand` may run."""
        return sum(self.tiers[self.gang.demands.index(demand)], ())


class Fill:
    """Puts pods of one demand into a part of the fabric."""

    def __init__(
        self,
        layout: Layout,
        demand: PodDemand,
        node_classes: tuple[CapacityIndex, ...],
        used: set[NodeState] | None,
    ) -> None:
        self._layout = layout
        self._demand = demand
        self._team = layout.gang.team
        self._statement = layout.statement
        self._node_classes = node_classes
        self._used = used
        self._cluster = layout.cluster
        self._counted = layout.counted(demand)
        self._index: RoomIndex | None = None
        self._blocks_matter = any(each.level in _WIDE for each in demand.slices)

    def put(self, pods: int, place: Part | None) -> int:
        """Charge up to `pods` pods in `place` or anywhere, a leader beside the others."""
        if self._demand.leader:
            return self.beside(self._layout.nodes(), place)
        return self.anywhere(pods) if place is None else self.into(place, pods)

    def into(self, place: Domain | NodeState, pods: int) -> int:
        """Charge up to `pods` pods in `place`; how many found room."""
        if self._demand.slices:
            pods = min(pods, self._room().room(place))
        if isinstance(place, NodeState):
            return self._into_node(place, pods)
        parts = self._room().children(place)
        if place.level is Level.ZONE and not self._blocks_matter:
            parts = self._parts_of_blocks(parts, pods)
        return self._into_parts(parts, pods)

    def anywhere(self, pods: int) -> int:
        """The same in the whole fleet; its parts need have nothing in common."""
        return self._into_parts(self._room().tops(), pods)

    def beside(self, placed: Iterable[NodeState], place: Part | None) -> int:
        """One pod as near as can be to those that have their places, inside `place`; or 0."""
        for part in outward(placed):
            if (place is None or is_in(part, place)) and self.into(part, 1):
                return 1
        return self.anywhere(1) if place is None else self.into(place, 1)

    def _into_parts(self, parts: list[Ranked], pods: int) -> int:
        placed = 0
        while placed < pods and parts:
            placed += self.into(self._next_part(parts, pods - placed), pods - placed)
        return placed

    def _parts_of_blocks(self, blocks: list[Ranked], pods: int) -> list[Ranked]:
        """The racks of the fewest blocks that hold `pods`: across them, few racks count most."""
        racks: list[Ranked] = []
        while pods > 0 and blocks:
            block = self._next_part(blocks, pods)
            pods -= self._room().room(block)
            if isinstance(block, Domain) and block.is_block:
                racks += self._room().children(block)
            else:
                racks.append((self._room().room(block), block.rank, block))
        return sorted(racks)

    def _into_node(self, node: NodeState, pods: int) -> int:
        # Not every node comes from an index: where others of the gang lie it need not be allowed.
        if node.node_class not in self._node_classes:
            return 0
        room = min(node_room(node, self._demand, self._team), pods)
        if self._used is not None:
            room = min(room, int(node not in self._used))
            if room:
                self._used.add(node)
        for _ in range(room):
            self._statement.charge(self._demand, node, shares_on(node, self._demand, self._team))
        return room

    def _next_part(self, parts: list[Ranked], pods: int) -> Part:
        """Take out the tightest part that holds all `pods`, else the largest."""
        at = min(bisect_left(parts, (pods,)), len(parts) - 1)
        if self._node_classes[0].images.has_any(self._demand.artifacts):
            at = self._at_hand(parts, at)
        return parts.pop(at)[2]

    def _at_hand(self, parts: list[Ranked], at: int) -> int:
        """Of the first nodes as tight and as whole as that one the one with most artifacts."""
        room, _, chosen = parts[at]
        first = bisect_left(parts, (room,))
        equal = range(first, min(bisect_left(parts, (room + 1,)), first + LOOKED_MAX))
        ways = [
            (missing(part, self._demand.artifacts), other != at, other)
            for other in (at, *equal)
            if isinstance(part := parts[other][2], NodeState) and part.whole == chosen.whole
        ]
        return min(ways)[2] if ways else at

    def _room(self) -> RoomIndex:
        """Brought up to date once for each fill: pods of earlier sets are in it."""
        if self._index is None:
            self._index = room_index(
                self._cluster,
                self._node_classes,
                self._counted,
                self._team,
                distinct=self._used is not None,
                shut=frozenset(self._used or ()),
            )
        return self._index


def outward(nodes: Iterable[NodeState]) -> Iterator[Part]:
    """Each node once, then the domains that hold any of them, the tightest first."""
    near: list[Part] = list(dict.fromkeys(nodes))
    while near:
        yield from near
        wider = (part.domain if isinstance(part, NodeState) else part.parent for part in near)
        near = list(dict.fromkeys(part for part in wider if part is not None))


def is_in(part: Part, place: Part) -> bool:
    """Whether `part` is `place` or lies in it."""
    while part is not place:
        parent = part.domain if isinstance(part, NodeState) else part.parent
        if parent is None:
            return False
        part = parent
    return True
