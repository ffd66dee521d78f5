"""Whether a request could be had beside what others own: what time and evictions may bring.

What others borrow, and what the queue holds itself, comes free in the end. What others own and use
may be theirs for as long as they have work, so nodes that are kept for more than the rest stand
empty and nothing ever starts there.
"""

from __future__ import annotations

from typing import NamedTuple

from shared.core.model.amounts import Amount, fits
from shared.core.quota.limits import above, least, plus
from shared.core.quota.tree import NOTHING, QuotaNode


class Beyond(NamedTuple):
    """A level that has too little for a request beside what others own and use there."""

    node: QuotaNode
    wanted: Amount
    """What this level would have to count of the request, and of those that hold below it."""
    others: Amount


class Attainable:
    """Answers for trees in which nothing changes meanwhile."""

    def __init__(self) -> None:
        self._owned_and_used: dict[tuple[str, str], Amount] = {}
        """By cohort and flavor, of all its members."""

    def fits(self, queue: QuotaNode, flavor: str, request: Amount) -> bool:
        """Whether `request` fits once its queue holds nothing and no other borrows."""
        return self.beyond(queue, flavor, request) is None

    def beyond(self, queue: QuotaNode, flavor: str, request: Amount) -> Beyond | None:
        """Where it does not; None if it fits.

        O(depth), and once O(members) for each cohort above.
        """
        node, wanted, others = queue, request, NOTHING
        while fits(wanted, others, node.limits_in(flavor).ceiling):
            if node.parent is None:
                return None
            wanted = above(plus(wanted, others), node.guaranteed(flavor))
            others = self._of_others(node.parent, node, flavor)
            node = node.parent
        return Beyond(node, wanted, others)

    def _of_others(self, cohort: QuotaNode, but: QuotaNode, flavor: str) -> Amount:
        key = cohort.name, flavor
        found = self._owned_and_used.get(key)
        if found is None:
            found = NOTHING
            for one in cohort.children.values():
                found = plus(found, _owned_and_used(one, flavor))
            self._owned_and_used[key] = found
        mine = _owned_and_used(but, flavor)
        return found[0] - mine[0], found[1] - mine[1], found[2] - mine[2]


def _owned_and_used(node: QuotaNode, flavor: str) -> Amount:
    """What its cohort counts of that."""
    limits = node.limits_in(flavor)
    return above(least(node.taken(flavor), limits.owned), limits.guaranteed)
