"""Sets of victims that make room by counting, in the parts of the fabric that may be cheapest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import NodeState
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.nouns import Spread
from shared.core.preemption.defragmentation import parts_of
from shared.core.preemption.victims.choice import VictimChoice
from shared.core.preemption.victims.made_room import MadeRoom
from shared.core.preemption.victims.simulated_removal import Out, Part, Scope, SimulatedRelease
from shared.core.quota.tree import QuotaNode

Dearer = tuple[tuple[Out, int, str], ...]
"""Others that might have left: which, at what cost, and on which node."""
PARTS_MAX: Final = 4
"""Parts of the fabric in which victims are chosen, those that may be cheapest first."""


@dataclass(slots=True, kw_only=True)
class Failure:
    """How near it came."""

    quota: QuotaNode | None = None
    """Where quota was still short."""
    demand: PodDemand | None = None
    place: str = ""
    pods: int = -1
    """Pods of `demand` for which there would be room in `place` if all that may go went."""


class Counts:
    """One gang; `node_classes` are those that each of its pod sets may run on."""

    def __init__(
        self,
        scope: Scope,
        gang: Gang,
        node_classes: Mapping[str, tuple[CapacityIndex, ...]],
        failure: Failure,
    ) -> None:
        self._scope = scope
        self._gang = gang
        self._node_classes = node_classes
        self.failure = failure

    def choices(self) -> Iterator[tuple[int, Out, Dearer]]:
        """Sets that make room in one part each, the cheapest first."""
        chosen: list[tuple[int, int, Out, Dearer]] = []
        gangs = self._gang.pods > 1 and self._scope.screen.on_several_nodes()
        for _, number, part in sorted(self._worth_a_look(), key=lambda each: each[:2])[:PARTS_MAX]:
            for amortised in (False, True) if gangs else (False,):
                leavers = SimulatedRelease(self._scope)
                dearer = self._choose(leavers, part, amortised=amortised)
                if dearer is not None:
                    chosen.append((leavers.total_cost, number, dict(leavers.out), dearer))
                leavers.clear()
        chosen.sort(key=lambda each: each[:2])
        for at, (own, _, out, dearer) in enumerate(chosen):
            rest = tuple(
                (other, cost, "") for cost, _, other, _ in chosen[at + 1 :] if other != out
            )
            yield own, out, (*dearer, *rest)

    def _choose(self, leavers: SimulatedRelease, part: Part, *, amortised: bool) -> Dearer | None:
        """Let the cheapest leave `part` for the whole gang; the next nodes, or None for no way."""
        one = len(self._gang.demands) == 1
        dearer: Dearer = ()
        for demand in self._gang.demands:
            room = MadeRoom(
                leavers,
                part,
                demand,
                node_classes=self._node_classes[demand.pod_set],
                apart=self._gang.spread is Spread.REQUIRED,
            )
            choice = VictimChoice(room, amortised=amortised)
            if not choice.reach():
                self._missed(demand, room.pods, part.name)
                return None
            choice.trim()
            if one and len(leavers.out) > 1:
                choice.improve()
            if one and demand.count == 1:
                dearer = tuple(
                    ({way.occupant.id: way.ranks for way in offer.ways}, price, node)
                    for price, node, offer in choice.dearer
                )
            if not one:
                room.occupy()
        return dearer

    def _worth_a_look(self) -> Iterator[tuple[int, int, Part]]:
        """(least cost for each pod, number, part) of those parts that may have room at all."""
        potential = self._scope.screen.gpus_by_node()
        for number, part in enumerate(self._parts()):
            short = next(
                (d for d in self._gang.demands if self._room_max(d, part, potential) < d.count),
                None,
            )
            if short is None:
                yield self._scope.screen.least_rate_ms(part.codes), number, part
            else:
                self._missed(short, self._room_max(short, part, potential), part.name)

    def _parts(self) -> Iterator[Part]:
        """The widest parts of the fabric that may hold the gang."""
        cluster, codes = self._scope.cluster, self._scope.occupants.nodes
        if not self._gang.constrained or self._gang.topology.required is None:
            yield Part(f"{len(cluster.nodes)} nodes", cluster.nodes, None)
            return
        for nodes in parts_of(cluster, self._gang):
            by_name = {node.name: node for node in nodes}
            known = [code for name in by_name if (code := codes.find(name)) > 0]
            yield Part(_name(nodes), by_name, np.array(known, dtype=np.int64))

    def _room_max(self, demand: PodDemand, part: Part, potential: dict[str, int]) -> int:
        """Room for no more pods in `part`, whatever goes; at most for all of `demand`."""
        if not demand.gpus:
            return demand.count
        node_classes = set(self._node_classes[demand.pod_set])
        apart = self._gang.spread is Spread.REQUIRED
        room = 0
        for node in part.nodes.values():
            if room >= demand.count:
                break
            if node.node_class in node_classes and node.schedulable:
                whole = node.free_count + potential.get(node.name, 0)
                fits = min(whole, node.node_class.key.gpus) // demand.gpus
                room += min(fits, 1) if apart else fits
        return room

    def _missed(self, demand: PodDemand, pods: int, place: str) -> None:
        if pods > self.failure.pods:
            self.failure.demand, self.failure.pods, self.failure.place = demand, pods, place


def _name(nodes: list[NodeState]) -> str:
    return nodes[0].name if len(nodes) == 1 else f"{len(nodes)} nodes"
