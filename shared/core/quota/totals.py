"""What a queue or cohort owns and uses together with all below it, for reports.

Decisions know of a cohort what its members may lend and what they pass on (`core.quota.limits`).
To people a cohort is all that is in it, also what its members keep to themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from shared.core.model.amounts import Amount
from shared.core.quota.limits import plus
from shared.core.quota.node import QuotaNode
from shared.core.quota.tree import NOTHING, QuotaTree


class Total(NamedTuple):
    """Sums over a subtree in one flavor, saturating."""

    nominal: Amount
    used: Amount


class Totals:
    """The sums of one moment's tree, each worked out once: O(subtree) the first time."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self._known: dict[tuple[str, str], Total] = {}

    def of(self, node: QuotaNode, flavor: str) -> Total:
        """What `node` and all below it own and use."""
        place = (node.name, flavor)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._sum(node, flavor)
        return found

    def _sum(self, node: QuotaNode, flavor: str) -> Total:
        if not node.children:
            return Total(node.nominal(flavor), node.charged(flavor))
        nominal, used = node.nominal(flavor), NOTHING
        for member in node.children.values():
            below = self.of(member, flavor)
            nominal, used = plus(nominal, below.nominal), plus(used, below.used)
        return Total(nominal, used)
