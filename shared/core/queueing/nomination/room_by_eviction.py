"""Whether others could make room for a request in its queue's quota, by the policy of the queue.

A workload with hope is nominated although quota has no room: placement refuses it, and the
preemption service looks for victims. So this is a quick look at sums, level by level; the search
finds the victims, and whether there are any. Inside the queue, work of lower priority
may go. Where a level above is full, members of any cohort on the way to it that hold too much may:
where the branch that asks stays within what it owns (reclaim), or has a strictly smaller weighted
share than another (fair share). What already hopes in the queue counts too, so no more is
nominated than could go; but larger work that was refused (there may be quota and no whole node)
keeps nothing back, and work that would have to borrow does not keep back what is owed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shared.core.model.amounts import Amount, fits
from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.pending_queue import PendingQueue
from shared.core.quota.fair_share import borrowed_share, share, within_nominal
from shared.core.quota.limits import exceeding
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.core.quota.tree import NOTHING, QuotaNode, QuotaTree


class Hope:
    """Answers for one tree; the largest shares are remembered until `forget`."""

    def __init__(self, tree: QuotaTree, kept_from_above: Callable[[PendingQueue], None]) -> None:
        """`kept_from_above` hears of lines that would have hope but for a level above theirs."""
        self._tree, self._kept_from_above = tree, kept_from_above
        self._largest: dict[str, list[tuple[int, str]]] = {}

    def forget(self) -> None:
        """Use has fallen, or changed otherwise, since the last question."""
        self._largest.clear()

    def grew(self, queue: QuotaNode) -> None:
        """A nomination was given: no share has changed but those on its way up. O(depth)."""
        for node in queue.path():
            known = self._largest.get(node.parent.name) if node.parent is not None else None
            if known is not None and borrowed_share(node):
                others = [one for one in known if one[1] != node.name]
                known[:] = sorted([*others, (share(node), node.name)], reverse=True)[:2]

    def of(self, line: PendingQueue, flavor: str, request: Amount, priority: int) -> bool:
        """Whether evictions could make room for `request`, which has none now."""
        hoped = line.hoped.get(flavor, NOTHING)
        if self._could(line, flavor, _with_hoped(request, hoped), priority):
            return True
        if hoped == NOTHING or not self._could(line, flavor, request, priority):
            return False
        beside = line.hopes_beside(flavor, request)
        if self._is_owed(line, flavor, request, beside):
            return True
        counted = _sum(beside)
        return counted != hoped and self._could(
            line, flavor, _with_hoped(request, counted), priority
        )

    def of_own(self, line: PendingQueue, flavor: str, request: Amount, priority: int) -> bool:
        """Whether it would own enough, were all of lower priority that it may evict gone."""
        taken = line.node.taken(flavor)
        if _policy(line).within_queue is not WithinQueue.NEVER:
            taken = exceeding(taken, line.use_below(flavor, priority))
        return fits(request, taken, line.node.owned(flavor))

    def _is_owed(
        self,
        line: PendingQueue,
        flavor: str,
        request: Amount,
        beside: Iterable[tuple[Amount, int]],
    ) -> bool:
        """Whether the queue owns enough for it, and for what it owns of that which hopes.

        Work that has to borrow does not keep back what is owed.
        """
        policy, node = _policy(line), line.node
        if policy.reclaim is Reclaim.NEVER or not within_nominal(node, flavor, request):
            return False
        owed = _sum(one for one in beside if within_nominal(node, flavor, one[0]))
        return within_nominal(node, flavor, _with_hoped(request, owed)) and self._across(
            node, flavor, request, policy
        )

    def _could(self, line: PendingQueue, flavor: str, wanted: Amount, priority: int) -> bool:
        policy = _policy(line)
        return self._inside(line, flavor, wanted, priority, policy) or self._across(
            line.node, flavor, wanted, policy
        )

    def _inside(
        self, line: PendingQueue, flavor: str, wanted: Amount, priority: int, policy: QueuePolicy
    ) -> bool:
        """Whether it fits once all work of lower priority of the queue is gone.

        Tried, not summed: what comes back to a guaranteed part never burdened the cohort, and
        fits there however much more than it has the cohort uses.
        """
        if policy.within_queue is WithinQueue.NEVER:
            return False
        lower = line.use_below(flavor, priority)
        if not any(lower):
            return False
        self._tree.charge(line.name, flavor, lower, -1)
        blocker = self._tree.blocked_by(line.node, flavor, wanted)
        self._tree.charge(line.name, flavor, lower)
        if blocker not in {None, line.node}:
            self._kept_from_above(line)
        return blocker is None

    def _across(self, queue: QuotaNode, flavor: str, wanted: Amount, policy: QueuePolicy) -> bool:
        """Whether each level that is full could have members, at or below it, with too much.

        What a sister of the queue gives back is free at every level above as well.
        """
        below: list[tuple[QuotaNode, Amount]] = []
        for node, asked in self._tree.levels(queue, flavor, wanted):
            if not fits(asked, node.taken(flavor), node.limits_in(flavor).ceiling) and not any(
                self._may_ask(branch, more, (queue.name, flavor, wanted), policy)
                for branch, more in below
            ):
                return False
            below.append((node, asked))
        return True

    def _may_ask(
        self, branch: QuotaNode, more: Amount, wanted: tuple[str, str, Amount], policy: QueuePolicy
    ) -> bool:
        """Whether other members of its cohort may have to give way to `branch`."""
        flavor = wanted[1]
        owed = policy.reclaim is not Reclaim.NEVER and fits(
            more, branch.taken(flavor), branch.owned(flavor)
        )
        return owed or (policy.fair_share and self._has_less(branch, wanted))

    def _has_less(self, branch: QuotaNode, wanted: tuple[str, str, Amount]) -> bool:
        """Whether `branch` with what is wanted has less than another member of its cohort."""
        others = (one for one, name in self._shares(branch.parent) if name != branch.name)
        largest = next(others, None)
        if largest is None:
            return False
        self._tree.promise(*wanted)
        mine = share(branch)
        self._tree.promise(*wanted, -1)
        return mine < largest

    def _shares(self, cohort: QuotaNode | None) -> list[tuple[int, str]]:
        """The two borrowers with the largest shares. O(members), once after each `forget`."""
        assert cohort is not None, "a branch has a cohort"
        found = self._largest.get(cohort.name)
        if found is None:
            shares = sorted(
                (share(one), one.name) for one in cohort.children.values() if borrowed_share(one)
            )
            found = self._largest[cohort.name] = shares[:-3:-1]
        return found


def _policy(line: PendingQueue) -> QueuePolicy:
    document = line.node.document
    assert document is not None, "who may go in a flavor has a document that names it"
    return document.policy


def _sum(sizes: Iterable[tuple[Amount, int]]) -> Amount:
    gpu = cpu = memory = 0
    for size, count in sizes:
        gpu, cpu, memory = gpu + size[0] * count, cpu + size[1] * count, memory + size[2] * count
    return gpu, cpu, memory


def _with_hoped(request: Amount, hoped: Amount) -> Amount:
    """`request` and what hopes already, in the units that are asked for."""
    return (
        min(request[0] + hoped[0], UNLIMITED) if request[0] else 0,
        min(request[1] + hoped[1], UNLIMITED) if request[1] else 0,
        min(request[2] + hoped[2], UNLIMITED) if request[2] else 0,
    )
