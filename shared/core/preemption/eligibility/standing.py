"""Where the preemptor stands in the quota tree, beside others, while some of them have gone.

Free devices may be used besides, but no workload is evicted so that a queue or cohort which holds
both borrows more than before: what it won so, others would take back, for ever.
"""

from __future__ import annotations

from collections import Counter

from shared.core.model.amounts import Amount
from shared.core.quota.fair_share import share
from shared.core.quota.tree import NOTHING, QuotaNode, QuotaTree


class PreemptorStanding:
    """One queue that wants `charge` in one flavor of `tree`, which those taken are gone from."""

    def __init__(
        self, tree: QuotaTree, queue: str, charge: Amount, flavor: str, *, owned_only: bool = False
    ) -> None:
        """With `owned_only` the queue may not borrow for it."""
        self.tree = tree
        self.owned_only = owned_only
        self.queue = tree.node(queue)
        self.charge = charge
        self.flavor = flavor
        self._path = list(self.queue.path())
        self._names = {node.name for node in self._path}
        self._borrowed_before = {each.name: each.borrowed(flavor) for each in self._path}
        self._gone_below: Counter[str] = Counter()
        """How many of those taken were below each node of the path."""
        self._shares: dict[str, int] = {}
        """With `charge`, as things are now."""

    # ── what has gone ──

    def take(self, queue: str, charge: Amount) -> None:
        """A workload of `queue` goes."""
        self.tree.charge(queue, self.flavor, charge, -1)
        self._gone_below.update(self._common(queue))
        self._shares.clear()

    def give_back(self, queue: str, charge: Amount) -> None:
        """Undo `take`."""
        self.tree.charge(queue, self.flavor, charge)
        self._gone_below.subtract(self._common(queue))
        self._shares.clear()

    def _common(self, queue: str) -> list[str]:
        """Nodes of the path that are above `queue` too, or are it."""
        return [node.name for node in self.tree.node(queue).path() if node.name in self._names]

    # ── what it lacks ──

    def short(self, charge: Amount) -> tuple[QuotaNode, Amount] | None:
        """The first node that may not have `charge` beside its use, and what it lacks.

        For want of quota, of its own where it may not borrow; or because another below it
        goes, and it would borrow more than before: no workload is evicted so that those that share
        a queue or cohort borrow more.
        """
        blocked = self.tree.blocked_by(self.queue, self.flavor, charge)
        if blocked is not None:
            return blocked, _lacking(charge, blocked.available(self.flavor))
        lacks = _lacking(charge, self.queue.spare(self.flavor)) if self.owned_only else NOTHING
        if any(lacks):
            return self.queue, lacks
        if not self._gone_below:
            return None
        self.tree.charge(self.queue.name, self.flavor, charge)
        found = next(filter(None, map(self._grown, self._path)), None)
        self.tree.charge(self.queue.name, self.flavor, charge, -1)
        return found

    def _grown(self, node: QuotaNode) -> tuple[QuotaNode, Amount] | None:
        """By how much `node` borrows more than before, if some of those below it have gone."""
        if not self._gone_below.get(node.name):
            return None
        more = _lacking(node.borrowed(self.flavor), self._borrowed_before[node.name])
        return (node, more) if any(more) else None

    # ── beside another queue ──

    def branches(self, queue: str) -> tuple[QuotaNode, list[QuotaNode]]:
        """The preemptor's child of the common ancestor, and the nodes from `queue` to its own."""
        theirs: list[QuotaNode] = []
        for node in self.tree.node(queue).path():
            if node in self._path:
                at = self._path.index(node)
                return self._path[max(at - 1, 0)], theirs
            theirs.append(node)
        return self._path[-1], theirs

    def above(self, node: QuotaNode) -> Amount:
        """By how much `node` is above its nominal quota, in the units that are asked for."""
        borrowed = node.borrowed(self.flavor)
        return (
            borrowed[0] if self.charge[0] else 0,
            borrowed[1] if self.charge[1] else 0,
            borrowed[2] if self.charge[2] else 0,
        )

    def within_nominal(self, node: QuotaNode) -> bool:
        """Whether `node` owns enough for the preemptor beside what it uses."""
        used = node.used.get(self.flavor, NOTHING)
        return all(
            not asked or held + asked <= own
            for asked, held, own in zip(self.charge, used, node.owned(self.flavor), strict=True)
        )

    def share_then(self, node: QuotaNode) -> int:
        """The weighted share of `node` with the preemptor."""
        known = self._shares.get(node.name)
        if known is None:
            known = self._shares[node.name] = self._share_of(node)
        return known

    def keeps_order(self, queue: str, charge: Amount) -> bool:
        """Whether `queue` without `charge` has no less, by share, than the preemptor with its."""
        mine, theirs = self.branches(queue)
        self.tree.charge(queue, self.flavor, charge, -1)
        kept = self._share_of(mine) <= share(theirs[-1])
        self.tree.charge(queue, self.flavor, charge)
        return kept

    def _share_of(self, node: QuotaNode) -> int:
        """The same, looked at anew."""
        self.tree.charge(self.queue.name, self.flavor, self.charge)
        found = share(node)
        self.tree.charge(self.queue.name, self.flavor, self.charge, -1)
        return found


def _lacking(wanted: Amount, have: Amount) -> Amount:
    """By unit, what is wanted beyond what there is."""
    return (
        max(wanted[0] - have[0], 0) if wanted[0] else 0,
        max(wanted[1] - have[1], 0) if wanted[1] else 0,
        max(wanted[2] - have[2], 0) if wanted[2] else 0,
    )
