"""How many nodes of one flavor are lacking, beside what is free or will be free sooner.

Gangs take room in their order, the largest pods first: what is there, then what earlier gangs
left of nodes that are lacking, then one more node. So of a gang only the pods that it still lacks
count. A gang that no node of the flavor could hold a pod of counts nothing. At last there must be
as many empty nodes as the buffer wants.

Many gangs of equal pods that may lie anywhere are packed as one. All others are packed one after
the other until that has cost `looks_max`; then their pods count as if they might lie anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from shared.core.model.units import GPU_MILLI
from shared.core.model.value import Value
from shared.core.needed_nodes.gang import EqualPods, GangNeed
from shared.core.needed_nodes.rooms import OpenNode, OpenNodes

LOOKS_MAX: Final = 5_000
"""About 15 ms of Python: some hundreds of gangs."""


class NodeLack(Value, frozen=True, kw_only=True):
    """What one flavor has too little of."""

    nodes: int = 0
    """For work that waits."""
    warm_nodes: int = 0
    """Besides, to have as many empty ones as the buffer wants."""
    pods: int = 0
    """Pods that would lie on the first."""


def lack_of(
    gangs: Mapping[GangNeed, int],
    rooms: Iterable[OpenNode],
    *,
    node_gpus: int,
    warm_nodes: int,
    looks_max: int = LOOKS_MAX,
) -> NodeLack:
    """The lack of one flavor with nodes of `node_gpus` each, for so many gangs of each need.

    Changes `rooms`. Where no node of it was seen (`node_gpus` 0), a node has what the largest pod
    asks for. O(needs x (sizes of room + nodes that are not full) + `looks_max`).
    """
    size = node_gpus or max((one.largest for one in gangs), default=1)
    packing = _Packing(rooms, size)
    for need, number in gangs.items():
        if need.largest > size:
            continue
        left = number
        while left and not need.alike and packing.looks < looks_max:
            packing.put(need)
            left -= 1
        packing.put(GangNeed(pods=need.pods), left)
    return NodeLack(
        nodes=packing.nodes,
        warm_nodes=max(warm_nodes - packing.there.empty(), 0),
        pods=packing.pods,
    )


class _Packing:
    """What is free, and the nodes of `size` GPUs that are lacking so far."""

    def __init__(self, rooms: Iterable[OpenNode], size: int) -> None:
        self.there, self._new, self._size = OpenNodes(rooms), OpenNodes(), size
        self._gangs = self.nodes = self.pods = 0

    @property
    def looks(self) -> int:
        """What it has cost: nodes that were looked at, and gangs."""
        return self.there.looks + self._new.looks + self._gangs

    def put(self, need: GangNeed, number: int = 1) -> None:
        """Place a gang, or so many of which the pods may lie anywhere."""
        self._gangs += 1
        domain = self.there.best_domain(need)
        for count, gpus, milli in need.pods:
            lacking = count * number
            if domain is not None or need.level is None:
                lacking -= self.there.take((lacking, gpus, milli), need, domain)
            self.pods += lacking
            lacking -= self._new.take((lacking, gpus, milli), need)
            more = -(-lacking // self._pods_of_a_node((count, gpus, milli), apart=need.apart))
            if more:
                self.nodes += more
                self._new.add(OpenNode(name="", free=self._size, gpus=self._size, count=more))
                self._new.take((lacking, gpus, milli), need)

    def _pods_of_a_node(self, pods: EqualPods, *, apart: bool) -> int:
        _, gpus, milli = pods
        if apart:
            return 1
        return self._size // gpus if gpus else self._size * (GPU_MILLI // milli)
