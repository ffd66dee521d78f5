"""In which flavors of its queue a request may ever run, and in which there is room for it now.

What is permitted follows from documents alone (products, whole quota) and is worked out once for
each class of requests; room follows from what is used and promised, at every level of the tree.
"""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.amounts import Amount, fits
from shared.core.pending import Line, Pending, RequestClass
from shared.core.quota import NOTHING, QuotaTree


class Permissions:
    """Answers by the documents of now; whoever changes one calls `changed`."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self.products: dict[str, tuple[str, ...]] = {}
        """Products of each flavor, where they are told."""
        self.blocked_above: dict[str, Line] = {}
        """Lines that a level above their queue kept from going."""
        self._version = 0

    def changed(self) -> None:
        """A document changed: nothing that was worked out holds any more."""
        self._version += 1

    def room(self, line: Line, members: RequestClass) -> str:
        """The first permitted flavor with room at every level; "" for none."""
        return self._first_with_room(line, self.permitted(line, members), members.request)

    def _first_with_room(self, line: Line, flavors: Iterable[str], request: Amount) -> str:
        """The first of `flavors` with room for `request`; notes who is kept from above."""
        for flavor in flavors:
            blocker = self.tree.blocked_by(line.node, flavor, request)
            if blocker is None:
                return flavor
            if blocker is not line.node:
                self.blocked_above[line.name] = line
        return ""

    def permitted(self, line: Line, members: RequestClass) -> tuple[str, ...]:
        """Flavors with the product and enough quota for it at all, in the queue's order."""
        if members.flavors_version != self._version:
            members.flavors_version = self._version
            members.flavors = tuple(
                flavor
                for flavor in self.matching(line, members.products)
                if fits(members.request, NOTHING, line.node.potential(flavor))
            )
        return members.flavors

    def for_pending(self, line: Line, pending: Pending) -> tuple[str, ...]:
        """What a nomination of `pending` would permit by the rules of now."""
        members = line.classes.get((pending.request, pending.products))
        if members is None:
            members = RequestClass(pending.request, pending.products)
        return self.permitted(line, members)

    def matching(self, line: Line, products: tuple[str, ...]) -> list[str]:
        """Flavors of the queue that have one of the products; all when none is wanted."""
        document = line.node.document
        flavors = document.flavors if document is not None else {}
        if not products:
            return list(flavors)
        return [
            flavor
            for flavor in flavors
            if not self.products.get(flavor) or not set(products).isdisjoint(self.products[flavor])
        ]

    def could_fit(self, line: Line) -> bool:
        """Whether any flavor has room for the least of all that wait, unit by unit."""
        least, document = line.least, line.node.document
        if least is None or document is None:
            return False
        return self._first_with_room(line, document.flavors, least) != ""
