"""What each queue and cohort had beyond its part, or short of it: paid back in the order (Q3).

Shares of the moment leave something over: a queue that can use 8 GPUs or none is never at the five
of its part, and one that needs whole nodes waits longer for them than one that takes what comes.
So every node of the tree has an account of its share above what it owns less the ideal share
(core/quota/ideal_share.py) over time. It decays with a half-life like use over time, by the same
two sums, so it is exact for the rates that it was told, and reading it changes nothing. As a part
of a share it is spread over `REPAID_MS`: a share of a tenth too much for two hours counts as a
tenth more now.

The rates are looked at anew at the caller's pace, for trees in which work waits; in a tree in
which none does, each queue has what it wants, and none makes debts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from shared.core.quota.fair_share import SHARE_ONE, lendable, weight_of
from shared.core.quota.ideal_share import GPU, ideal_borrowing
from shared.core.quota.tree import QuotaNode, QuotaTree
from shared.core.quota.usage_history import UsageHistory

REPAID_MS: Final = 2 * 3_600_000
"""A debt counts as a share that pays it back in this time."""
HALF_LIFE_MS: Final = 86_400_000

Waiting = Mapping[str, Mapping[str, int]]
"""By flavor and queue, the milli-GPU that wait."""


class FairShareDeficits:
    """Accounts of all nodes of one cell, in parts per million of a share x milliseconds."""

    def __init__(self, history: UsageHistory | None = None) -> None:
        self.history = history or UsageHistory(HALF_LIFE_MS)

    def review(self, tree: QuotaTree, waiting: Waiting, at_ms: int) -> list[str]:
        """From `at_ms` on use and wants as they are make debts; accounts with another rate now.

        O(nodes x flavors) of the trees in which work waits, or did at the last review.
        """
        before = {name: one.rate for name, one in self.history.accounts.items() if one.rate}
        names = {*before, *(queue for queues in waiting.values() for queue in queues)}
        roots = {root.name: root for root in (tree.node(name).root for name in sorted(names))}
        rates = dict.fromkeys(before, 0)
        for root in roots.values():
            for flavor, queues in waiting.items():
                self._add(root, flavor, queues, rates)
        changed = [name for name, rate in rates.items() if rate != before.get(name, 0)]
        for name in changed:
            self.history.change(name, at_ms, rates[name] - before.get(name, 0))
        return changed

    def _add(
        self, root: QuotaNode, flavor: str, waiting: Mapping[str, int], rates: dict[str, int]
    ) -> None:
        """How much larger than ideal each share is, in one flavor."""
        ideal = ideal_borrowing(root, flavor, waiting)
        for node in below(root):
            whole = lendable(node, flavor)[GPU]
            if whole:
                beyond = node.borrowed(flavor)[GPU] - ideal[node.name]
                rates[node.name] = rates.get(node.name, 0) + beyond * SHARE_ONE // whole

    @property
    def moving(self) -> bool:
        """Whether anything has more or less than its part now."""
        return any(one.rate for one in self.history.accounts.values())

    def of(self, node: QuotaNode, at_ms: int) -> int:
        """What counts as share beside the share that it has, in parts per million; < 0: credit."""
        weight = weight_of(node)
        if not weight:
            return 0
        return self.history.balance(node.name, at_ms) // REPAID_MS // weight


def below(root: QuotaNode) -> Iterable[QuotaNode]:
    """All nodes of a tree without its root, from the top down."""
    for node in root.children.values():
        yield node
        yield from below(node)
