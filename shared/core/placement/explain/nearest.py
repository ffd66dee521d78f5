"""The nearest miss of a topology request: the best domain, what it has, and what it lacks."""

from __future__ import annotations

from dataclasses import replace

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import NodeState
from shared.core.cluster.topology import levels_to_try
from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Level, Spread
from shared.core.model.wording import count, pod_needs
from shared.core.placement.explain.miss import WALKED_MAX, evidence_of, name_of, nearest_full, told
from shared.core.placement.feasibility import permitted
from shared.core.placement.room import Place, Ranked, room_index
from shared.core.scoring import Cluster


def nearest_domain(cluster: Cluster, gang: Gang, flavors: tuple[str, ...]) -> Refusal | None:
    """Why no domain of the required level holds the gang; None if each pod set would fit one."""
    required = gang.topology.required
    if required is None:
        return None
    for demand in gang.demands:
        best, node_classes = _best(cluster, gang, demand, flavors, required)
        if best is not None and best[0] < demand.count:
            return _refusal(gang, demand, node_classes, best, required)
    return None


def nearest_slices(cluster: Cluster, gang: Gang, flavors: tuple[str, ...]) -> Refusal | None:
    """Why the slices of a pod set find no domains, even over all the fleet; None if they do."""
    distinct = gang.spread is Spread.REQUIRED
    for demand in gang.demands:
        if not demand.slices:
            continue
        best_room, best_node_classes = -1, tuple[CapacityIndex, ...]()
        for flavor in flavors:
            node_classes = sum(permitted(cluster, gang, demand, flavor), ())
            index = room_index(cluster, node_classes, demand, gang.team, distinct=distinct)
            room = sum(room for room, _, _ in index.tops())
            if room > best_room:
                best_room, best_node_classes = room, node_classes
        if best_room < demand.count:
            return _slices_refusal(cluster, gang, demand, best_node_classes, best_room)
    return None


def _slices_refusal(
    cluster: Cluster,
    gang: Gang,
    demand: PodDemand,
    node_classes: tuple[CapacityIndex, ...],
    room: int,
) -> Refusal:
    outer = demand.slices[0]
    loose = replace(demand, slices=demand.slices[1:])
    distinct = gang.spread is Spread.REQUIRED
    index = room_index(cluster, node_classes, loose, gang.team, distinct=distinct)
    miss = index.below(outer.level, outer.pods)
    next_best = (
        f"; the best {outer.level.value} without room for one, {miss[2].name}, "
        f"has room for {count(miss[0], 'pod')}"
        if miss
        else ""
    )
    inner = "".join(
        f", in slices of {each.pods} in one {each.level}" for each in demand.slices[1:]
    )
    return Refusal(
        reason=Reason.TOPOLOGY,
        message=f"Needs {count(demand.count // outer.pods, 'slice')} of {outer.pods} pods with "
        f"{pod_needs(demand, gang)}, each in one {outer.level.value}{inner}; "
        f"there is room for {room // outer.pods}{next_best}.",
        next_step="Wait for room, or ask for smaller slices or a wider level for them.",
        evidence={
            "slices_needed": demand.count // outer.pods,
            "slices_fit": room // outer.pods,
            "best_domain_pods_fit": miss[0] if miss else 0,
        },
    )


def _best(
    cluster: Cluster, gang: Gang, demand: PodDemand, flavors: tuple[str, ...], required: Level
) -> tuple[Ranked | None, tuple[CapacityIndex, ...]]:
    """The domain (or lone node) with most room for `demand`, over all flavors."""
    best: Ranked | None = None
    best_node_classes: tuple[CapacityIndex, ...] = ()
    distinct = gang.spread is Spread.REQUIRED
    for flavor in flavors:
        node_classes = sum(permitted(cluster, gang, demand, flavor), ())
        index = room_index(cluster, node_classes, demand, gang.team, distinct=distinct)
        for level in levels_to_try(required):
            largest = index.largest(level)
            # At equal room the wider one: that is where the missing pods may still go.
            if largest is not None and (best is None or largest[0] >= best[0]):
                best, best_node_classes = largest, node_classes
    return best, best_node_classes


def _refusal(
    gang: Gang,
    demand: PodDemand,
    node_classes: tuple[CapacityIndex, ...],
    best: Ranked,
    required: Level,
) -> Refusal:
    room, _, place = best
    also, evidence = _next_node(place, node_classes, demand, gang.team)
    return Refusal(
        reason=Reason.TOPOLOGY,
        message=f"Needs {demand.count} pods with {pod_needs(demand, gang)} in one "
        f"{required.value}; the best, {name_of(place)}, has room for {room}{also}.",
        next_step="Wait for room there, allow a wider level of the fabric, or only prefer it.",
        evidence={"pods_needed": demand.count, "best_domain_pods_fit": room} | evidence,
    )


def _next_node(
    place: Place, node_classes: tuple[CapacityIndex, ...], demand: PodDemand, team: str
) -> tuple[str, dict[str, int]]:
    """What the node of `place` that comes nearest without holding a pod has, and what it lacks."""
    if isinstance(place, NodeState) or demand.milli or demand.profile:
        return "", {}
    node = nearest_full(place, node_classes, demand, team)
    if node is None:
        walked = place.size <= WALKED_MAX
        return "; no other node there matches" if walked else "", {}
    evidence = evidence_of(node, demand, "best_domain_next_node")
    return f"; the next node there {told(node, demand)}", evidence
