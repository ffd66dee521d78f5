"""What each member of a quota tree would borrow now if GPUs had no places and no delays.

In one flavor, what every queue uses and asks for is capped by the ceilings on its way up. Then
what the tree owns is poured from the root down: each member first has what it owns, as far as it
wants it; the rest goes by weight, none getting more than it asks for. That is demand-limited
weighted max-min fairness at each level (progressive filling: Bertsekas and Gallager, Data
Networks, 6.5.2), the reference of docs/adr/0029. It has no memory.

Amounts are milli-GPU. What a parent counts of a member is its use above what it never lends
(core/quota/limits.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.core.model.units import UNLIMITED
from shared.core.quota.fair_share import weight_of
from shared.core.quota.tree import QuotaNode

GPU = 0
"""Of an amount, the unit that is looked at."""


def ideal_borrowing(root: QuotaNode, flavor: str, waiting: Mapping[str, int]) -> dict[str, int]:
    """By node below `root`, what it would use above what it owns. O(nodes x log members).

    `waiting` is what each queue asks for beside what it uses.
    """
    counted: dict[str, int] = {}
    wanted = _count(root, flavor, waiting, counted)
    found: dict[str, int] = {}
    _pour_down(root, flavor, wanted, counted, found)
    return found


def _count(
    node: QuotaNode, flavor: str, waiting: Mapping[str, int], counted: dict[str, int]
) -> int:
    """What the node wants in all, at most its ceiling; notes what the parent counts of it."""
    if node.children:
        wanted = sum(_count(child, flavor, waiting, counted) for child in node.children.values())
    else:
        wanted = node.charged(flavor)[GPU] + waiting.get(node.name, 0)
    limits = node.limits_in(flavor)
    wanted = min(wanted, limits.ceiling[GPU])
    counted[node.name] = max(0, wanted - limits.guaranteed[GPU])
    return counted[node.name] if node.parent is not None else wanted


def _pour_down(
    node: QuotaNode, flavor: str, amount: int, counted: Mapping[str, int], found: dict[str, int]
) -> None:
    """Share out what the node has among its members, and what each has among its own."""
    members = list(node.children.values())
    owned = [min(counted[one.name], one.limits_in(flavor).lendable[GPU]) for one in members]
    more = [counted[one.name] - own for one, own in zip(members, owned, strict=True)]
    extra = pour(max(0, amount - sum(owned)), more, [weight_of(one) for one in members])
    for one, own, beyond in zip(members, owned, extra, strict=True):
        found[one.name] = beyond
        if one.children:
            kept = one.limits_in(flavor).guaranteed[GPU]
            _pour_down(one, flavor, min(own + beyond + kept, UNLIMITED), counted, found)


def pour(amount: int, wants: Sequence[int], weights: Sequence[int]) -> list[int]:
    """`amount` by weight, none more than it wants; weight 0 has what the others leave."""
    found = [0] * len(wants)
    order = sorted(range(len(wants)), key=lambda at: (_level(wants[at], weights[at]), at))
    weight_left = sum(weights)
    for at in order:
        part = amount * weights[at] // weight_left if weight_left else amount
        found[at] = min(wants[at], part)
        amount -= found[at]
        weight_left -= weights[at]
    return found


def _level(want: int, weight: int) -> tuple[int, int]:
    """How high the water must stand for one to have enough; weight 0 after all others."""
    return (0, (want << 32) // weight) if weight else (1, want)
