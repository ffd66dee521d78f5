"""The quota tree as the log tells it, and what may be used when it holds.

A queue may use its nominal quota and, in a cohort, borrow up to its limit; a cohort has a pool of
its own, may use what its members lend it, and borrows from the cohort above. A placement must fit
every level at which it is counted: what a node never lends does not count above it. Documents hold
by the order in which placement took them up (`quota_order`), never by a clock; where the order of
a change and a placement is not known, the more generous of both limits holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from operations.check.model import Payload

UNITS: Final = ("gpu_milli", "cpu_milli", "memory_mib")
UNLIMITED: Final = 1 << 62
Change = tuple[Payload, int]
"""A document and the unit of work in which placement took it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Limits in force in one span of time; of several documents of a node, the best of each."""

    documents: dict[str, list[Payload]]
    children: dict[str, list[str]]
    _capacities: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def amount(self, name: str, flavor: str, unit: str, key: str) -> int | None:
        """Largest `key` (nominal, borrowing_limit, lending_limit) of a node; None: no limit."""
        best: int | None = 0
        for document in self.documents.get(name, []):
            quota = _of_flavor(document, flavor)
            if quota is None and key != "nominal" and document.get("kind") == "cohort":
                return None  # what a cohort does not name passes through it
            value = _limit(quota, key, unit)
            if value is None:
                return None
            best = max(best or 0, value)
        return best

    def parent(self, name: str) -> str:
        """Cohort of a node, empty without one."""
        documents = self.documents.get(name)
        parent = documents[-1].get("parent", "") if documents else ""
        return parent if parent in self.documents else ""

    def capacity(self, name: str, flavor: str, unit: str) -> int:
        """Nominal quota of a node and of what its members lend it."""
        known = self._capacities.get((name, flavor, unit))
        if known is None:
            total = self.amount(name, flavor, unit, "nominal") or 0
            for child in self.children.get(name, []):
                total += self.lendable(child, flavor, unit)
            known = self._capacities[name, flavor, unit] = min(total, UNLIMITED)
        return known

    def ceiling(self, name: str, flavor: str, unit: str) -> int:
        """Quota of a node with what it may borrow."""
        limit = self.capacity(name, flavor, unit)
        if not self.parent(name):
            return limit
        borrowing = self.amount(name, flavor, unit, "borrowing_limit")
        return UNLIMITED if borrowing is None else min(limit + borrowing, UNLIMITED)

    def kept(self, name: str, flavor: str, unit: str) -> int:
        """Part of a node's quota that is never lent."""
        owned, lent = self.capacity(name, flavor, unit), self.lendable(name, flavor, unit)
        if owned >= UNLIMITED:
            return 0 if lent >= UNLIMITED else UNLIMITED
        return owned - lent

    def lendable(self, name: str, flavor: str, unit: str) -> int:
        """The other part."""
        lending = self.amount(name, flavor, unit, "lending_limit")
        owned = self.capacity(name, flavor, unit)
        return owned if lending is None else min(owned, lending)

    def used(
        self, name: str, flavor: str, unit: str, used: Mapping[tuple[str, str, str], int]
    ) -> int:
        """Use of a node: its own, and what its members take beyond what they keep."""
        total = used.get((name, flavor, unit), 0)
        for child in self.children.get(name, []):
            taken = self.used(child, flavor, unit, used) - self.kept(child, flavor, unit)
            total += max(0, taken)
        return total


@dataclass(slots=True, kw_only=True)
class Limits:
    """Documents, and from which unit of work to which they hold."""

    spans: Sequence[tuple[Payload, int, int]] = ()
    _trees: dict[tuple[int, ...], Tree] = field(default_factory=dict)

    @classmethod
    def of(cls, changes: Iterable[Change]) -> Limits:
        """The history of the tree from the facts `QuotaChanged`, in their order."""
        return cls(spans=list(_spans(list(changes))))

    def broken(
        self,
        units: tuple[int, int],
        used: Mapping[tuple[str, str, str], int],
        entry: tuple[str, str, Payload],
    ) -> Iterator[str]:
        """What the placement `entry` (queue, flavor, charge), already in `used`, breaks.

        `units`: it was made in one of these units of work, from the first to the last.
        """
        queue, flavor, charge = entry
        tree = self._tree(*units)
        if queue not in tree.documents:
            yield f"queue {queue} had no quota at that time"
            return
        for unit in UNITS:
            if charge.get(unit, 0) > 0:
                yield from _broken_path(tree, (queue, flavor, unit), charge[unit], used)

    def _tree(self, first: int, last: int) -> Tree:
        """All documents that may have been in force then."""
        held = tuple(
            index
            for index, (_, start, end) in enumerate(self.spans)
            if start <= last and end >= first
        )
        if held not in self._trees:
            self._trees[held] = tree_of([self.spans[index][0] for index in held])
        return self._trees[held]


def _broken_path(
    tree: Tree,
    place: tuple[str, str, str],
    more: int,
    used: Mapping[tuple[str, str, str], int],
) -> Iterator[str]:
    name, flavor, unit = place
    while name and more > 0:
        parent = tree.parent(name)
        limit = tree.ceiling(name, flavor, unit)
        taken = tree.used(name, flavor, unit, used)
        if taken > limit:
            yield f"{name} uses {taken} of {limit} {unit} in {flavor}"
        kept = tree.kept(name, flavor, unit)
        more = max(0, taken - kept) - max(0, taken - more - kept)
        name = parent


def _spans(changes: list[Change]) -> Iterator[tuple[Payload, int, int]]:
    """In the unit of a change the document before it may still hold."""
    following: dict[str, int] = {}
    for document, unit in reversed(changes):
        name = document["name"]
        yield document, unit, following.get(name, UNLIMITED)
        following[name] = unit


def tree_of(documents: list[Payload]) -> Tree:
    """The tree of these documents."""
    by_name: dict[str, list[Payload]] = {}
    for document in sorted(documents, key=lambda one: one.get("version", 1)):
        by_name.setdefault(document["name"], []).append(document)
    children: dict[str, list[str]] = {}
    for name, versions in by_name.items():
        parent = versions[-1].get("parent", "")
        if parent in by_name:
            children.setdefault(parent, []).append(name)
    return Tree(documents=by_name, children=children)


def _of_flavor(document: Payload, flavor: str) -> Payload | None:
    for quota in document.get("flavors", ()):
        if quota["flavor"] == flavor:
            found: Payload = quota
            return found
    return None


def _limit(quota: Payload | None, key: str, unit: str) -> int | None:
    """A limit of one flavor; None is "unlimited", 0 where the flavor is not named at all."""
    if quota is None:
        return 0
    if key == "nominal":
        nominal = quota.get("nominal")
        return UNLIMITED if nominal is None else int(nominal.get(unit, 0))
    limit = quota.get(key)
    return None if limit is None else int(limit.get(unit, 0))
