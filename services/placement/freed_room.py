"""What is left of the nodes that became freer.

Somebody who was refused for want of nodes can only fit now if one of his pods goes where something
became free since. In a full cluster hundreds of classes wait for each node, and after a few
placements nothing is left of it: that is seen here from four numbers, without a search.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from shared.core.cells import Ints
from shared.core.cluster import Cluster
from shared.core.model import PodSet, Workload
from shared.core.node_state import NodeState
from shared.core.units import GPU_MILLI

FEW: Final = 64
"""Nodes for which there is room at first; it doubles when they are more."""


class FreedRoom:
    """Nodes by flavor, from when they became freer until `forget`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._shelves: dict[str, _Shelf] = {}
        self._unseen: dict[str, None] = {}
        """Nodes that are looked at when somebody asks: while nobody waits, nobody does."""

    def add(self, names: Iterable[str]) -> None:
        """Something became free or better on these nodes."""
        self._unseen.update(dict.fromkeys(names))

    def taken(self, flavor: str, names: Iterable[str]) -> None:
        """Something was placed on these nodes."""
        shelf = self._shelves.get(flavor)
        if shelf is not None:
            for name in names:
                if name in shelf.rows:
                    shelf.put(name, _left_on(self._cluster.nodes[name]))

    def forget(self) -> None:
        """Everybody whom it could help was tried."""
        self._shelves, self._unseen = {}, {}

    def nodes_for(self, workload: Workload, flavors: Iterable[str]) -> list[str]:
        """Those that may have room for a pod of it, by four numbers; never wrong with a no."""
        if self._unseen:
            self._see()
        shelves = [self._shelves[flavor] for flavor in flavors if flavor in self._shelves]
        pod_sets = workload.spec.pod_sets
        return [name for shelf in shelves for one in pod_sets for name in shelf.holding(one)]

    def _see(self) -> None:
        for name in self._unseen:
            state = self._cluster.nodes.get(name)
            if state is not None and state.kind is not None:
                flavor = state.kind.key.flavor
                self._shelves.setdefault(flavor, _Shelf()).put(name, _left_on(state))
        self._unseen = {}


class _Shelf:
    """The nodes of one flavor: shape (4, nodes) of whole GPUs, milli of one GPU, CPU, memory."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self._names: list[str] = []
        self._left: Ints = np.zeros((4, FEW), dtype=np.int64)

    def put(self, name: str, left: tuple[int, int, int, int]) -> None:
        row = self.rows.get(name)
        if row is None:
            row = self.rows[name] = len(self._names)
            self._names.append(name)
            if row == self._left.shape[1]:
                self._left = np.concatenate([self._left, np.zeros_like(self._left)], axis=1)
        self._left[:, row] = left

    def holding(self, pod_set: PodSet) -> list[str]:
        """Nodes with enough of each; which MIG slices are left is not asked."""
        gpu, cpu_milli, memory_mib = pod_set.gpu, pod_set.cpu_milli or 0, pod_set.memory_mib or 0
        asked = np.array([[gpu.count], [gpu.milli], [cpu_milli], [memory_mib]])
        enough = np.logical_and.reduce(self._left[:, : len(self._names)] >= asked)
        return [self._names[row] for row in np.flatnonzero(enough)]


def _left_on(state: NodeState) -> tuple[int, int, int, int]:
    """The most that one pod could get there, of each for itself. O(GPUs)."""
    shares = (
        GPU_MILLI - use.milli
        for use in state.uses.values()
        if use.offers_whole or use.offers_shares
    )
    share_milli = max(shares, default=0)
    return state.free_count, share_milli, state.free_cpu_milli, state.free_memory_mib
