"""The fewest moves of running workloads that let one blocked gang start.

1. A gang that fits now, or that lacks quota, needs no moves: there is no plan.
2. In each part of the fabric that may hold the gang, count what would have to leave
   (core/preemption/defragmentation/evacuation.py); the parts that need the fewest moves are tried
   first.
3. Rehearse it (core/preemption/defragmentation/rehearsal.py): reserve what the gang needs, move
   each workload out of it with the same placer as ever, the hungriest first; its new place is
   charged before the old one is given back. One that finds no place has room made for it in the
   same way, to a small depth.
4. What could not go, or only with help, stays at the next try: others may be cheaper to move.
5. Of the plans found, the one with fewest moves, then of least cost; then every move that turns
   out not to be needed is dropped.
Everything is bounded (`DefragmentationLimits`), and the cluster is left as it was. The plan is
carried out in order; if the cluster changed meanwhile, it is to be made anew. ADR 18.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.cluster.tenants import Running, Tenants
from shared.core.model.demand import gang_of
from shared.core.model.request import PlacementRequest
from shared.core.model.units import NOTHING
from shared.core.placement.gang import least_charge
from shared.core.preemption.defragmentation.plan import (
    DefragmentationLimits,
    DefragmentationObstacle,
    NoPlan,
    Plan,
    no_plan,
)
from shared.core.preemption.defragmentation.search import (
    DefragmentationGoal,
    DefragmentationSearch,
)
from shared.core.scoring import Cluster

__all__ = [
    "DefragmentationLimits",
    "DefragmentationObstacle",
    "NoPlan",
    "Plan",
    "Running",
    "defragment",
]


def defragment(
    cluster: Cluster,
    running: Iterable[Running],
    request: PlacementRequest,
    limits: DefragmentationLimits | None = None,
) -> Plan | NoPlan:
    """A plan for the gang of `request`, which waits; `cluster` is left as it was.

    Args:
        cluster: everything in `running` is charged to it, and nothing for `request`.
        running: what may be moved; what is not named stays where it is.
        request: the blocked workload, its permitted flavors and the quota left in each.
        limits: of the plan and of the search.
    """
    gang = gang_of(request.workload, request.pins)
    least = least_charge(gang)
    goals = [
        DefragmentationGoal(gang, flavor, headroom)
        for flavor in request.flavors
        if least.fits_in(headroom := request.headroom.get(flavor, NOTHING))
    ]
    if not goals:
        return no_plan(DefragmentationObstacle.QUOTA)
    search = DefragmentationSearch(cluster, Tenants(running), limits or DefragmentationLimits())
    if any(search.fits(goal) for goal in goals):
        return no_plan(DefragmentationObstacle.FITS)
    found = [search.plan(goal) for goal in goals]
    plans = [each for each in found if isinstance(each, Plan)]
    return min(plans, key=lambda plan: plan.size) if plans else found[0]
