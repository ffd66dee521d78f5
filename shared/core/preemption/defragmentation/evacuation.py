"""Which workloads must leave which nodes, so that a gang finds room there: counting, no moving.

The gang is laid out pod by pod, the hungriest first, always on the node that costs the fewest
moves for each pod that it then holds; nodes with room cost none (node_offers.py). A workload on
several nodes is counted once.
Works on copies of the nodes it changes; the cluster is not touched. O(nodes x pods of a node).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import Domain, NodeState, copy_of
from shared.core.cluster.tenants import Running
from shared.core.cluster.topology import LEVELS, chain
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import GpuShare, Spread
from shared.core.preemption.defragmentation.node_offers import NodeOffer, Offers
from shared.core.scoring import Cluster, shares_on

FRACTION: Final = 1 << 20
"""Moves for each pod are compared as integers with this denominator."""


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """What the gang is to have on one node: GPUs by index, CPU and memory."""

    node: str
    gpus: frozenset[int]
    cpu_milli: int
    memory_mib: int

    def __add__(self, pod: NodeRoom) -> NodeRoom:
        """Room for both, on the same node."""
        return NodeRoom(
            self.node,
            self.gpus | pod.gpus,
            self.cpu_milli + pod.cpu_milli,
            self.memory_mib + pod.memory_mib,
        )


@dataclass(frozen=True, slots=True)
class Evacuation:
    """What must leave, and the room that the gang then has."""

    movers: tuple[Running, ...]
    rooms: tuple[NodeRoom, ...]

    @property
    def size(self) -> tuple[int, int]:
        """Moves, and their cost."""
        return len(self.movers), sum(mover.cost for mover in self.movers)


def choose(
    offers: Offers, nodes: Iterable[NodeState], node_classes: tuple[frozenset[CapacityIndex], ...]
) -> Evacuation | None:
    """The whole gang on `nodes`, each pod set on its `node_classes`; None if there is no way."""
    choice = _Choice(offers, nodes)
    for demand, allowed in zip(offers.gang.demands, node_classes, strict=True):
        if not choice.lay_out(demand, allowed):
            return None
    return Evacuation(tuple(choice.movers.values()), tuple(choice.rooms.values()))


class _Choice:
    """One way to lay the gang out, as far as it is thought out."""

    def __init__(self, offers: Offers, nodes: Iterable[NodeState]) -> None:
        self._offers = offers
        self._nodes = {node.name: node for node in nodes}
        self._copies: dict[str, NodeState] = {}
        self._apart = offers.gang.spread is Spread.REQUIRED
        self.movers: dict[str, Running] = {}
        self.rooms: dict[str, NodeRoom] = {}

    def lay_out(self, demand: PodDemand, node_classes: frozenset[CapacityIndex]) -> bool:
        """Put all pods of `demand` where they cost fewest moves; whether there is a way."""
        offered = {
            node: self._offer(node, demand)
            for node in self._nodes.values()
            if node.node_class in node_classes
        }
        found = {node: offer for node, offer in offered.items() if offer is not None}
        pods = demand.count
        while pods and found:
            node = min(found, key=lambda node: _rank(found[node], pods, node))
            offer = found[node]
            put = min(offer.pods, pods)
            for changed in self._take(node, offer, demand, put):
                again = (
                    self._offer(changed, demand) if changed.node_class in node_classes else None
                )
                found.pop(changed, None)
                if again is not None:
                    found[changed] = again
            pods -= put
        return not pods

    def _offer(self, node: NodeState, demand: PodDemand) -> NodeOffer | None:
        if self._apart and node.name in self.rooms:
            return None
        changed = self._copies.get(node.name)
        if changed is None:
            offer = self._offers.of(node, demand)
        else:
            offer = self._offers.work_out(changed, demand, self.movers)
        if offer is not None and self._apart:
            return NodeOffer(1, offer.movers, offer.cost)
        return offer

    def _take(
        self, node: NodeState, offer: NodeOffer, demand: PodDemand, pods: int
    ) -> list[NodeState]:
        """Let the movers leave and put `pods` on `node`; the nodes here that changed."""
        team = self._offers.gang.team
        names = {node.name: None}
        for mover in offer.movers:
            self.movers[mover.id] = mover
            for name in sorted(mover.nodes):
                self._offers.tenants.leave(mover, self._copy(name))
                names[name] = None
        state = self._copy(node.name)
        for _ in range(pods):
            shares = shares_on(state, demand, team)
            state.hold(team, shares, demand.cpu_milli, demand.memory_mib, media=demand.media)
            room = room_of(node.name, shares, demand)
            known = self.rooms.get(node.name)
            self.rooms[node.name] = room if known is None else known + room
        return [self._nodes[name] for name in names if name in self._nodes]

    def _copy(self, name: str) -> NodeState:
        if name not in self._copies:
            self._copies[name] = copy_of(self._offers.cluster.nodes[name])
        return self._copies[name]


def _rank(offer: NodeOffer, pods: int, node: NodeState) -> tuple[int, int, int, int]:
    """Fewest moves for each pod put there, then the least cost, the tightest room, the rank."""
    put = min(offer.pods, pods)
    moves = FRACTION * len(offer.movers) // put
    return moves, FRACTION * offer.cost // put, offer.pods, node.rank


def room_of(node: str, shares: Iterable[GpuShare], demand: PodDemand) -> NodeRoom:
    """The room of one pod of `demand`."""
    gpus = frozenset(share.index for share in shares)
    return NodeRoom(node, gpus, demand.cpu_milli, demand.memory_mib)


def parts_of(cluster: Cluster, gang: Gang) -> list[list[NodeState]]:
    """The widest parts of the fabric that may hold the gang, each with its nodes. O(nodes)."""
    nodes = list(cluster.nodes.values())
    required = gang.topology.required if gang.constrained else None
    if required is None:
        return [nodes]
    allowed = LEVELS[: LEVELS.index(required) + 1]
    parts: dict[Domain | NodeState, list[NodeState]] = {}
    for node in sorted(nodes, key=lambda each: (each.rank, each.name)):
        within = [domain for domain in chain(node) if domain.level in allowed]
        parts.setdefault(within[-1] if within else node, []).append(node)
    return list(parts.values())
