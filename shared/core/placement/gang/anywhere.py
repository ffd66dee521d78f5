"""A gang for which the fabric does not matter: each pod goes to its best place, in order.

A single pod goes where the learned mix of demand loses least (core/scoring/packing_index.py), the
pods of a gang where they sit tight (core/placement/search.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from shared.core.cluster.node_state import NodeState
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Level, Spread
from shared.core.placement.feasibility import Tiers
from shared.core.placement.gang.exact import unlike
from shared.core.placement.gang.fill import Layout
from shared.core.placement.room import room_index
from shared.core.placement.search import Nodes, Place, candidates, find, find_by_mix
from shared.core.scoring import Cluster, shares_on

COUNTED_MIN: Final = 64
"""Pods up to which a gang without a topology request is tried without counting room before."""


def anywhere(layout: Layout) -> bool:
    """Charge the whole gang, each pod at its best; or nothing, and False."""
    statement, gang = layout.statement, layout.gang
    many = gang.pods > COUNTED_MIN or any(demand.instances > 1 for demand in gang.demands)
    if many and not _each_set_counts(layout):
        return False
    if _each_at_its_best(layout):
        return True
    statement.rollback()
    if not unlike(gang) or not _each_set_alone(layout):
        return False
    return layout.exhaustive.place(
        lambda demand: candidates(layout.node_classes(demand), demand, gang.team),
        distinct=gang.spread is Spread.REQUIRED,
    )


def _each_at_its_best(layout: Layout) -> bool:
    gang = layout.gang
    used: set[NodeState] = set()
    apart = gang.spread is not Spread.NONE
    for demand, tiers in zip(gang.demands, layout.tiers, strict=True):
        if demand.count > 1 and not _may_hold(tiers, demand):
            return False
        for _ in range(demand.count):
            found = _best_place(layout, tiers, demand, used if apart else ())
            if found is None and gang.spread is Spread.PREFERRED:
                found = _best_place(layout, tiers, demand, ())
            if found is None:
                return False
            layout.statement.charge(demand, *found)
            if apart:
                used.add(found[0])
    return True


def _may_hold(tiers: Tiers, demand: PodDemand) -> bool:
    """Whether enough whole GPUs are free on nodes that have enough of them. O(classes x GPUs)."""
    if not demand.gpus:
        return True
    pods = sum(
        free_list.size * (free // demand.gpus)
        for node_classes in tiers
        for node_class in node_classes
        for free, free_list in enumerate(node_class.by_free)
        if free >= demand.gpus
    )
    return pods >= demand.count


def _best_place(layout: Layout, tiers: Tiers, demand: PodDemand, exclude: Nodes) -> Place | None:
    """By the learned mix for single pods; members of gangs sit tight, as do pods with MIG."""
    if demand.aligned:
        return _aligned_place(layout, tiers, demand, exclude)
    packing = layout.cluster.packing(layout.flavor)
    if layout.gang.pods == 1 and packing.learned and not demand.profile:
        return find_by_mix(packing, tiers, demand, layout.gang.team, exclude)
    return find(tiers, demand, layout.gang.team, exclude)


def _aligned_place(
    layout: Layout, tiers: Tiers, demand: PodDemand, exclude: Nodes
) -> Place | None:
    """The node with the least room of any for pods within one NUMA domain."""
    team = layout.gang.team
    for node_classes in tiers:
        index = room_index(layout.cluster, node_classes, demand, team, distinct=False)
        for _, _, node in index.at_least(Level.NODE, 1, layout.gang.pods):
            assert isinstance(node, NodeState)
            if node not in exclude:
                return node, shares_on(node, demand, team)
    return None


def _each_set_counts(layout: Layout) -> bool:
    """Whether there is room for as many pods as each set has; what is large is not tried else."""
    counted = rooms(layout.cluster, layout.gang, layout.tiers)
    return all(
        demand.count <= room for demand, room in zip(layout.gang.demands, counted, strict=False)
    )


def rooms(cluster: Cluster, gang: Gang, tiers: tuple[Tiers, ...]) -> Iterator[int]:
    """By pod set, how many of its pods there is room for if it has the fleet for itself."""
    distinct = gang.spread is Spread.REQUIRED
    for demand, each in zip(gang.demands, tiers, strict=True):
        pod, node_classes = replace(demand, slices=()), sum(each, ())
        yield room_index(cluster, node_classes, pod, gang.team, distinct=distinct).total


def _each_set_alone(layout: Layout) -> bool:
    """Whether every pod set would find room without the others; else no order can help."""
    gang = layout.gang
    for demand, tiers in zip(gang.demands, layout.tiers, strict=True):
        alone = replace(layout, gang=replace(gang, demands=(demand,)), tiers=(tiers,))
        fits = _each_at_its_best(alone)
        layout.statement.rollback()
        if not fits:
            return False
    return True
