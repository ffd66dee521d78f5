"""Gangs that may be smaller than asked: `min_count` pods of a set must run, up to `count` may.

Shrinking takes away one unit at a time (a pod, or a whole outermost slice), always from the set
with the most to spare. What fits at one size fits at any smaller one, so the most that fits is
found by bisection. `grow` finds the pods that can be added to a gang that runs (mission M9).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from shared.core.cluster import Cluster
from shared.core.demand import Gang, PodDemand, gang_of
from shared.core.feasibility import permitted
from shared.core.gang.attempt import attempt
from shared.core.gang.exact import Exhaustive
from shared.core.gang.fill import Fill, Layout, is_in, outward
from shared.core.gang.ranks import domain_at, ranked
from shared.core.kind import Kind
from shared.core.model import Placement, Spread
from shared.core.node_state import NodeState
from shared.core.request import PlacementRequest
from shared.core.room import Place
from shared.core.statement import Statement
from shared.core.topology import LEVELS, span_of
from shared.core.units import NOTHING, Resources


def spare_units(gang: Gang) -> int:
    """By how many units the gang may shrink."""
    return sum(map(_spare, gang.demands))


def shrunk(gang: Gang, units: int) -> Gang:
    """The gang without `units` units; at most `spare_units`. O(units x pod sets)."""
    counts = {demand.pod_set: demand.count for demand in gang.demands}

    def to_spare(demand: PodDemand) -> int:
        return (counts[demand.pod_set] - demand.min_count) // demand.unit

    for _ in range(units):
        most = max(gang.demands, key=to_spare)
        counts[most.pod_set] -= most.unit
    demands = tuple(replace(each, count=counts[each.pod_set]) for each in gang.demands)
    return replace(gang, demands=demands, pods=sum(counts.values()))


def smallest(gang: Gang) -> Gang:
    """The gang that must run at least."""
    return shrunk(gang, spare_units(gang))


def attempt_most(
    cluster: Cluster, gang: Gang, flavor: str, headroom: Resources
) -> Statement | None:
    """The most of a gang that does not fit whole, charged; None if not even the least fits."""
    least, most = 1, spare_units(gang)

    def fits(units: int) -> bool:
        statement = attempt(cluster, shrunk(gang, units), flavor, headroom)
        if statement is not None:
            statement.rollback()
        return statement is not None

    if not most or not fits(most):
        return None
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if fits(middle) else (middle + 1, most)
    return attempt(cluster, shrunk(gang, most), flavor, headroom)


def grow(cluster: Cluster, request: PlacementRequest, placement: Placement) -> Placement | None:
    """The pods that can be added to `placement`, charged; None if there are none.

    As near as can be to those that run, inside their domain of the required level, in their
    flavor and its headroom in `request`. Ranks go on after the last.
    """
    flavor, team = placement.flavor, request.workload.team
    gang = gang_of(request.workload, request.pins)
    have = Counter(pod.pod_set for pod in placement.pods)
    headroom = request.headroom.get(flavor, NOTHING)
    statement = Statement(cluster, team)
    for demand in gang.demands:
        left = headroom - statement.charge_sum()
        missing = min(demand.count - have[demand.pod_set], _affordable(demand, left))
        if missing >= demand.unit:
            kinds = sum(permitted(cluster, gang, demand, flavor), ())
            layout = Layout(cluster, gang, (), statement, Exhaustive(gang, statement), flavor)
            nodes = [cluster.nodes[pod.node] for pod in placement.pods]
            _add(layout, demand, kinds, nodes, missing // demand.unit * demand.unit)
    charge = statement.charge_sum()
    if not statement.pods or not charge.fits_in(headroom):
        statement.rollback()
        return None
    last = max(pod.rank for pod in placement.pods)
    nodes = [cluster.nodes[pod.node] for pod in placement.pods]
    return Placement(
        flavor=flavor,
        pods=ranked(statement.pods, last + 1),
        charge=charge,
        span=span_of([*nodes, *(node for _, node, _ in statement.pods)]),
    )


def _add(
    layout: Layout,
    demand: PodDemand,
    kinds: tuple[Kind, ...],
    nodes: list[NodeState],
    missing: int,
) -> None:
    apart = layout.gang.spread is Spread.REQUIRED
    used = {*nodes, *(node for _, node, _ in layout.statement.pods)} if apart else None
    required = layout.gang.topology.required
    within = None if required is None else domain_at(nodes[0], required)
    for part in outward(nodes):
        if not missing or (within is not None and not is_in(part, within)):
            break
        if _holds_slices(part, demand):
            missing -= Fill(layout, demand, kinds, used).into(part, missing)
    if missing and within is None:
        Fill(layout, demand, kinds, used).anywhere(missing)


def _holds_slices(part: Place, demand: PodDemand) -> bool:
    """Whether `part` is as wide as the domain of an outermost slice."""
    if not demand.slices:
        return True
    level = 0 if isinstance(part, NodeState) else LEVELS.index(part.level)
    parent = part.domain if isinstance(part, NodeState) else part.parent
    wanted = LEVELS.index(demand.slices[0].level)
    return level >= wanted or parent is None or LEVELS.index(parent.level) > wanted


def _affordable(demand: PodDemand, left: Resources) -> int:
    """Pods of `demand` that `left` pays for."""
    pairs = (
        (demand.gpu_milli, left.gpu_milli),
        (demand.cpu_milli, left.cpu_milli),
        (demand.memory_mib, left.memory_mib),
    )
    return max(min((have // need for need, have in pairs if need), default=demand.count), 0)


def _spare(demand: PodDemand) -> int:
    return (demand.count - demand.min_count) // demand.unit
