"""Which of the queues that want the same devices is next.

Work within the nominal quota of its queue comes first: it is owed. Borrowers follow by their
weighted dominant share: of all flavors and units the largest part of the cohort's quota that a
node uses above its own, divided by its weight; weight 0 comes last. To it comes what it had beyond
or short of its part lately, its debt or credit (core/quota/deficits.py). Shares are compared level
by level from the top of the tree, so that a department with one hungry queue and one with ten get
the same; a level without a difference leaves it to the next. Equal shares are told apart by what
the queue used over time, by weight.

A rank is a tuple, compared as tuples are: a total order without a cycle, which a tournament below
the common ancestor of each pair is not (Kueue KEP-1714). Ranks change with each placement: they
are worked out where the choice is made. Source: DRF (Ghodsi 2011), H-DRF (Bhattacharya 2013).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from shared.core.model.amounts import Amount
from shared.core.model.units import UNLIMITED
from shared.core.quota.limits import plus
from shared.core.quota.tree import DEPTH_MAX, NOTHING, QuotaNode

SHARE_ONE: Final = 1_000_000
"""A share of all that the cohort owns, at weight 1: parts per million, rounded up."""
LAST: Final = UNLIMITED
"""The share of a borrower of weight 0."""
Rank = tuple[int, tuple[int, ...], int]
"""(borrows, shares from the top down, use over time by weight): smaller goes first."""
Start = tuple[str, QuotaNode, str, Amount]
"""(workload, its queue, flavor, request) of a workload with a promised start."""
_NO_SHARES: Final = (0,) * DEPTH_MAX
FIRST: Final[Rank] = (0, (), 0)
"""No rank is smaller."""


def rank(queue: QuotaNode, flavors: Iterable[str], request: Amount, used: int) -> Rank:
    """The turn of a `request` of `queue`, which used `used` over time. O(depth x flavors).

    Grows only by what is placed, as long as nothing is given back, no document changes and no
    debts are told.
    """
    by_weight = used // max(1, weight_of(queue))
    if not borrows(queue, flavors, request):
        return 0, (), by_weight
    return 1, shares(queue), by_weight


def arrears(queue: QuotaNode, flavors: Iterable[str], request: Amount) -> Rank:
    """The turn of a `request` of `queue` among those that are promised devices for later.

    What is owed comes first, then by what the nodes of the path had beyond their part lately, all
    together: what each uses at this moment says nothing about the time at which it starts.
    """
    return int(borrows(queue, flavors, request)), (sum(node.debt for node in queue.path()),), 0


def borrows(queue: QuotaNode, flavors: Iterable[str], request: Amount) -> bool:
    """Whether the queue owns too little for `request` beside what it has taken, in all flavors."""
    return not any(within_nominal(queue, flavor, request) for flavor in flavors)


def within_nominal(queue: QuotaNode, flavor: str, request: Amount) -> bool:
    """Whether the queue owns enough for `request` beside what it has taken."""
    taken, own = queue.taken(flavor), queue.owned(flavor)
    return (
        (not request[0] or taken[0] + request[0] <= own[0])
        and (not request[1] or taken[1] + request[1] <= own[1])
        and (not request[2] or taken[2] + request[2] <= own[2])
    )


def may_borrow(queue: QuotaNode, *, evictable: bool) -> bool:
    """Whether such work could give back what the queue borrows, or its policy lends even so."""
    document = queue.document
    return evictable or (document is not None and document.policy.unevictable_may_borrow)


def borrowers(starts: Iterable[Start]) -> set[str]:
    """Which of these would borrow, if those before them have started."""
    found: set[str] = set()
    ahead: dict[tuple[str, str], Amount] = {}
    for workload_id, queue, flavor, request in starts:
        place = queue.name, flavor
        wanted = plus(ahead.get(place, NOTHING), request)
        if within_nominal(queue, flavor, wanted):
            ahead[place] = wanted
        else:
            found.add(workload_id)
    return found


def shares(queue: QuotaNode) -> tuple[int, ...]:
    """Of every node below the root, from the top down to the queue; 0 below it."""
    path = [share(node) for node in queue.path() if node.parent is not None]
    return (*reversed(path), *_NO_SHARES[len(path) :])


def share(node: QuotaNode) -> int:
    """What it borrows as a part of what its cohort owns, and its debt; < 0 for a credit."""
    return borrowed_share(node) + node.debt


def borrowed_share(node: QuotaNode) -> int:
    """Its weighted dominant share of what its cohort owns; 0 while it borrows nothing."""
    largest = 0
    for flavor in (*node.used, *(one for one in node.promised if one not in node.used)):
        taken, own = node.taken(flavor), node.owned(flavor)
        if taken[0] > own[0] or taken[1] > own[1] or taken[2] > own[2]:
            whole = lendable(node, flavor)
            for unit in range(3):
                if taken[unit] > own[unit]:
                    largest = max(largest, _ratio(taken[unit] - own[unit], whole[unit]))
    weight = weight_of(node)
    if not largest:
        return 0
    return -(-largest // weight) if weight else LAST


def lendable(node: QuotaNode, flavor: str) -> Amount:
    """What the nearest cohort above that owns anything of each unit owns of it."""
    found = NOTHING
    for above in node.path():
        if above is not node:
            owned = above.owned(flavor)
            found = (found[0] or owned[0], found[1] or owned[1], found[2] or owned[2])
            if all(found):
                break
    return found


def _ratio(borrowed: int, whole: int) -> int:
    """Parts per million, never 0; all of it where nothing is owned."""
    return -(-borrowed * SHARE_ONE // whole) if whole else SHARE_ONE


def weight_of(node: QuotaNode) -> int:
    """By its document; 1 before that is known."""
    return node.document.weight if node.document is not None else 1
