"""In which flavors of its queue a request may ever run, and in which there is room for it now.

What is permitted follows from documents alone (products, whole quota) and is worked out once for
each class of requests; room follows from what is used and promised, at every level of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.amounts import Amount, fits
from shared.core.fair_share import within_nominal
from shared.core.flavor_choice import Choice, FlavorKind, in_order_of_use, permitted
from shared.core.pending import Line, Pending, RequestClass
from shared.core.quota import NOTHING, QuotaTree


class Permissions:
    """Answers by the documents of now; whoever changes one calls `changed`."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self.kinds: dict[str, FlavorKind] = {}
        """What each flavor is made of, where that is told."""
        self.blocked_above: dict[str, Line] = {}
        """Lines that a level above their queue kept from going."""
        self._version = 0

    def changed(self) -> None:
        """A document changed: nothing that was worked out holds any more."""
        self._version += 1

    def room(self, line: Line, members: RequestClass) -> str:
        """The first permitted flavor with room at every level; "" for none.

        What the queue owns and others hold counts as room: placement asks for it back.
        """
        return self._first_with_room(line, self.permitted(line, members), members.request)

    def _first_with_room(self, line: Line, flavors: Sequence[str], request: Amount) -> str:
        """The first of `flavors` with room for `request`; notes who is kept from above."""
        node, document = line.node, line.node.document
        before = document is None or document.policy.borrow_before_preempt
        for flavor in in_order_of_use(node, flavors, request, borrow_before_preempt=before):
            blocker = self.tree.blocked_by(node, flavor, request)
            if blocker is None:
                return flavor
            if blocker is not node:
                self.blocked_above[line.name] = line
        return next((one for one in flavors if within_nominal(node, one, request)), "")

    def permitted(self, line: Line, members: RequestClass) -> tuple[str, ...]:
        """Flavors with the product and enough quota for it at all, in the queue's order."""
        if members.flavors_version != self._version:
            members.flavors_version = self._version
            members.flavors = tuple(
                flavor
                for flavor in self.matching(line, members.choice)
                if fits(members.request, NOTHING, line.node.potential(flavor))
            )
        return members.flavors

    def for_pending(self, line: Line, pending: Pending) -> tuple[str, ...]:
        """What a nomination of `pending` would permit by the rules of now."""
        members = line.classes.get((pending.request, pending.choice))
        if members is None:
            members = RequestClass(pending.request, pending.choice)
        return self.permitted(line, members)

    def matching(self, line: Line, choice: Choice) -> list[str]:
        """Flavors of the queue that will do, in the order of core/flavor_choice.py."""
        document = line.node.document
        if document is None:
            return []
        spot_first = document.policy.spot_first
        return permitted(document.flavors, self.kinds, choice, spot_first=spot_first)

    def could_fit(self, line: Line) -> bool:
        """Whether any flavor has room for the least of all that wait, unit by unit."""
        least, document = line.least, line.node.document
        if least is None or document is None:
            return False
        return self._first_with_room(line, tuple(document.flavors), least) != ""
