"""Which node and GPU a pod with MIG instances goes to.

The pools of the node classes it may run on offer their states, the cheapest first
(core/scoring/mig_pool.py); of the GPUs in a state, the first by node class and rank is taken on a
node
that has the CPU and memory. Prices of different pools are comparable: the one with more room for
what is asked is cheaper.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from heapq import merge

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.free_list import Accept, Entry
from shared.core.cluster.node_class import MigStates
from shared.core.cluster.node_state import NodeState
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import GpuShare
from shared.core.scoring import instance_share, instance_shares, mig_room


def find_instances(
    node_classes: tuple[CapacityIndex, ...], demand: PodDemand, exclude: Container[NodeState]
) -> tuple[NodeState, tuple[GpuShare, ...]] | None:
    """A node outside `exclude` and what the pod gets of its GPUs; all classes know the profile."""
    accept = _has_positions(demand) if demand.instances > 1 else None
    for pool, state, start in _offers(node_classes, demand.profile):
        for node_class in node_classes:
            free_list = node_class.mig.get(str(state)) if node_class.pool is pool else None
            if free_list is None:
                continue
            entry = free_list.first(
                0, demand.cpu_milli, demand.memory_mib, exclude=exclude, accept=accept
            )
            if entry is not None:
                return entry[3], _shares(entry, node_class, demand, start)
    return None


def _offers(
    node_classes: tuple[CapacityIndex, ...], profile: str
) -> Iterator[tuple[MigStates, int, int]]:
    """(pool, state, start), the cheapest first; of equals, the pool of the earlier node class."""
    pools = list(
        dict.fromkeys(
            node_class.pool for node_class in node_classes if node_class.pool is not None
        )
    )
    numbered = (_numbered(order, pool.offers(profile)) for order, pool in enumerate(pools))
    for _, order, state, start in merge(*numbered):
        yield pools[order], state, start


def _numbered(
    order: int, offers: Iterator[tuple[int, int, int]]
) -> Iterator[tuple[int, int, int, int]]:
    return ((cost, order, state, start) for cost, state, start in offers)


def _has_positions(demand: PodDemand) -> Accept:
    """Whether a node has room for all instances of the pod; worked out once for each node."""
    known: dict[NodeState, bool] = {}

    def has_room(node: NodeState, _: int) -> bool:
        if node not in known:
            known[node] = mig_room(node, demand.profile) >= demand.instances
        return known[node]

    return has_room


def _shares(
    entry: Entry, node_class: CapacityIndex, demand: PodDemand, start: int
) -> tuple[GpuShare, ...]:
    _, _, gpu, node = entry
    if demand.instances > 1:
        return instance_shares(node, demand)
    assert node_class.table is not None
    return (instance_share(node, gpu, node_class.table.profiles[demand.profile].mask(start)),)
