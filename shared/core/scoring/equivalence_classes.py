"""Nodes and shared GPUs of one flavor in cells by their condition: what packing.py looks at.

A change is noted at once and followed at the next look: one node moves from cell to cell, in
the order in which single pods take equals (core/scoring/policies/fabric_order.py). Kinds and
conditions are numbered as they appear; when most node classes are gone, all are numbered anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.core.cluster.node_class import NodeClass
from shared.core.cluster.node_state import Domain, NodeState
from shared.core.model.units import GPU_MILLI
from shared.core.scoring.cells import Cells, Conditions, Member
from shared.core.scoring.policies import fabric_order, order_by, prefix_of, with_rank
from shared.core.scoring.policy import (
    CPU_STEP_MILLI,
    PART_MILLI,
    REST_MILLI,
    SHARED_CPU_STEP_MILLI,
)
from shared.core.scoring.share_values import MILLI_STEP

NODE_CLASSES_MAX: Final = 64
"""Kinds numbered before it is asked whether most of them are gone."""
DOMAINS_MAX: Final = 1 << 16
"""Domains of which is known how their nodes are in order; then it is found out anew."""

Place = tuple[Cells, int]
"""A cell: by its number."""
Part = tuple[int, int, str]
"""(GPU, its free milli, team) of a shared GPU."""


class EquivalenceClasses:
    """In which cell each node and shared GPU is."""

    def __init__(self) -> None:
        self.edition = 0
        """Rises when node classes or conditions get numbers that they did not have."""
        self._changed: dict[NodeState, None] = {}
        """Nodes with cells that are out of step ..."""
        self._reordered: dict[Domain, None] = {}
        """... and domains with nodes that may come in another order in theirs."""
        self._ordered: dict[Domain, int] = {}
        """By what domain their nodes are in order, as far as is known."""
        self._empty()

    def _empty(self) -> None:
        """No node classes, no cells."""
        self.edition += 1
        self.nodes = Cells()
        self.conditions = Conditions()
        self.shared: dict[str, Cells] = {}
        """By team: a shared GPU has one owner."""
        self.shared_conditions = Conditions()
        self.node_classes: list[NodeClass] = []
        self.places: dict[NodeState, dict[int, tuple[Cells, int, Member]]] = {}
        """By node, and by shared GPU or -1 for the node itself: where it is."""
        self._numbers: dict[NodeClass, int] = {}
        self._steps: list[int] = []
        """By node class: the largest step of free CPU."""
        self._node_classes_max = NODE_CLASSES_MAX

    def change(self, node: NodeState) -> None:
        """A node changed; its cells follow when they are next needed."""
        self._changed[node] = None

    def reorder(self, domains: Mapping[Domain, None]) -> None:
        """The nodes of `domains` come in another order now; their cells follow as above."""
        self._reordered.update(domains)

    def leave(self, node: NodeState) -> None:
        """Take a node out of its cells: it is gone, or of another flavor."""
        self._changed.pop(node, None)
        for cells, number, member in self.places.pop(node, {}).values():
            cells.take(number, member)

    def follow(self) -> None:
        """Bring the cells in step with the nodes that changed. O(GPUs) for each."""
        if len(self.node_classes) > self._node_classes_max:
            self._forget_node_classes()
        for node in self._changed:
            self._follow_node(node)
        self._changed.clear()
        for domain in self._reordered:
            self._follow_domain(domain)
        self._reordered.clear()
        if len(self._ordered) > DOMAINS_MAX:
            self._ordered.clear()

    def _forget_node_classes(self) -> None:
        """Number the node classes anew if most have no node left. O(nodes), rarely."""
        living = sum(node_class.nodes > 0 for node_class in self.node_classes)
        if 2 * living < len(self.node_classes):
            self._changed |= dict.fromkeys(self.places)
            self._empty()
        self._node_classes_max = max(NODE_CLASSES_MAX, 2 * living)

    def _follow_node(self, node: NodeState) -> None:
        places = self.places.setdefault(node, {})
        now = self._places_of(node)
        for index in [index for index in places if index not in now]:
            cells, number, member = places.pop(index)
            cells.take(number, member)
        order = fabric_order(node)
        for index, (cells, number) in now.items():
            member = (order, index, node)
            old = places.get(index)
            if old is not None:
                if old == (cells, number, member):
                    cells.raise_bounds(number, node)
                    continue
                old[0].take(old[1], old[2])
            cells.put(number, member)
            places[index] = (cells, number, member)

    def _places_of(self, node: NodeState) -> dict[int, Place]:
        """By shared GPU, or -1 for the node: where it belongs now."""
        if node.node_class is None or not node.schedulable:
            return {}
        node_class, parts = self._number(node.node_class), _parts_of(node)
        parts_milli = sum([free for _, free, _ in parts])
        step = node.free_cpu_milli // CPU_STEP_MILLI
        row = (node_class, node.free_count, parts_milli // PART_MILLI)
        now = {-1: (self.nodes, self.conditions.number(row, step, self._steps[node_class]))}
        all_milli = node.free_count * GPU_MILLI + parts_milli
        step = node.free_cpu_milli // SHARED_CPU_STEP_MILLI
        for index, free, team in parts:
            row = (node_class, free // MILLI_STEP, (all_milli - free) // REST_MILLI)
            now[index] = (self._cells_of(team), self.shared_conditions.number(row, step, 0))
        return now

    def _cells_of(self, team: str) -> Cells:
        cells = self.shared.get(team)
        if cells is None:
            cells = self.shared[team] = Cells()
        return cells

    def _number(self, node_class: NodeClass) -> int:
        number = self._numbers.get(node_class)
        if number is None:
            number = self._numbers[node_class] = len(self.node_classes)
            self.node_classes.append(node_class)
            self._steps.append(node_class.key.cpu_milli // CPU_STEP_MILLI)
            self.edition += 1
        return number

    def _follow_domain(self, domain: Domain) -> None:
        order = order_by(domain)
        if self._ordered.get(domain) != order:
            self._ordered[domain] = order
            self._reorder(domain)

    def _reorder(self, domain: Domain) -> None:
        prefixes: dict[tuple[Domain | None, int, bool], int] = {}
        for node in domain.nodes():
            kin = (node.domain, node.free_count, node.whole)
            prefix = prefixes.get(kin)
            if prefix is None:
                prefix = prefix_of(node.domain, free=node.free_count, whole=node.whole)
                prefixes[kin] = prefix
            order = with_rank(prefix, node)
            places = self.places.get(node)
            if places and next(iter(places.values()))[2][0] != order:
                _move(node, places, order)


def _parts_of(node: NodeState) -> list[Part]:
    return [
        (index, GPU_MILLI - use.milli, use.team)
        for index, use in node.uses.items()
        if 0 < use.milli < GPU_MILLI and use.offers_shares
    ]


def _move(node: NodeState, places: dict[int, tuple[Cells, int, Member]], order: int) -> None:
    """All places of a node are in one order."""
    for index, (cells, number, member) in places.items():
        cells.take(number, member)
        moved = (order, index, node)
        cells.put(number, moved)
        places[index] = (cells, number, moved)
