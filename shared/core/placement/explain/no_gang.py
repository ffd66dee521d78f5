"""Pods find room, the gang does not: too few of them, too far apart, or in each other's way."""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Spread
from shared.core.model.wording import count, pod_needs
from shared.core.placement.explain.draft import Drafts
from shared.core.placement.explain.free import free_gpus
from shared.core.placement.explain.nearest import nearest_domain, nearest_slices
from shared.core.placement.explain.not_together import (
    joined,
    no_one_flavor,
    sets_of,
    short_beside_others,
    short_in_domain,
)
from shared.core.placement.explain.survey import Survey, room_for
from shared.core.scoring import Cluster


def no_gang(
    cluster: Cluster, gang: Gang, surveys: Sequence[Survey], flavors: tuple[str, ...]
) -> Refusal:
    """Why the gang finds no room although one pod of each set does; `surveys` of its sets."""
    by_shape = {demand.shape: each for demand, each in zip(gang.demands, surveys, strict=True)}
    gang = joined(gang)
    rooms: dict[str, list[int]] = {flavor: [] for flavor in flavors}
    for demand in gang.demands:
        found = by_shape[demand.shape]
        for flavor in flavors:
            rooms[flavor].append(_room(cluster, found, gang, demand, flavor))
        best = max(flavors, key=lambda flavor: rooms[flavor][-1])
        if rooms[best][-1] < demand.count:
            return _short(found, gang, demand, best, rooms[best][-1])
    needed = [demand.count for demand in gang.demands]
    holding = tuple(flavor for flavor in flavors if rooms[flavor] == needed)
    if not holding:
        return no_one_flavor(gang, rooms)
    return _not_together(cluster, gang, flavors, holding) or Refusal(
        reason=Reason.GANG_SHORT,
        message=f"Each pod set finds room by itself, but not all together: {sets_of(gang)}.",
        next_step="Wait for room, or split the workload, or ask for fewer or smaller pods.",
        evidence={"pods_needed": gang.pods},
    )


def _not_together(
    cluster: Cluster, gang: Gang, flavors: tuple[str, ...], holding: tuple[str, ...]
) -> Refusal | None:
    """A refusal with the set that is short beside the others, or with the domain that is."""
    drafts = Drafts(cluster, gang)
    several = len(gang.demands) > 1
    refusal = short_beside_others(drafts, holding) if several else None
    if refusal is None and gang.constrained:
        near = nearest_domain(cluster, gang, flavors)
        refusal = near or nearest_slices(cluster, gang, flavors)
    required = gang.topology.required
    if refusal is None and several and required is not None:
        refusal = short_in_domain(drafts, holding, required)
    return refusal


def _room(cluster: Cluster, found: Survey, gang: Gang, demand: PodDemand, flavor: str) -> int:
    """Pods of the set that find room in the flavor if it is alone, at most all."""
    distinct = gang.spread is Spread.REQUIRED
    node_classes = tuple(
        node_class for node_class in found.node_classes if node_class.key.flavor == flavor
    )
    return room_for(cluster, node_classes, demand, gang.team, demand.count, distinct=distinct)


def _short(found: Survey, gang: Gang, demand: PodDemand, flavor: str, room: int) -> Refusal:
    """No single flavor has room for all pods of the set."""
    free = free_gpus(found.node_classes, demand)
    apart = ", each on a node of its own" if gang.spread is Spread.REQUIRED else ""
    return Refusal(
        reason=Reason.GANG_SHORT,
        message=f"Needs {demand.count} pods with {pod_needs(demand, gang)}{apart}; "
        f"flavor {flavor} has room for {room} "
        f"({count(free.free, 'whole GPU')} free in all{free.more}).",
        next_step=f"Wait for room for {demand.count - room} more, or ask for fewer or "
        "smaller pods.",
        evidence=found.evidence()
        | {"pods_needed": demand.count, "pods_fit": room}
        | free.evidence,
    )
