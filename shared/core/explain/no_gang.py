"""Pods find room, the gang does not: too few of them, too far apart, or in each other's way."""

from __future__ import annotations

from shared.core.cluster import Cluster
from shared.core.decision import Reason, Refusal
from shared.core.demand import Gang, PodDemand
from shared.core.explain.free import free_gpus
from shared.core.explain.nearest import nearest_domain, nearest_slices
from shared.core.explain.survey import room_for, survey
from shared.core.model import Spread
from shared.core.wording import count, listing, pod_needs


def no_gang(cluster: Cluster, gang: Gang, flavors: tuple[str, ...]) -> Refusal:
    """Why the gang finds no room although one pod of each set does."""
    for demand in gang.demands:
        short = _short(cluster, gang, demand, flavors)
        if short is not None:
            return short
    if gang.constrained:
        near = nearest_domain(cluster, gang, flavors)
        near = near or nearest_slices(cluster, gang, flavors)
        if near is not None:
            return near
    sets = listing([f"{each.count} x {pod_needs(each, gang)}" for each in gang.demands])
    return Refusal(
        reason=Reason.GANG_SHORT,
        message=f"Each pod set finds room by itself, but not all together: {sets}.",
        next_step="Wait for room, or split the workload, or make its pods alike.",
        evidence={"pods_needed": gang.pods},
    )


def _short(
    cluster: Cluster, gang: Gang, demand: PodDemand, flavors: tuple[str, ...]
) -> Refusal | None:
    """A refusal if no single flavor has room for all pods of the set."""
    found = survey(cluster, gang, demand, flavors)
    distinct = gang.spread is Spread.REQUIRED
    best_room, best_flavor = -1, ""
    for flavor in flavors:
        kinds = tuple(kind for kind in found.kinds if kind.key.flavor == flavor)
        room = room_for(cluster, kinds, demand, gang.team, demand.count, distinct=distinct)
        if room > best_room:
            best_room, best_flavor = room, flavor
    if best_room >= demand.count:
        return None
    free = free_gpus(found.kinds, demand)
    apart = ", each on a node of its own" if distinct else ""
    return Refusal(
        reason=Reason.GANG_SHORT,
        message=f"Needs {demand.count} pods with {pod_needs(demand, gang)}{apart}; "
        f"flavor {best_flavor} has room for {best_room} "
        f"({count(free.free, 'whole GPU')} free in all{free.more}).",
        next_step=f"Wait for room for {demand.count - best_room} more, or ask for fewer or "
        "smaller pods.",
        evidence=found.evidence()
        | {"pods_needed": demand.count, "pods_fit": best_room}
        | free.evidence,
    )
