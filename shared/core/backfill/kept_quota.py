"""Backfill where quota is what is short: what comes free of it is kept for whatever is first.

EASY backfill (Lifka, The ANL/IBM SP scheduling system, 1995) with quota in the place of nodes.
Work that needs much would wait for ever while much that needs little takes each bit that is given
back. So for the first that lacks quota the time is worked out at which enough will have been given
back, by expected ends. What comes after it may start if it will have ended by then, or within what
is left over beside it at that time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from shared.core.backfill.timeline import NEVER
from shared.core.model.amounts import Amount, fits
from shared.core.model.units import UNLIMITED
from shared.core.quota.limits import exceeding
from shared.core.quota.tree import QuotaNode, QuotaTree


class QuotaHolder(NamedTuple):
    """A workload that is charged, and when it is expected to give it back."""

    end_ms: int
    queue: str
    amount: Amount


class Keeping(NamedTuple):
    """What is kept for a workload for which quota is short."""

    levels: tuple[str, ...]
    """Nodes of the tree, from the queue up, in which it is short or may become so: which count in
    they are in the way of no work."""
    until_ms: int
    """When it will be there."""
    spare: Amount
    """What is left over beside it then; unlimited of what it does not ask for."""


def keeping(
    tree: QuotaTree,
    queue: QuotaNode,
    flavor: str,
    request: Amount,
    holders: Iterable[QuotaHolder],
    *,
    start_ms: int = 0,
) -> Keeping | None:
    """What to keep for `request`, which cannot start before `start_ms` for other reasons.

    None where quota is there already, or time does not bring it. `holders` have theirs in
    `flavor`. The tree is as before afterwards. O(n log n + n depth).
    """
    asked = list(tree.levels(queue, flavor, request))
    short = [node for node, more in asked if not _fits(node, flavor, more)]
    until_ms = 0 if short else start_ms
    gone: list[QuotaHolder] = []
    for holder in sorted(holders):
        if holder.end_ms >= NEVER or 0 < until_ms < holder.end_ms or not (short or until_ms):
            break
        tree.charge(holder.queue, flavor, holder.amount, -1)
        gone.append(holder)
        if not until_ms and tree.blocked_by(queue, flavor, request) is None:
            until_ms = max(holder.end_ms, start_ms)
    left = queue.available(flavor)
    for holder in gone:
        tree.charge(holder.queue, flavor, holder.amount)
    if not until_ms:
        return None
    levels = tuple(node.name for node in short or [node for node, _ in asked])
    return Keeping(levels, until_ms, _beside(left, request))


def _fits(node: QuotaNode, flavor: str, asked: Amount) -> bool:
    return fits(asked, node.taken(flavor), node.limits_in(flavor).ceiling)


def _beside(left: Amount, request: Amount) -> Amount:
    spare = exceeding(left, request)
    gpu, cpu, memory = (
        UNLIMITED if not asked or has >= UNLIMITED else more
        for asked, has, more in zip(request, left, spare, strict=True)
    )
    return gpu, cpu, memory
