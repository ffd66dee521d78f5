"""What may leave one node, in which ways and for what price, and what the node so offers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from shared.core.cluster.node_state import NodeState, copy_of
from shared.core.model.nouns import PodPlacement
from shared.core.model.units import GPU_MILLI
from shared.core.preemption.eligibility.occupant import Occupant, gpu_milli_of
from shared.core.preemption.victims.made_room import MadeRoom
from shared.core.preemption.victims.offers import RoomOffer, Way, by_counting, by_search


class NodeOffers:
    """What nodes offer beside the room that is made, with those that have left gone."""

    def __init__(self, room: MadeRoom, *, amortised: bool) -> None:
        self.banned: set[str] = set()
        """Workloads that are not asked."""
        self.looks = 0
        """Nodes looked at so far."""
        self._room = room
        self._demand = room.demand
        self._leavers = room.leavers
        self._scope = room.leavers.scope
        self._tenants = self._scope.occupants.tenants
        self._amortised = amortised
        """Whether a node pays for its own pods of a gang only, not for the whole."""

    def of(self, name: str, pods_max: int) -> list[RoomOffer]:
        """What the node offers for up to `pods_max` further pods."""
        self.looks += 1
        node, demand = self._leavers.node(name), self._demand
        if not node.schedulable or node.node_class not in self._room.node_classes:
            return []
        if self._room.apart:
            pods_max = min(pods_max, 1 - self._room.on(name))
        if pods_max < 1:
            return []
        ways, adds_up = self._ways(node)
        if not ways:
            return []
        if adds_up and demand.gpus and not demand.aligned:
            found = by_counting(node, demand, ways, pods_max)
            if found is not None:
                return found
        tenants = self._tenants
        return by_search(
            copy_of(node),
            demand,
            self._scope.team,
            [each[0] for each in ways],
            pods_max,
            leave=lambda way, trial: tenants.leave(way.occupant, trial, way.pods),
            come_back=lambda way, trial: tenants.come_back(way.occupant, trial, way.pods),
        )

    def _ways(self, node: NodeState) -> tuple[list[list[Way]], bool]:
        """For each that may leave: whole, then by its surplus; and whether GPUs add up."""
        found: list[list[Way]] = []
        adds_up = True
        for occupant, pods in self._may_leave(node.name):
            every = frozenset(pod.rank for pod in occupant.placement.pods)
            whole = self._way(node, occupant, pods, every)
            adds_up = adds_up and whole.gpus * GPU_MILLI == gpu_milli_of(pods)
            found.append([whole, *self._by_surplus(node, occupant, pods)])
        return found, adds_up

    def _may_leave(self, node: str) -> Iterator[tuple[Occupant, Sequence[PodPlacement]]]:
        """What may, with those of its pods on `node` that have not left yet."""
        occupants, allowed = self._scope.occupants, self._scope.screen.allowed
        for occupant in self._tenants.on(node):
            if not allowed[occupants.row_of[occupant.id]] or occupant.id in self.banned:
                continue
            pods = self._tenants.pods_on(occupant, node)
            gone = self._leavers.out.get(occupant.id)
            if gone:
                pods = [pod for pod in pods if pod.rank not in gone]
            if pods:
                yield occupant, pods

    def _by_surplus(
        self, node: NodeState, occupant: Occupant, pods: Sequence[PodPlacement]
    ) -> Iterator[Way]:
        """Without more and more of its highest ranks, wherever these lie."""
        surplus = self._scope.occupants.surplus.get(occupant.id)
        if surplus is None:
            return
        kept = {surplus.size_without(pod.rank) for pod in pods}
        for size in sorted((each for each in kept if each is not None), reverse=True):
            here = [pod for pod in pods if pod.rank >= size]
            yield self._way(node, occupant, here, occupant.ranks_from(size))

    def _way(
        self,
        node: NodeState,
        occupant: Occupant,
        pods: Sequence[PodPlacement],
        ranks: frozenset[int],
    ) -> Way:
        held: dict[int, int] = {}
        cpu_milli = memory_mib = 0
        for pod in pods:
            size = self._tenants.size(occupant, pod)
            cpu_milli += size[0]
            memory_mib += size[1]
            for share in pod.shares:
                held[share.index] = held.get(share.index, 0) + share.milli
        gpus = 0
        for index, milli in held.items():
            use = node.uses[index]
            gpus += use.milli == milli and use.usable and use.gpu is not None and not use.gpu.mig
        price = self._price(occupant, pods, ranks)
        return Way(occupant, ranks, tuple(pods), gpus, cpu_milli, memory_mib, price)

    def _price(
        self, occupant: Occupant, pods: Sequence[PodPlacement], ranks: frozenset[int]
    ) -> int:
        cost = self._leavers.cost
        if self._amortised:
            return cost(occupant, [pod.rank for pod in pods])
        return cost(occupant, ranks) - cost(occupant, self._leavers.out.get(occupant.id, ()))
