"""Which waiting gangs count, and in which flavor: those for which more nodes are the only lack.

A gang that was refused for lack of room is counted in the first flavor that it may use and in
which quota has its least left, beside all that hold quota or were counted before. Two gangs that
each fit into the quota of their queue, and not together, need the nodes of one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from shared.core.model.amounts import Amount
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
    waiting: Iterable[WaitingGang], tree: QuotaTree, kinds: Mapping[str, FlavorKind]
) -> Mapping[str, Sequence[GangNeed]]:
    """What counts by flavor, in the order of `waiting`; charges it to `tree`.

    O(gangs x flavors x depth).
    """
    counted: dict[str, list[GangNeed]] = defaultdict(list)
    for one in waiting:
        flavor = _flavor(one, tree, kinds)
        if flavor:
            tree.charge(one.queue, flavor, one.request)
            counted[flavor].append(one.need)
    return counted


def _flavor(one: WaitingGang, tree: QuotaTree, kinds: Mapping[str, FlavorKind]) -> str:
    """The first that quota has for it; "" if none has."""
    queue = tree.nodes.get(one.queue)
    if queue is None or queue.document is None or not one.need.pods:
        return ""
    document = queue.document
    flavors = permitted(document.flavors, kinds, one.choice, spot_first=document.policy.spot_first)
    left = (flavor for flavor in flavors if not tree.blocked_by(queue, flavor, one.request))
    return next(left, "")
