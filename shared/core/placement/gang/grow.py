"""Pods that are added to an elastic gang that runs (mission M9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import NodeState
from shared.core.cluster.statement import Statement
from shared.core.cluster.topology import LEVELS, span_of
from shared.core.model.demand import PodDemand, gang_of
from shared.core.model.nouns import Placement, Spread
from shared.core.model.request import PlacementRequest
from shared.core.model.units import NOTHING, Resources
from shared.core.placement.feasibility import permitted
from shared.core.placement.gang.apart import taken
from shared.core.placement.gang.fill import Fill, Layout, is_in, outward
from shared.core.placement.gang.ranks import domain_at, ranked
from shared.core.placement.room import Place
from shared.core.scoring import Cluster


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
            node_classes = sum(permitted(cluster, gang, demand, flavor), ())
            layout = Layout.of(cluster, gang, (), statement, flavor)
            nodes = [cluster.nodes[pod.node] for pod in placement.pods]
            _Growth(layout, demand, node_classes, nodes).add(missing // demand.unit * demand.unit)
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


@dataclass(frozen=True, slots=True)
class _Growth:
    """Pods of one set that join those on `nodes`."""

    layout: Layout
    demand: PodDemand
    node_classes: tuple[CapacityIndex, ...]
    nodes: list[NodeState]

    def add(self, missing: int) -> None:
        """As many of those missing as there is room for."""
        for passed_over in self._passed_over():
            missing -= self._outward(missing, passed_over)
            if not missing:
                return

    def _passed_over(self) -> Iterable[set[NodeState] | None]:
        spread = self.layout.gang.spread
        if spread is Spread.PREFERRED:
            return taken(self._held)
        return ({*self._held()} if spread is Spread.REQUIRED else None,)

    def _held(self) -> list[NodeState]:
        return [*self.nodes, *self.layout.nodes()]

    def _outward(self, missing: int, passed_over: set[NodeState] | None) -> int:
        """From the nodes of the gang outwards; how many found room."""
        required, added = self.layout.gang.topology.required, 0
        within = None if required is None else domain_at(self.nodes[0], required)
        for part in outward(self.nodes):
            if added == missing or (within is not None and not is_in(part, within)):
                break
            if _holds_slices(part, self.demand):
                added += self._fill(passed_over).into(part, missing - added)
        if added < missing and within is None:
            added += self._fill(passed_over).anywhere(missing - added)
        return added

    def _fill(self, passed_over: set[NodeState] | None) -> Fill:
        """A new one for each part: what went before is counted."""
        return Fill(self.layout, self.demand, self.node_classes, passed_over)


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
