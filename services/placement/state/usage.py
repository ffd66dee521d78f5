"""Quota as placement charges it: the tree of the core, by the facts of quota, and its rows.

The same sums stand in placement.usage, a row for each node of the tree and flavor with the
ceiling and the guaranteed part that the core has worked out; a CHECK there is the last line.

What a reservation keeps counts as a promise of the preemptor's queue, and what its victims hold
as one that they will give back. No workload may be given what would be too much now, nor what
would be once the victims are gone and the preemptor is placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from shared.core.model.amounts import Amount, amount
from shared.core.model.units import Resources
from shared.core.quota.limits import least
from shared.core.quota.tree import QuotaTree
from shared.events.quotas import QuotaChanged

Shift = tuple[str, str, Amount, int]
"""(queue, flavor, amount, sign): how a reservation changes what is promised."""
_PLACEHOLDER: Final = "cohort"


class Usage:
    """All nodes of the quota tree of this cell."""

    def __init__(self) -> None:
        self.tree = QuotaTree()
        self.facts: dict[str, QuotaChanged] = {}
        """The newest fact of each node; of a parent that was not told of, one of version 0."""
        self._flavors: dict[str, dict[str, None]] = {}
        """Flavors in which a node has a row: those that it or a node below it ever named."""
        self._kept = 0
        self.changes = 0
        """How often a limit or what is taken has changed."""

    def put(self, fact: QuotaChanged) -> list[str]:
        """Take the limits of one node; the names of rows that change, none if it is old news."""
        known = self.facts.get(fact.name)
        if known is not None and known.version >= fact.version:
            return []
        left = self.path(fact.name)
        node, _ = self.tree.apply(fact.document())
        if node is None:
            return []
        self.facts[fact.name] = fact
        self.changes += 1
        for flavor in fact.flavors:
            self.has_row(fact.name, flavor.flavor)
        joined = self.path(fact.name)
        for below, above in pairwise(joined):
            if above not in self.facts:
                self.facts[above] = QuotaChanged(name=above, kind=_PLACEHOLDER, version=0)
            self._flavors.setdefault(above, {}).update(self._flavors.get(below, {}))
        return list(dict.fromkeys([*joined, *left]))

    def has_row(self, name: str, flavor: str) -> None:
        """The database has a row, or will with this unit."""
        self._flavors.setdefault(name, {})[flavor] = None

    def rows(self, name: str) -> list[tuple[str, Amount, Amount]]:
        """(flavor, ceiling, guaranteed) of each row of a node."""
        node = self.tree.node(name)
        limits = [(flavor, node.limits_in(flavor)) for flavor in self._flavors.get(name, ())]
        return [(flavor, one.ceiling, one.guaranteed) for flavor, one in limits]

    def path(self, queue: str) -> list[str]:
        """The queue and its ancestors."""
        node = self.tree.nodes.get(queue)
        return [queue] if node is None else [one.name for one in node.path()]

    def names(self, queue: str, flavor: str) -> bool:
        """Whether the queue has quota in the flavor and is open; nothing else may be charged.

        Nominations that are not withdrawn yet do not get through a hold.
        """
        node = self.tree.node(queue)
        document = node.document
        shut = document is not None and (document.held or document.draining)
        return not shut and node.own(flavor) is not None

    def headroom(self, queue: str, flavor: str) -> Resources:
        """What `queue` may still be charged in `flavor`; nothing when over a lowered limit."""
        node = self.tree.node(queue)
        left = node.available(flavor)
        if self._kept:
            left = least(left, node.unpromised(flavor))
        return Resources(
            gpu_milli=max(0, left[0]), cpu_milli=max(0, left[1]), memory_mib=max(0, left[2])
        )

    def charge(self, queue: str, flavor: str, charge: Resources) -> None:
        """Count a charge at the queue and wherever above it counts."""
        self.changes += 1
        self.tree.charge(queue, flavor, amount(charge))

    def release(self, queue: str, flavor: str, charge: Resources) -> list[str]:
        """Undo `charge`; the nodes, from the queue up, that have more room now."""
        self.changes += 1
        return self.tree.charge(queue, flavor, amount(charge), -1)

    def keep(self, shifts: Sequence[Shift], sign: int) -> None:
        """Count what a reservation keeps, or with `sign` -1 no longer."""
        self.changes += 1
        self._kept += sign * len(shifts)
        for queue, flavor, kept, direction in shifts:
            self.tree.promise(queue, flavor, kept, sign * direction)
