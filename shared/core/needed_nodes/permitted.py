"""Which waiting gangs count, and in which flavor: those for which more nodes are the only lack.

A gang that was refused for lack of room is counted in the first flavor that it may use and in
which quota has its least left, beside all that hold quota or were counted before. Two gangs that
each fit into the quota of their queue, and not together, need the nodes of one. Equal gangs come
as one with their number, so thousands of them cost as much as one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from shared.core.model.amounts import Amount, times
from shared.core.model.value import Value
from shared.core.needed_nodes.gang import GangNeed
from shared.core.queueing.nomination import FlavorChoice, FlavorKind, permitted
from shared.core.quota.tree import NOTHING, QuotaTree


class WaitingGang(Value, frozen=True, kw_only=True):
    """A gang that waits for room in a queue."""

    queue: str
    need: GangNeed
    request: Amount = NOTHING
    """What quota counts for the least of it."""
    choice: FlavorChoice = FlavorChoice()


def within_quota(
    waiting: Iterable[tuple[WaitingGang, int]], tree: QuotaTree, kinds: Mapping[str, FlavorKind]
) -> Mapping[str, Mapping[GangNeed, int]]:
    """How many gangs of each need count, by flavor, first come first; charges them to `tree`.

    `waiting` are gangs with the number of those that are equal to it. O(entries x flavors x depth
    x log of the number).
    """
    counted: dict[str, Counter[GangNeed]] = defaultdict(Counter)
    for one, number in waiting:
        left = number
        for flavor in _flavors(one, tree, kinds):
            most = _most(one, flavor, left, tree)
            if most:
                tree.charge(one.queue, flavor, times(one.request, most))
                counted[flavor][one.need] += most
                left -= most
    return counted


def _flavors(one: WaitingGang, tree: QuotaTree, kinds: Mapping[str, FlavorKind]) -> Iterator[str]:
    """Those that it may use, in the order of its queue."""
    queue = tree.nodes.get(one.queue)
    if queue is not None and queue.document is not None and one.need.pods:
        document = queue.document
        yield from permitted(
            document.flavors, kinds, one.choice, spot_first=document.policy.spot_first
        )


def _most(one: WaitingGang, flavor: str, number: int, tree: QuotaTree) -> int:
    """How many of so many equal ones quota has room for; the more there are, the less it fits."""
    queue = tree.nodes[one.queue]
    return bisect_left(
        range(1, number + 1),
        1,
        key=lambda count: tree.blocked_by(queue, flavor, times(one.request, count)) is not None,
    )
