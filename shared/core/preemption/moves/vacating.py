"""Where a gang would go if some workloads were gone, and that very place taken later.

Between the two the victims are stopped; the planner keeps others off the place meanwhile
(ADR 24). Nothing is decided anew when the last victim is gone: the gang gets what
was promised, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.cluster.state import pod_size
from shared.core.cluster.statement import Statement
from shared.core.model.demand import Gang, gang_of
from shared.core.model.nouns import Placement, PodPlacement, Workload
from shared.core.model.request import PlacementRequest
from shared.core.model.units import NOTHING
from shared.core.placement.gang import attempt, attempt_most, spare_units
from shared.core.placement.place import placement_of
from shared.core.preemption.defragmentation import takes
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
    if not take(cluster, workload, after):
        return False
    cluster.release(workload.team, before.pods, workload.spec.pod_sets)
    moved.append(mover)
    return True


def _first(cluster: Cluster, gang: Gang, request: PlacementRequest) -> Placement | None:
    """In the order of `core.placement.place`: whole in any flavor, then as much as fits."""
    for flavor in request.flavors:
        headroom = request.headroom.get(flavor, NOTHING)
        placement = _undone(flavor, attempt(cluster, gang, flavor, headroom))
        if placement is not None:
            return placement
    for flavor in request.flavors if spare_units(gang) else ():
        headroom = request.headroom.get(flavor, NOTHING)
        placement = _undone(flavor, attempt_most(cluster, gang, flavor, headroom))
        if placement is not None:
            return placement
    return None


def _undone(flavor: str, statement: Statement | None) -> Placement | None:
    if statement is None:
        return None
    placement = placement_of(flavor, statement)
    statement.rollback()
    return placement


def take(cluster: Cluster, workload: Workload, placement: Placement) -> bool:
    """Charge exactly `placement`; False, and nothing charged, if any part of it is not free."""
    sizes = {pod_set.name: pod_size(pod_set) for pod_set in workload.spec.pod_sets}
    charged: list[PodPlacement] = []
    for pod in placement.pods:
        node = cluster.nodes.get(pod.node)
        if node is None or not takes(node, pod.shares, workload.team, sizes[pod.pod_set]):
            cluster.release(workload.team, charged, workload.spec.pod_sets)
            return False
        cluster.charge(workload.team, (pod,), workload.spec.pod_sets)
        charged.append(pod)
    return True
