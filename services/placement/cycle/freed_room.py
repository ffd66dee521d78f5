"""What is left of the nodes that became freer.

A workload that was refused for want of nodes can only fit now if one of its pods goes where
something became free since. In a full cluster hundreds of classes wait for each node, and after a
few placements nothing is left of it: that is seen here from four numbers, without a search.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from shared.core.cluster.node_state import NodeState
from shared.core.model.nouns import PodSet, Workload
from shared.core.model.units import GPU_MILLI
from shared.core.scoring import Cluster, Ints

FEW: Final = 64
"""Nodes for which there is room at first; it doubles when they are more."""
Needs: TypeAlias = tuple[int, int, int, int]
"""What one pod takes, or a node has left: whole GPUs, milli of one GPU, CPU, memory."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class LackedRoom:
    """What of a request the four numbers tell apart, and where it may lie; one object for each."""

    flavors: tuple[str, ...]
    pods: tuple[Needs, ...]
    """Of one pod of each set."""


class FreedRoom:
    """Nodes by flavor, from when they became freer until `forget`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._shelves: dict[str, _Shelf] = {}
        self._rooms: WeakValueDictionary[tuple[tuple[str, ...], tuple[Needs, ...]], LackedRoom] = (
            WeakValueDictionary()
        )
        """As long as a class lacks them."""
        self._known: dict[LackedRoom, list[str]] = {}
        """What `nodes_for` has found; room that is gone stays gone until more comes free."""
        self._unseen: dict[str, None] = {}
        """Nodes that are looked at when a class asks: without one that waits, none does."""

    def room_of(self, workload: Workload, flavors: tuple[str, ...]) -> LackedRoom:
        """What a workload needs to find on nodes of these flavors."""
        pods = tuple(_pod(one) for one in workload.spec.pod_sets)
        found = self._rooms.get((flavors, pods))
        if found is None:
            found = self._rooms[flavors, pods] = LackedRoom(flavors, pods)
        return found

    def add(self, names: Iterable[str]) -> None:
        """Something became free or better on these nodes."""
        self._unseen.update(dict.fromkeys(names))

    def taken(self, flavor: str, names: AbstractSet[str]) -> None:
        """Something was placed on these nodes."""
        known = self._known.items()
        self._known = {room: nodes for room, nodes in known if names.isdisjoint(nodes)}
        shelf = self._shelves.get(flavor)
        if shelf is not None:
            for name in names:
                if name in shelf.rows:
                    shelf.put(name, _left_on(self._cluster.nodes[name]))

    def forget(self) -> None:
        """All that it could help was tried."""
        self._shelves, self._unseen, self._known = {}, {}, {}

    def nodes_for(self, room: LackedRoom) -> list[str]:
        """Those that may have it for one of the pods, by four numbers; never wrong with a no."""
        if self._unseen:
            self._see()
        found = self._known.get(room)
        if found is None:
            shelves = [self._shelves[flavor] for flavor in room.flavors if flavor in self._shelves]
            found = [name for shelf in shelves for pod in room.pods for name in shelf.holding(pod)]
            self._known[room] = found
        return found

    def _see(self) -> None:
        for name in self._unseen:
            state = self._cluster.nodes.get(name)
            if state is not None and state.node_class is not None:
                flavor = state.node_class.key.flavor
                self._shelves.setdefault(flavor, _Shelf()).put(name, _left_on(state))
        self._unseen, self._known = {}, {}


class _Shelf:
    """The nodes of one flavor: shape (4, nodes) of whole GPUs, milli of one GPU, CPU, memory."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self._names: list[str] = []
        self._left: Ints = np.zeros((4, FEW), dtype=np.int64)

    def put(self, name: str, left: Needs) -> None:
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = len(self._names)
            self._names.append(name)
            if row == self._left.shape[1]:
                self._left = np.concatenate([self._left, np.zeros_like(self._left)], axis=1)
        self._left[:, row] = left

    def holding(self, pod: Needs) -> list[str]:
        """Nodes with enough of each."""
        asked = np.array(pod)[:, None]
        enough = np.logical_and.reduce(self._left[:, : len(self._names)] >= asked)
        return [self._names[row] for row in np.flatnonzero(enough)]


def _pod(one: PodSet) -> Needs:
    """Which MIG slices are left is not asked."""
    return one.gpu.count, one.gpu.milli, one.cpu_milli or 0, one.memory_mib or 0


def _left_on(state: NodeState) -> Needs:
    """The most that one pod could get there, of each for itself. O(GPUs)."""
    shares = (
        GPU_MILLI - use.milli
        for use in state.uses.values()
        if use.offers_whole or use.offers_shares
    )
    share_milli = max(shares, default=0)
    return state.free_count, share_milli, state.free_cpu_milli, state.free_memory_mib
