"""The quota tree of one cell: documents come into force, use is charged and given back.

Cohorts of any depth (Kueue, KEP-79); the algebra is in `core.quota.limits`, one node in
`core.quota.node`. A queue's quota lies in a node of its own; a cohort's is a pool beside what its
members lend. A charge goes up from the queue as far as a node above has to count it, a change
of a document as far as it changes something: O(depth) both, for each flavor.

Changes are in place; the caller that changes the tree also decides what to look at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from shared.core.model.amounts import Amount, fits, times
from shared.core.quota.document import (
    EVERYTHING,
    FLAVORS_MAX,
    NOTHING,
    WEIGHT_MAX,
    FlavorLimits,
    QuotaDocument,
    problem_of,
)
from shared.core.quota.limits import above, limits_of
from shared.core.quota.node import QuotaNode

__all__ = [
    "DEPTH_MAX",
    "EVERYTHING",
    "FLAVORS_MAX",
    "NOTHING",
    "WEIGHT_MAX",
    "FlavorLimits",
    "QuotaDocument",
    "QuotaNode",
    "QuotaTree",
    "problem_of",
]

DEPTH_MAX: Final = 32


class QuotaTree:
    """All queues and cohorts of one cell."""

    def __init__(self) -> None:
        self.nodes: dict[str, QuotaNode] = {}

    def node(self, name: str) -> QuotaNode:
        """The node of this name; one without quota if none was applied yet. O(1)."""
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = QuotaNode(name)
        return found

    # ── documents ────────────────────────────────────────────────────────────────────────────

    def apply(self, document: QuotaDocument) -> tuple[QuotaNode | None, str]:
        """Put a document into force: its node, or why it is refused.

        An older or equal version changes nothing: no node and no reason. O(depth x flavors).
        """
        node = self.nodes.get(document.name)
        if node is not None and node.document is not None:
            if document.version <= node.document.version:
                return None, ""
            if node.document.kind != document.kind:
                return None, f"{document.name}: is a {node.document.kind} already"
        problem = problem_of(document) or self._place_problem(document)
        if problem:
            return None, problem
        node = self.node(document.name)
        self._detach(node)
        named = {*node.limits, *document.flavors}
        node.document = document
        node.parent = self.node(document.parent) if document.parent else None
        _renew(node, named)
        self._attach(node)
        return node, ""

    def _place_problem(self, document: QuotaDocument) -> str:
        """Why it cannot hang below its parent, or over its members."""
        found = self.nodes.get(document.name)
        if document.kind == "queue" and found is not None and found.children:
            return f"{document.name}: is the cohort of {next(iter(found.children))} already"
        above_name, depth = document.parent, 1
        while above_name:
            if above_name == document.name:
                return f"{document.name}: parent {document.parent} makes a cycle"
            parent = self.nodes.get(above_name)
            if parent is None:
                break
            if parent.is_queue:
                return f"{document.name}: parent {above_name} is a queue"
            above_name = parent.parent.name if parent.parent is not None else ""
            depth += 1
        if depth + _height(found) > DEPTH_MAX:
            return f"{document.name}: the tree would be deeper than {DEPTH_MAX}"
        return ""

    def _detach(self, node: QuotaNode) -> None:
        """Take from its parent what `node` lends and uses there."""
        if node.parent is not None:
            _contribute(node, -1)
            del node.parent.children[node.name]

    def _attach(self, node: QuotaNode) -> None:
        if node.parent is not None:
            node.parent.children[node.name] = node
            _contribute(node, 1)

    # ── use ──────────────────────────────────────────────────────────────────────────────────

    def charge(self, queue: str, flavor: str, amount: Amount, sign: int = 1) -> list[str]:
        """Add (or with `sign` -1 take off) use of a queue; the nodes that count it, from there up.

        What stays within the guaranteed part of a node is not counted above it.
        """
        return _count(self.node(queue), flavor, times(amount, sign), NOTHING)

    def promise(self, queue: str, flavor: str, amount: Amount, sign: int = 1) -> None:
        """Add or take off what an unanswered nomination may take."""
        _count(self.node(queue), flavor, NOTHING, times(amount, sign))

    def set_debt(self, name: str, debt: int) -> QuotaNode:
        """From now on `debt` counts as share of the node, in parts per million."""
        node = self.node(name)
        node.debt = debt
        return node

    def blocked_by(self, queue: QuotaNode, flavor: str, request: Amount) -> QuotaNode | None:
        """The first node from the queue up that would exceed its ceiling; None if none would.

        Units that are not asked for never stand in the way. O(depth).
        """
        node: QuotaNode | None = queue
        while node is not None:
            limits, taken = node.limits_in(flavor), node.taken(flavor)
            if not fits(request, taken, limits.ceiling):
                return node
            if limits.guaranteed != NOTHING:
                request = _passed_on(request, taken, limits.guaranteed)
            node = node.parent
        return None

    def blocking(
        self, queue: QuotaNode, flavor: str, request: Amount
    ) -> tuple[QuotaNode, Amount] | None:
        """The same node, with the part of `request` that it would have to count."""
        for node, asked in self.levels(queue, flavor, request):
            if not fits(asked, node.taken(flavor), node.limits_in(flavor).ceiling):
                return node, asked
        return None

    def levels(
        self, queue: QuotaNode, flavor: str, request: Amount
    ) -> Iterator[tuple[QuotaNode, Amount]]:
        """The nodes from the queue up that would have to count `request`, each with its part."""
        node: QuotaNode | None = queue
        while node is not None and any(request):
            yield node, request
            request = _passed_on(request, node.taken(flavor), node.guaranteed(flavor))
            node = node.parent


def _height(node: QuotaNode | None) -> int:
    if node is None:
        return 0
    return 1 + max((_height(child) for child in node.children.values()), default=0)


def _renew(node: QuotaNode, flavors: Iterable[str]) -> None:
    """Compute the limits of `node` in `flavors` from its document and its members."""
    for flavor in flavors:
        own, lent_in = node.own(flavor), node.lent_in.get(flavor)
        if own is None and (lent_in is None or not any(lent_in)):
            node.limits.pop(flavor, None)
        else:
            node.limits[flavor] = limits_of(own, lent_in or NOTHING, root=node.parent is None)


def _contribute(node: QuotaNode, sign: int) -> None:
    """Count in the parent what `node` lends and uses there, or with `sign` -1 no longer."""
    assert node.parent is not None
    for flavor in {*node.limits, *node.used, *node.promised}:
        lendable, used, promised = _contribution(node, flavor)
        _take_in(
            node.parent, flavor, times(lendable, sign), times(used, sign), times(promised, sign)
        )


def _contribution(node: QuotaNode, flavor: str) -> tuple[Amount, Amount, Amount]:
    """What a parent counts of `node`: lendable, used and promised."""
    limits = node.limits_in(flavor)
    used = above(node.used.get(flavor, NOTHING), limits.guaranteed)
    taken = above(node.taken(flavor), limits.guaranteed)
    return limits.lendable, used, _minus(taken, used)


def _take_in(
    node: QuotaNode, flavor: str, lendable: Amount, used: Amount, promised: Amount
) -> None:
    """A member's contribution has changed by so much: change what follows, and hand it on."""
    before = _contribution(node, flavor)
    if any(lendable):
        _add(node.lent_in, flavor, lendable)
        _renew(node, (flavor,))
    _add(node.used, flavor, used)
    _add(node.promised, flavor, promised)
    after = _contribution(node, flavor)
    if node.parent is not None and after != before:
        more = [_minus(new, old) for new, old in zip(after, before, strict=True)]
        _take_in(node.parent, flavor, *more)


def _count(queue: QuotaNode, flavor: str, used: Amount, promised: Amount) -> list[str]:
    """Add to use and promises from the queue up, while there is something to count."""
    counted: list[str] = []
    node: QuotaNode | None = queue
    while node is not None and (used != NOTHING or promised != NOTHING):
        keeps = node.limits_in(flavor).guaranteed != NOTHING
        before = _contribution(node, flavor) if keeps else None
        if used != NOTHING:
            _add(node.used, flavor, used)
        if promised != NOTHING:
            _add(node.promised, flavor, promised)
        if before is not None:
            after = _contribution(node, flavor)
            used, promised = _minus(after[1], before[1]), _minus(after[2], before[2])
        counted.append(node.name)
        node = node.parent
    return counted


def _passed_on(request: Amount, taken: Amount, guaranteed: Amount) -> Amount:
    """The part of `request` that the parent would have to count."""
    if guaranteed == NOTHING:
        return request
    return _minus(above(_plus(taken, request), guaranteed), above(taken, guaranteed))


def _add(sums: dict[str, list[int]], flavor: str, amount: Amount) -> None:
    total = sums.get(flavor)
    if total is None:
        total = sums[flavor] = [0, 0, 0]
    total[0] += amount[0]
    total[1] += amount[1]
    total[2] += amount[2]


def _plus(left: Amount, right: Amount) -> Amount:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def _minus(left: Amount, right: Amount) -> Amount:
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]
