"""How many pods of one shape each part of the fabric can hold, kept up to date by a change log.

One index serves one shape of pod on one set of node classes. It is built when first asked for,
from the
nodes that are not full (10 ms for 10,000), then follows the nodes that changed since: a change
costs its path to the root. Room is exact for pods
of the shape alone, so for a gang of equal pods the first candidate is the answer. Pods in slices
are counted in whole ones, at every level.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import Domain, NodeState
from shared.core.cluster.topology import LEVELS
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import Level, Slice
from shared.core.placement.search import possible
from shared.core.scoring import Cluster, node_room

Place = Domain | NodeState
Ranked = tuple[int, int, Place]
"""(room, rank, place): the order of candidates, tightest first."""

INDEXES_MAX: Final = 64
"""Shapes followed at a time; the one not asked for longest is dropped."""
BEHIND_PART: Final = 4
"""If more than this part of the nodes changed, an index is built anew."""
ROOM_MAX: Final = 1 << 20
"""Room of a node for pods that ask for nothing."""


class RoomIndex:
    """Room by node and domain, and the places of each level in order of room."""

    def __init__(
        self,
        node_classes: frozenset[CapacityIndex],
        demand: PodDemand,
        team: str,
        *,
        distinct: bool,
    ) -> None:
        self._node_classes = node_classes
        self._demand = demand
        self._team = team
        self._distinct = distinct
        self._seen: int | None = None
        self._shut: frozenset[NodeState] = frozenset()
        """Nodes that count as full."""
        self._units = _Units(demand.slices)
        self._raw: dict[Domain, int]
        """Room of the parts of a domain; what it can hold itself is a multiple of its slices."""
        self._room: dict[Place, int]
        self._homes: dict[NodeState, Domain | None]
        """Where nodes with room were counted."""
        self.total: int
        """Pods that all nodes together can hold."""
        self._by_level: dict[Level, list[Ranked]]
        self._forget()

    def follow(self, cluster: Cluster, shut: frozenset[NodeState] = frozenset()) -> None:
        """Take in what changed since the last call; now nodes in `shut` count as full."""
        behind = self._behind(cluster)
        changed, self._shut = self._shut ^ shut, shut
        if behind is None:
            self._forget()
            self._build(cluster)
        else:
            for node in behind | dict.fromkeys(changed):
                self._update(node)
        self._seen = cluster.changes_before + len(cluster.changes)

    def room(self, place: Place) -> int:
        """Pods that `place` can hold."""
        return self._room.get(place, 0)

    def count_at_least(self, level: Level, pods: int) -> int:
        """Number of places of `level` with room for `pods`."""
        ranked = self._by_level[level]
        return len(ranked) - bisect_left(ranked, (pods,))

    def at_least(self, level: Level, pods: int, places_max: int) -> list[Ranked]:
        """The tightest places of `level` with room for `pods`, the tightest first."""
        ranked = self._by_level[level]
        first = bisect_left(ranked, (pods,))
        return ranked[first : first + places_max]

    def below(self, level: Level, pods: int) -> Ranked | None:
        """The place of `level` with most room of those with less than for `pods`, but some."""
        ranked = self._by_level[level]
        at = bisect_left(ranked, (pods,))
        return ranked[at - 1] if at else None

    def largest(self, level: Level) -> Ranked | None:
        """The place of `level` with most room."""
        ranked = self._by_level[level]
        return ranked[-1] if ranked else None

    def roomiest(self, level: Level, places_max: int) -> list[Ranked]:
        """The places of `level` with most room, the one with most first."""
        return self._by_level[level][: -places_max - 1 : -1]

    def children(self, domain: Domain) -> list[Ranked]:
        """Parts of `domain` with any room, in order of room."""
        ranked = [
            (room, child.rank, child)
            for child in domain.children.values()
            if (room := self._room.get(child, 0))
        ]
        ranked.sort()
        return ranked

    def tops(self) -> list[Ranked]:
        """Domains and nodes that are in no wider one, with any room, in order. O(nodes)."""
        return sorted(
            (room, place.rank, place)
            for place, room in self._room.items()
            if (place.parent if isinstance(place, Domain) else place.domain) is None
        )

    def _behind(self, cluster: Cluster) -> dict[NodeState, None] | None:
        """Nodes that changed since the last call; None if it takes less to start anew."""
        if self._seen is None or self._seen < cluster.changes_before:
            return None
        behind = dict.fromkeys(cluster.changes[self._seen - cluster.changes_before :])
        return behind if len(behind) <= max(len(cluster.nodes) // BEHIND_PART, 1) else None

    def _forget(self) -> None:
        self._raw, self._room, self._homes, self.total = {}, {}, {}, 0
        self._by_level = {level: [] for level in Level}

    def _build(self, cluster: Cluster) -> None:
        raw, ranked_nodes = self._raw, self._by_level[Level.NODE]
        for node in possible(self._node_classes, self._demand, self._team):
            room = self._node_room(node)
            if room:
                self.total += room
                self._room[node] = room
                self._homes[node] = domain = node.domain
                ranked_nodes.append((room, node.rank, node))
                if domain is not None:
                    raw[domain] = raw.get(domain, 0) + room
        # The tightest first: a domain hands up what it can hold itself.
        for domain in sorted(cluster.fabric.domains.values(), key=lambda each: -len(each.path)):
            room = self._units.rounded(domain, raw.get(domain, 0))
            if room:
                self._room[domain] = room
                self._by_level[domain.level].append((room, domain.rank, domain))
                if domain.parent is not None:
                    raw[domain.parent] = raw.get(domain.parent, 0) + room
        for ranked in self._by_level.values():
            ranked.sort()

    def _update(self, node: NodeState) -> None:
        room, before = self._node_room(node), self._room.get(node, 0)
        home, old_home = node.domain, self._homes.pop(node, None)
        self.total += room - before
        self._add(node, Level.NODE, room - before)
        if room:
            self._homes[node] = home
        if home is old_home:
            self._hand_up(home, room - before)
        else:
            self._hand_up(old_home, -before)
            self._hand_up(home, room)

    def _hand_up(self, domain: Domain | None, change: int) -> None:
        """The parts of `domain` can hold `change` more."""
        while domain is not None and change:
            if self._demand.slices:
                raw = self._raw[domain] = self._raw.get(domain, 0) + change
                if not raw:
                    del self._raw[domain]
                change = self._units.rounded(domain, raw) - self._room.get(domain, 0)
            self._add(domain, domain.level, change)
            domain = domain.parent

    def _add(self, place: Place, level: Level, change: int) -> None:
        if not change:
            return
        ranked = self._by_level[level]
        before = self._room.pop(place, 0)
        if before:
            del ranked[bisect_left(ranked, (before, place.rank, place))]
        after = before + change
        if after:
            self._room[place] = after
            insort(ranked, (after, place.rank, place))

    def _node_room(self, node: NodeState) -> int:
        if node.node_class not in self._node_classes or node in self._shut:
            return 0
        room = min(node_room(node, self._demand, self._team), 1 if self._distinct else ROOM_MAX)
        return self._units.rounded(node, room) if self._demand.slices else room


class _Units:
    """Room in whole slices: a place holds so many of those that must lie within it.

    These are the slices of its level and of those up to its parent's, which it has no other domain
    for; sizes nest, so the largest of them decides.
    """

    def __init__(self, slices: tuple[Slice, ...]) -> None:
        self._slices = [(LEVELS.index(each.level), each.pods) for each in slices]

    def rounded(self, place: Place, room: int) -> int:
        if not self._slices:
            return room
        if isinstance(place, NodeState):
            level, parent = 0, place.domain
        else:
            level, parent = LEVELS.index(place.level), place.parent
        above = len(LEVELS) if parent is None else LEVELS.index(parent.level)
        unit = max((pods for at, pods in self._slices if level <= at < above), default=1)
        return room // unit * unit


def room_index(
    cluster: Cluster,
    node_classes: tuple[CapacityIndex, ...],
    demand: PodDemand,
    team: str,
    *,
    distinct: bool,
    shut: frozenset[NodeState] = frozenset(),
) -> RoomIndex:
    """The index for pods like `demand` on these classes, up to date; nodes of `shut` are full.

    It is the caller's until the next call for the same shape.
    """
    owner = team if demand.milli else ""
    key: Hashable = (frozenset(node_classes), demand.shape, owner, distinct)
    index = cluster.rooms.pop(key, None)
    if not isinstance(index, RoomIndex):
        index = RoomIndex(frozenset(node_classes), demand, team, distinct=distinct)
        if len(cluster.rooms) >= INDEXES_MAX:
            del cluster.rooms[next(iter(cluster.rooms))]
    cluster.rooms[key] = index
    index.follow(cluster, shut)
    return index
