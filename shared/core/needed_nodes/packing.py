"""How many nodes of one flavor are lacking, beside what is free or will be free sooner.

Gangs take room in their order, the largest pods first: what is there, then what earlier gangs
left of nodes that are lacking, then one more node. So of a gang only the pods that it still lacks
count. A gang that no node of the flavor could hold a pod of counts nothing. At last there must be
as many empty nodes as the buffer wants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.core.model.units import GPU_MILLI
from shared.core.model.value import Value
from shared.core.needed_nodes.gang import EqualPods, GangNeed
from shared.core.needed_nodes.rooms import OpenNode, OpenNodes


class NodeLack(Value, frozen=True, kw_only=True):
    """What one flavor has too little of."""

    nodes: int = 0
    """For work that waits."""
    warm_nodes: int = 0
    """Besides, to have as many empty ones as the buffer wants."""
    pods: int = 0
    """Pods that would lie on the first."""


def lack_of(
    gangs: Sequence[GangNeed], rooms: Iterable[OpenNode], *, node_gpus: int, warm_nodes: int
) -> NodeLack:
    """The lack of one flavor with nodes of `node_gpus` each; changes `rooms`.

    Where no node of it was seen (`node_gpus` 0), a node has what the largest pod asks for.
    O(gangs x sizes of room + pods placed); a gang within one domain O(nodes that are not full).
    """
    size = node_gpus or max((one.largest for one in gangs), default=1)
    there, new, nodes, pods = OpenNodes(rooms), OpenNodes(), 0, 0
    for need in gangs:
        if need.largest > size:
            continue
        domain = there.best_domain(need)
        for equal in need.pods:
            lacking = equal[0]
            if domain is not None or need.level is None:
                lacking -= there.take(equal, need, domain)
            pods += lacking
            lacking -= new.take((lacking, *equal[1:]), need)
            more = -(-lacking // _pods_of_a_node(equal, size, apart=need.apart))
            for number in range(nodes, nodes + more):
                new.add(OpenNode(name=str(number), free=size, gpus=size))
            nodes += more
            new.take((lacking, *equal[1:]), need)
    return NodeLack(nodes=nodes, warm_nodes=max(warm_nodes - there.empty(), 0), pods=pods)


def _pods_of_a_node(equal: EqualPods, size: int, *, apart: bool) -> int:
    _, gpus, milli = equal
    if apart:
        return 1
    return size // gpus if gpus else size * (GPU_MILLI // milli)
