"""The nodes that will first be wholly free for a gang, in one domain of the level it requires."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as replaced

from shared.core.backfill.promise import Waiter
from shared.core.backfill.spare_room import BRIEF, SpareRoom
from shared.core.backfill.timeline import Timeline
from shared.core.backfill.whole_nodes import WholeNodesNeed, need_of, pods_when_empty, whole_gpus
from shared.core.cluster.node_class import NodeClass
from shared.core.cluster.node_state import Domain, NodeState
from shared.core.cluster.topology import chain
from shared.core.model.nouns import Level, Node
from shared.core.placement.feasibility import node_class_obstacle
from shared.core.scoring import Cluster

Free = tuple[int, NodeState, int]
"""(time, node, pods it holds when wholly free)."""


class Earliest:
    """Looks for nodes along the timeline of a cluster."""

    def __init__(self, cluster: Cluster, timeline: Timeline, room: SpareRoom) -> None:
        """All are changed by others too."""
        self._cluster, self._timeline, self._room = cluster, timeline, room
        self._whole: dict[str, tuple[Node, int]] = {}
        """By node: the inventory that was looked at, and its GPUs that may be given away whole."""

    def nodes(
        self, waiter: Waiter, flavor: str, now_ms: int, busy: Mapping[str, int]
    ) -> list[Free]:
        """Nodes of the first domain with room; nothing if that will never be.

        Of equal times all are looked at, so that most of what is free before stays open.
        """
        gang, need = waiter.gang, need_of(waiter.gang)
        if need is None:
            return []
        found: dict[Domain | NodeState | None, list[Free]] = {}
        room: dict[Domain | NodeState | None, int] = {}
        first: list[Free] = []
        for free in self._free_nodes(waiter, need, flavor, now_ms, busy):
            if first and free[0] > first[-1][0]:
                break
            place = _place_of(free[1], gang.topology.required)
            found.setdefault(place, []).append(free)
            room[place] = room.get(place, 0) + free[2]
            if not first and room[place] >= need.pods:
                first = found[place]
        return _last(first, need.pods)

    def _free_nodes(
        self,
        waiter: Waiter,
        need: WholeNodesNeed,
        flavor: str,
        now_ms: int,
        busy: Mapping[str, int],
    ) -> Iterator[Free]:
        """Nodes that may hold a part of it, in the order in which they are free."""
        everywhere = replaced(waiter.gang, pins=tuple(range(1, BRIEF + 1)))
        allowed: dict[NodeClass, bool] = {}
        nodes, rooms, open_to = self._cluster.nodes, self._room.nodes, waiter.rooms
        for at_ms, name in self._timeline.walk(nodes, now_ms, busy):
            state = nodes.get(name)
            if state is None or state.node_class is None or not state.schedulable:
                continue
            if name in rooms and rooms[name] not in open_to:
                continue
            if state.node_class not in allowed:
                obstacle = node_class_obstacle(state.node_class, everywhere, need.demand, flavor)
                allowed[state.node_class] = obstacle is None
            pods = self._pods(state, need) if allowed[state.node_class] else 0
            if pods:
                yield at_ms, state, pods

    def _pods(self, state: NodeState, need: WholeNodesNeed) -> int:
        """Parts that the node holds when empty; its GPUs are counted once for each report."""
        node, known = state.inventory, self._whole.get(state.name)
        assert node is not None
        if known is None or known[0] is not node:
            known = self._whole[state.name] = node, whole_gpus(node)
        return pods_when_empty(node, known[1], need)


def _place_of(state: NodeState, level: Level | None) -> Domain | NodeState | None:
    """Its domain of `level`; a node without that label is alone; all nodes without a level."""
    if level is None:
        return None
    return next((domain for domain in chain(state) if domain.level is level), state)


def _last(found: Sequence[Free], pods: int) -> list[Free]:
    """Of nodes in the order in which they are free the last ones that hold `pods`."""
    chosen: list[Free] = []
    for free in reversed(found):
        if pods <= 0:
            break
        chosen.append(free)
        pods -= free[2]
    return chosen[::-1]
