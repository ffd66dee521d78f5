"""Room for the pods of one demand on the nodes of a part of the fabric, as occupants leave it.

Counted by the index of the cluster once; then only the nodes of those that leave or come back, on
copies of them (simulated_removal.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import Level
from shared.core.placement.room import ROOM_MAX, room_index
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.victims.simulated_removal import Part, SimulatedRelease
from shared.core.scoring import node_room, shares_on


class MadeRoom:
    """Room on nodes of `node_classes`; `apart`: no two pods on one node."""

    def __init__(
        self,
        leavers: SimulatedRelease,
        part: Part,
        demand: PodDemand,
        *,
        node_classes: tuple[CapacityIndex, ...],
        apart: bool,
    ) -> None:
        self.leavers = leavers
        self.part = part
        self.demand = demand
        self.node_classes = frozenset(node_classes)
        self.apart = apart
        self._team = leavers.scope.team
        self._room: dict[str, int] = {}
        """By node; without those that have none."""
        self._count_all(node_classes)

    @property
    def pods(self) -> int:
        """Pods that find room."""
        return sum(self._room.values())

    @property
    def missing(self) -> int:
        """Pods of the demand that find none."""
        return self.demand.count - self.pods

    def on(self, node: str) -> int:
        """Pods that find room on a node."""
        return self._room.get(node, 0)

    def let_go(self, occupant: Occupant, ranks: frozenset[int]) -> list[str]:
        """Let exactly `ranks` of it be gone; the nodes of the part where that changed anything."""
        moved = ranks ^ self.leavers.out.get(occupant.id, frozenset[int]())
        self.leavers.vacate(occupant, ranks)
        pods = occupant.placement.pods
        changed = {pod.node for pod in pods if pod.rank in moved and pod.node in self.part.nodes}
        for name in changed:
            self._count(name)
        return sorted(changed)

    def restore(self, out: Mapping[str, frozenset[int]]) -> None:
        """Let exactly these be gone."""
        running = self.leavers.scope.occupants.tenants.running
        for name in [*self.leavers.out, *out]:
            wanted = out.get(name, frozenset())
            if self.leavers.out.get(name, frozenset()) != wanted:
                self.let_go(running[name], wanted)

    def occupy(self) -> None:
        """Hold the pods where there is room, so that those of the next demand find their own."""
        left, demand, team = self.demand.count, self.demand, self._team
        for name in sorted(self._room, key=lambda each: (self._room[each], each)):
            copy = self.leavers.copy(name)
            for _ in range(min(self._room[name], left)):
                shares = shares_on(copy, demand, team)
                copy.hold(team, shares, demand.cpu_milli, demand.memory_mib, media=demand.media)
                left -= 1

    def _count_all(self, node_classes: tuple[CapacityIndex, ...]) -> None:
        """Room of all nodes of the part: by the index, and of those that changed by counting."""
        cluster, loose = self.leavers.scope.cluster, replace(self.demand, slices=())
        index = room_index(cluster, node_classes, loose, self._team, distinct=self.apart)
        for room, _, node in index.at_least(Level.NODE, 1, ROOM_MAX):
            if node.name in self.part.nodes:
                self._room[node.name] = room
        for name in self.leavers.changed():
            if name in self.part.nodes:
                self._count(name)

    def _count(self, name: str) -> None:
        node = self.leavers.node(name)
        room = 0
        if node.node_class in self.node_classes:
            room = node_room(node, self.demand, self._team)
        if room:
            self._room[name] = min(room, 1) if self.apart else room
        else:
            self._room.pop(name, None)
