"""A node without room for one pod: how near it comes, what it has and what it lacks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import Domain, NodeState
from shared.core.model.demand import PodDemand
from shared.core.model.units import UNLIMITED
from shared.core.model.wording import amount, count, listing
from shared.core.placement.gang import is_in
from shared.core.scoring import node_room

WALKED_MAX: Final = 128
"""Nodes of a domain that are all looked at; of larger ones, and of the fleet, those that free
lists put first."""
SHELF_MAX: Final = 16
"""Nodes looked at on one free list."""


def nearness(node: NodeState, demand: PodDemand) -> tuple[int, int, int, str]:
    """The larger the nearer: by GPUs, then by the scarcest of CPU and memory, in thousandths."""
    parts = [
        1000 * max(have, 0) // need for _, have, need in _amounts(node, demand) if have < need
    ]
    gpus = min(gpus_together(node, demand), demand.gpus)
    return gpus, min(parts, default=1000), -node.rank, node.name


def gpus_together(node: NodeState, demand: PodDemand) -> int:
    """Free GPUs that one pod could have: if it wants them so, of one NUMA domain."""
    if not demand.aligned:
        return node.free_count
    return max(((node.free_mask & domain).bit_count() for domain in node.numa_masks), default=0)


def told(node: NodeState, demand: PodDemand) -> str:
    """Such as `has 8 GPUs free but 1000 of 2000 milli-CPU`; for whole GPUs, or CPU alone."""
    if not node.schedulable:
        return "is cordoned, not ready or unhealthy"
    short = short_of(node, demand)
    if not demand.gpus:
        return f"has {short}"
    gpus = f"{count(node.free_count, 'GPU')} free"
    if demand.aligned:
        gpus += f", {gpus_together(node, demand)} in one NUMA domain"
    if not short:
        return f"has {gpus}"
    joint = "but" if gpus_together(node, demand) >= demand.gpus else "and"
    return f"has {gpus} {joint} {short}"


def short_of(node: NodeState, demand: PodDemand) -> str:
    """The CPU and memory that it lacks, such as `1000 of 2000 milli-CPU`; empty if none."""
    lacking = [each for each in _amounts(node, demand) if each[1] < each[2]]
    return listing([f"{max(have, 0)} of {amount(unit, need)}" for unit, have, need in lacking])


def evidence_of(node: NodeState, demand: PodDemand, name: str) -> dict[str, int]:
    """The same by name: free GPUs, and what it lacks of CPU and memory."""
    free = {f"{name}_gpus_free": node.free_count} if demand.gpus else {}
    short = {
        f"{name}_{unit}_free": max(have, 0)
        for unit, have, need in _amounts(node, demand)
        if have < need
    }
    return free | short


def nearest_full(
    domain: Domain, node_classes: tuple[CapacityIndex, ...], demand: PodDemand, team: str
) -> NodeState | None:
    """Of the nodes of `domain` without room for a pod, the one that comes nearest."""
    walked = domain.size <= WALKED_MAX
    nodes = (
        domain.nodes()
        if walked
        else (
            node
            for node in islice(_first(node_classes, demand), 2 * WALKED_MAX)
            if is_in(node, domain)
        )
    )
    return nearest(
        (
            node
            for node in nodes
            if node.node_class in node_classes and not node_room(node, demand, team)
        ),
        demand,
    )


def nearest(nodes: Iterable[NodeState], demand: PodDemand) -> NodeState | None:
    """The one of `nodes` that comes nearest."""
    return max(nodes, key=lambda node: nearness(node, demand), default=None)


def name_of(place: Domain | NodeState) -> str:
    """Such as `rack r7`."""
    if isinstance(place, NodeState):
        return f"node {place.name}"
    return f"{place.level.value} {place.name}"


def _first(node_classes: tuple[CapacityIndex, ...], demand: PodDemand) -> Iterator[NodeState]:
    """Nodes with most GPUs first; of equals those with most of too little CPU, then of any."""
    for free in range(
        max((len(node_class.by_free) for node_class in node_classes), default=0) - 1, -1, -1
    ):
        for node_class in node_classes:
            if free < len(node_class.by_free):
                free_list = node_class.by_free[free]
                ranges = (free_list.below(demand.cpu_milli), free_list.below(UNLIMITED))
                entries = chain.from_iterable(islice(each, SHELF_MAX) for each in ranges)
                yield from (entry[3] for entry in entries)


def _amounts(node: NodeState, demand: PodDemand) -> tuple[tuple[str, int, int], ...]:
    """(unit, free, needed) of CPU and memory."""
    return (
        ("cpu_milli", node.free_cpu_milli, demand.cpu_milli),
        ("memory_mib", node.free_memory_mib, demand.memory_mib),
    )
