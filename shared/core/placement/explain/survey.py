"""The fleet as one pod of a demand finds it: nodes by what keeps it off them, and room.

Nothing here walks all nodes: node classes are dozens, and a free list knows how many lie above an
amount.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_class import NodeClassKey
from shared.core.model.demand import Gang, PodDemand
from shared.core.placement.feasibility import Filter, node_class_obstacle
from shared.core.placement.room import room_index
from shared.core.placement.search import candidates
from shared.core.scoring import Cluster, node_room

LOOKED_AT_MAX: Final = 64
"""Pods for which nodes are looked at one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Nodes by what keeps the demand off them; `node_classes` are those that pass all filters."""

    nodes: int
    excluded: dict[Filter, int]
    """Each node once, at the first filter that it fails, in the order of `Filter`."""
    out: dict[Filter, tuple[NodeClassKey, ...]]
    """Their node classes."""
    node_classes: tuple[CapacityIndex, ...]
    matching: int
    """Nodes that pass all filters ..."""
    open: int
    """... and take new work: not cordoned, ready, healthy."""
    gpus: int
    """GPUs on open nodes ..."""
    unhealthy_gpus: int
    """... and those of them that are out of service."""

    def evidence(self) -> dict[str, int]:
        """The same by name, as a refusal tells it; a dictionary of its own."""
        excluded = {f"nodes_excluded_{each.value}": many for each, many in self.excluded.items()}
        return {
            "nodes": self.nodes,
            **excluded,
            "nodes_matching": self.matching,
            "nodes_open": self.open,
            "gpus_unhealthy": self.unhealthy_gpus,
        }


def survey(cluster: Cluster, gang: Gang, demand: PodDemand, flavors: tuple[str, ...]) -> Survey:
    """Count the fleet for one pod of `demand` in any of `flavors`. O(node classes)."""
    excluded: Counter[Filter] = Counter()
    out: dict[Filter, tuple[NodeClassKey, ...]] = {}
    node_classes: list[CapacityIndex] = []
    for key in sorted(cluster.node_classes):
        node_class = cluster.node_classes[key]
        flavor = key.flavor if key.flavor in flavors else ""
        found = node_class_obstacle(node_class, gang, demand, flavor) if flavor else Filter.FLAVOR
        if found is None:
            node_classes.append(node_class)
        else:
            excluded[found] += node_class.nodes
            out[found] = (*out.get(found, ()), key)
    return Survey(
        nodes=sum(node_class.nodes for node_class in cluster.node_classes.values()),
        excluded={each: excluded[each] for each in Filter if excluded[each]},
        out=out,
        node_classes=tuple(node_classes),
        matching=sum(node_class.nodes for node_class in node_classes),
        open=sum(_open(node_class) for node_class in node_classes),
        gpus=sum(_open(node_class) * node_class.key.gpus for node_class in node_classes),
        unhealthy_gpus=sum(node_class.unhealthy for node_class in node_classes),
    )


def room_for(
    cluster: Cluster,
    node_classes: tuple[CapacityIndex, ...],
    demand: PodDemand,
    team: str,
    limit: int,
    *,
    distinct: bool,
) -> int:
    """How many pods of `demand` find room on `node_classes`, at most `limit`.

    Few are looked for; many, and those of which no free list tells whether they fit, are counted
    in an index of rooms.
    """
    if limit > LOOKED_AT_MAX or demand.aligned or demand.instances > 1:
        loose = replace(demand, slices=())
        return min(room_index(cluster, node_classes, loose, team, distinct=distinct).total, limit)
    room = 0
    for node in candidates(node_classes, demand, team):
        room += 1 if distinct else node_room(node, demand, team)
        if room >= limit:
            return limit
    return room


def _open(node_class: CapacityIndex) -> int:
    return sum(free_list.size for free_list in node_class.by_free)
