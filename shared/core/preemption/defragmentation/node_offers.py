"""What one node offers to the pods of a gang: room, once the fewest workloads have left it.

All that may leave is thought away, then taken back one by one while a pod still fits, first what
frees the least GPU; then one that costs less may go in the place of another. On a copy of the
node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from shared.core.cluster.node_state import NodeState, copy_of
from shared.core.cluster.tenants import Running, Tenants
from shared.core.model.demand import Gang, PodDemand
from shared.core.scoring import Cluster, node_room

MayLeave = Callable[[Running], bool]


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """Room on one node for `pods` (>= 1) pods, once `movers` have left."""

    pods: int
    movers: tuple[Running, ...] = ()
    cost: int = 0


class Offers:
    """What each node of the cluster, as it is now, offers to the pods of one gang."""

    def __init__(
        self, cluster: Cluster, tenants: Tenants[Running], gang: Gang, may_leave: MayLeave
    ) -> None:
        self.cluster = cluster
        self.tenants = tenants
        self.gang = gang
        self._may_leave = may_leave
        self._known: dict[str, dict[PodDemand, NodeOffer | None]] = {}

    def of(self, node: NodeState, demand: PodDemand) -> NodeOffer | None:
        """The offer of a node for pods of `demand`; None if no moves make room."""
        known = self._known.setdefault(node.name, {})
        if demand not in known:
            known[demand] = self.work_out(node, demand, ())
        return known[demand]

    def forget(self, tenant: Running) -> None:
        """Whether `tenant` may leave has changed."""
        for name in tenant.nodes:
            self._known.pop(name, None)

    def work_out(
        self, node: NodeState, demand: PodDemand, left: Iterable[str]
    ) -> NodeOffer | None:
        """The same for a node that may be a copy, which those in `left` have left already."""
        if not node.schedulable:
            return None
        team = self.gang.team
        room = node_room(node, demand, team)
        if room:
            return NodeOffer(room)
        assert node.node_class is not None
        if (
            demand.gpus > node.node_class.key.gpus
            or demand.cpu_milli > node.node_class.key.cpu_milli
        ):
            return None
        tenants = [
            each
            for each in self.tenants.on(node.name)
            if each.id not in left and self._may_leave(each)
        ]
        if not tenants:
            return None
        trial = copy_of(node)
        movers = _fewest(self.tenants, tenants, trial, demand, team)
        room = node_room(trial, demand, team)
        return NodeOffer(room, tuple(movers), sum(each.cost for each in movers)) if room else None


def _fewest(
    index: Tenants[Running], tenants: list[Running], trial: NodeState, demand: PodDemand, team: str
) -> list[Running]:
    """Those that must leave `trial`, which is left without them; none if even all do not help."""
    frees = {each.id: index.frees_milli(each, trial) for each in tenants}
    for tenant in tenants:
        index.leave(tenant, trial)
    if not node_room(trial, demand, team):
        return []

    def stays(tenant: Running) -> bool:
        index.come_back(tenant, trial)
        if node_room(trial, demand, team):
            return True
        index.leave(tenant, trial)
        return False

    # What frees least stays first; of those that free as much, the one that costs most.
    tenants.sort(key=lambda each: (frees[each.id], -each.cost, each.id))
    movers = {each.id: each for each in tenants if not stays(each)}
    by_cost = sorted(tenants, key=lambda each: (each.cost, each.id))
    for mover in list(movers.values()):
        # A cheaper one in its place, if one alone does.
        cheaper = [one for one in by_cost if one.cost < mover.cost and one.id not in movers]
        for other in cheaper:
            index.leave(other, trial)
            if stays(mover):
                del movers[mover.id]
                movers[other.id] = other
                break
            index.come_back(other, trial)
    return list(movers.values())
