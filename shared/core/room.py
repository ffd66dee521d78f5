"""How many pods of one shape each part of the fabric can hold, kept up to date by a change log.

One index serves one shape of pod on one set of kinds. It is built when first asked for, then
follows the nodes that changed since: a change costs its path to the root. Room is exact for pods
of the shape alone, so for a gang of equal pods the first candidate is the answer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable
from typing import Final

from shared.core.cluster import Cluster
from shared.core.demand import PodDemand
from shared.core.devices import node_room
from shared.core.kind import Kind
from shared.core.model import Level
from shared.core.node_state import NodeState
from shared.core.topology import Domain, chain

Place = Domain | NodeState
Ranked = tuple[int, int, Place]
"""(room, rank, place): the order of candidates, tightest first."""

INDEXES_MAX: Final = 64
"""Shapes followed at a time; the one not asked for longest is dropped."""
ROOM_MAX: Final = 1 << 20
"""Room of a node for pods that ask for nothing."""


class RoomIndex:
    """Room by node and domain, and the places of each level in order of room."""

    def __init__(
        self, kinds: frozenset[Kind], demand: PodDemand, team: str, *, distinct: bool
    ) -> None:
        self._kinds = kinds
        self._demand = demand
        self._team = team
        self._distinct = distinct
        self._seen: int | None = None
        self._room: dict[Place, int] = {}
        self._paths: dict[NodeState, tuple[Domain, ...]] = {}
        self._by_level: dict[Level, list[Ranked]] = {level: [] for level in Level}

    def follow(self, cluster: Cluster) -> None:
        """Take in what changed since the last call."""
        if self._seen is None:
            self._build(cluster)
        else:
            for node in dict.fromkeys(cluster.changes[self._seen :]):
                self._update(node)
        self._seen = len(cluster.changes)

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

    def largest(self, level: Level) -> Ranked | None:
        """The place of `level` with most room."""
        ranked = self._by_level[level]
        return ranked[-1] if ranked else None

    def children(self, domain: Domain) -> list[Ranked]:
        """Parts of `domain` with any room, in order of room."""
        ranked = [
            (room, child.rank, child)
            for child in domain.children.values()
            if (room := self._room.get(child, 0))
        ]
        ranked.sort()
        return ranked

    def _build(self, cluster: Cluster) -> None:
        for node in cluster.nodes.values():
            room = self._node_room(node)
            path = tuple(chain(node))
            if path:
                self._paths[node] = path
            if room:
                self._room[node] = room
                self._by_level[Level.NODE].append((room, node.rank, node))
                for domain in path:
                    self._room[domain] = self._room.get(domain, 0) + room
        for place, room in self._room.items():
            if isinstance(place, Domain):
                self._by_level[place.level].append((room, place.rank, place))
        for ranked in self._by_level.values():
            ranked.sort()

    def _update(self, node: NodeState) -> None:
        room = self._node_room(node)
        path = tuple(chain(node))
        before = self._room.get(node, 0)
        old_path = self._paths.get(node, ())
        self._add(node, Level.NODE, room - before)
        if path == old_path:
            for domain in path:
                self._add(domain, domain.level, room - before)
            return
        for domain in old_path:
            self._add(domain, domain.level, -before)
        for domain in path:
            self._add(domain, domain.level, room)
        self._paths.pop(node, None)
        if path:
            self._paths[node] = path

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
        if node.kind not in self._kinds:
            return 0
        room = node_room(node, self._demand, self._team)
        return min(room, 1 if self._distinct else ROOM_MAX)


def room_index(
    cluster: Cluster, kinds: tuple[Kind, ...], demand: PodDemand, team: str, *, distinct: bool
) -> RoomIndex:
    """The index for pods like `demand` on `kinds`, up to date."""
    owner = team if demand.milli else ""
    key: Hashable = (kinds, demand.shape, owner, distinct)
    index = cluster.rooms.pop(key, None)
    if index is None:
        index = RoomIndex(frozenset(kinds), demand, team, distinct=distinct)
        if len(cluster.rooms) >= INDEXES_MAX:
            del cluster.rooms[next(iter(cluster.rooms))]
    cluster.rooms[key] = index
    index.follow(cluster)
    return index
