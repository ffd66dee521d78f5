"""Rank order: pods that follow each other lie together in the fabric.

Ranks are dense over what was placed, pod set by pod set. Inside a set they run through the fabric
depth first: all of one zone, block, rack, NVLink domain and node before the next, in the order in
which these were first used; what holds the leader comes first. Collectives that are built on
consecutive ranks stay in the tightest domain that way (Arnold, arXiv 2509.15940).

What an elastic gang could do without has the highest ranks, so that it shrinks from the end and
its ranks stay dense (core/placement/resize.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from shared.core.cluster.node_state import Domain, NodeState
from shared.core.cluster.topology import LEVELS, chain
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import GpuShare, Level, PodPlacement

Charged = tuple[PodDemand, NodeState, tuple[GpuShare, ...]]


def ranked(pods: Sequence[Charged], first_rank: int = 0) -> tuple[PodPlacement, ...]:
    """The pods with their ranks, which begin at `first_rank`."""
    return tuple(
        PodPlacement(pod_set=demand.pod_set, rank=rank, node=node.name, shares=shares)
        for rank, (demand, node, shares) in enumerate(_surplus_last(in_order(pods)), first_rank)
    )


def _surplus_last(pods: Sequence[Charged]) -> Sequence[Charged]:
    """The least of every set, then what is beyond it, set by set; one set stays as it is."""
    if all(demand is pods[0][0] for demand, _, _ in pods):
        return pods
    counts = Counter(demand.pod_set for demand, _, _ in pods)
    seen: Counter[str] = Counter()
    kept: list[Charged] = []
    surplus: list[Charged] = []
    for pod in pods:
        demand, name = pod[0], pod[0].pod_set
        least = counts[name] - (counts[name] - demand.min_count) // demand.unit * demand.unit
        seen[name] += 1
        (kept if seen[name] <= least else surplus).append(pod)
    return [*kept, *surplus]


def in_order(pods: Sequence[Charged]) -> Sequence[Charged]:
    """By pod set, then through the fabric."""
    if len(pods) <= 1:
        return pods
    leaders = [node for demand, node, _ in pods if demand.leader]
    places = _places([*leaders, *(node for _, node, _ in pods)])
    return sorted(pods, key=lambda pod: (pod[0].first_rank, places[pod[1]]))


def slices_hold(pods: Sequence[Charged]) -> bool:
    """Whether every slice of every set lies in one domain of its level."""
    by_set: dict[PodDemand, list[NodeState]] = {}
    for demand, node, _ in in_order(pods):
        if demand.slices:
            by_set.setdefault(demand, []).append(node)
    return all(
        len({domain_at(node, each.level) for node in nodes[at : at + each.pods]}) == 1
        for demand, nodes in by_set.items()
        for each in demand.slices
        for at in range(0, len(nodes), each.pods)
    )


def domain_at(node: NodeState, level: Level) -> Domain | NodeState:
    """The widest part of the fabric around `node` that is no wider than `level`."""
    found: Domain | NodeState = node
    for domain in chain(node):
        if LEVELS.index(domain.level) > LEVELS.index(level):
            break
        found = domain
    return found


def _places(nodes: Iterable[NodeState]) -> dict[NodeState, tuple[int, ...]]:
    """The path of each node from the widest domain down, numbered in order of appearance."""
    numbers: dict[Domain | NodeState, int] = {}
    places: dict[NodeState, tuple[int, ...]] = {}
    for node in nodes:
        if node not in places:
            path: list[Domain | NodeState] = [node, *chain(node)]
            places[node] = tuple(numbers.setdefault(part, len(numbers)) for part in reversed(path))
    return places
