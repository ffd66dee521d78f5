"""Where a gang would go if some workloads were gone, and that very place taken later.

Between the two the victims are stopped; the planner keeps others off the place meanwhile
(ADR 24). Nothing is decided anew when the last victim is gone: the gang gets what
was promised, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.model.demand import Gang, gang_of
from shared.core.model.nouns import Placement, Workload
from shared.core.model.request import PlacementRequest
from shared.core.placement.place import first_fit, placement_of
from shared.core.preemption.defragmentation import take
from shared.core.scoring import Cluster

Holder = tuple[Workload, Placement]
Mover = tuple[Workload, Placement, Placement]
"""(workload id, from where, to where)."""


def place_without(
    cluster: Cluster,
    leaving: Sequence[Holder],
    request: PlacementRequest,
    moving: Sequence[Mover] = (),
) -> Placement | None:
    """The placement of `request` with `leaving` out of the way; `cluster` is left as it was.

    Those of `moving` go on at their new places, in this order. None if one of them or the request
    does not fit even so. `request.headroom` is what quota leaves without those that leave.
    """
    for workload, placement in leaving:
        cluster.release(workload.team, placement.pods, workload.spec.pod_sets)
    moved: list[Mover] = []
    found = None
    if all(_goes_on(cluster, mover, moved) for mover in moving):
        found = _first(cluster, gang_of(request.workload, request.pins), request)
    for workload, before, after in reversed(moved):
        cluster.charge(workload.team, before.pods, workload.spec.pod_sets)
        cluster.release(workload.team, after.pods, workload.spec.pod_sets)
    for workload, placement in reversed(leaving):
        cluster.charge(workload.team, placement.pods, workload.spec.pod_sets)
    return found


def _goes_on(cluster: Cluster, mover: Mover, moved: list[Mover]) -> bool:
    """Place before evict; whether its new place was free."""
    workload, before, after = mover
    if not take(cluster, workload, after.pods):
        return False
    cluster.release(workload.team, before.pods, workload.spec.pod_sets)
    moved.append(mover)
    return True


def _first(cluster: Cluster, gang: Gang, request: PlacementRequest) -> Placement | None:
    """Where the gang would go; nothing stays charged."""
    found = first_fit(cluster, gang, request)
    if found is None:
        return None
    flavor, statement = found
    placement = placement_of(flavor, statement)
    statement.rollback()
    return placement
