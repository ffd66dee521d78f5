"""The algebra of borrowing and lending, for one node of the quota tree in one flavor.

    owned       own nominal quota, and what the members own that they may lend
    lendable    the part of what is owned that the members of the cohort above may use
    guaranteed  the rest: use within it does not matter above
    ceiling     owned and what may be borrowed; without a parent there is nothing to borrow from

Use that exceeds what is guaranteed is use of the parent, and so on to the root. Then the one rule
`use <= ceiling` at every node says all that borrowing and lending limits mean. Unlimited stays so
whatever is added; units (milli-GPU, milli-CPU, MiB) know nothing of each other.

Source: Kueue's hierarchical cohorts (KEP-79). Other than there, use within what is guaranteed is
allowed even while the cohort above is over its limits: that is what guaranteed means.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from shared.core.model.amounts import Amount
from shared.core.model.units import UNLIMITED, saturating_add
from shared.core.quota.document import EVERYTHING, NOTHING, FlavorLimits


class QuotaLimits(NamedTuple):
    """What a node may use in one flavor, as documents say."""

    nominal: Amount
    owned: Amount
    lendable: Amount
    guaranteed: Amount
    ceiling: Amount


NO_QUOTA: Final = QuotaLimits(NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)
"""Of a queue that does not name the flavor."""
PASSING: Final = QuotaLimits(NOTHING, NOTHING, NOTHING, NOTHING, EVERYTHING)
"""Of a cohort below another that does not: its members may borrow through it."""
_NONE: Final = FlavorLimits(nominal=NOTHING)


def limits_of(own: FlavorLimits | None, lent_in: Sequence[int], *, root: bool) -> QuotaLimits:
    """The limits of a node with `own` quota, to what its members lend `lent_in` in sum."""
    own = own if own is not None else _NONE
    owned = plus(own.nominal, lent_in)
    lendable = owned if own.lending_limit is None else least(owned, own.lending_limit)
    guaranteed = (
        _rest(owned[0], lendable[0]),
        _rest(owned[1], lendable[1]),
        _rest(owned[2], lendable[2]),
    )
    if root:
        ceiling = owned
    elif own.borrowing_limit is None:
        ceiling = EVERYTHING
    else:
        ceiling = plus(owned, own.borrowing_limit)
    return QuotaLimits(own.nominal, owned, lendable, guaranteed, ceiling)


def above(used: Sequence[int], guaranteed: Amount) -> Amount:
    """The part of a node's use that its parent counts."""
    return (
        max(0, used[0] - guaranteed[0]),
        max(0, used[1] - guaranteed[1]),
        max(0, used[2] - guaranteed[2]),
    )


def reach(limits: QuotaLimits, used: Amount, parent: Amount | None) -> Amount:
    """What a node may still take, where its parent may take `parent`; negative when over."""
    return (
        _reach(limits.ceiling[0], limits.guaranteed[0], used[0], parent and parent[0]),
        _reach(limits.ceiling[1], limits.guaranteed[1], used[1], parent and parent[1]),
        _reach(limits.ceiling[2], limits.guaranteed[2], used[2], parent and parent[2]),
    )


def _reach(ceiling: int, guaranteed: int, used: int, parent: int | None) -> int:
    own = UNLIMITED if ceiling >= UNLIMITED else ceiling - used
    if parent is None or guaranteed >= UNLIMITED:
        return own
    spare = max(0, guaranteed - used)
    if parent < 0 < spare:
        return min(own, spare)
    return min(own, saturating_add(spare, parent))


def exceeding(used: Sequence[int], limit: Amount) -> Amount:
    """How much `used` is above `limit`, which may be unlimited."""
    return (
        0 if limit[0] >= UNLIMITED else max(0, used[0] - limit[0]),
        0 if limit[1] >= UNLIMITED else max(0, used[1] - limit[1]),
        0 if limit[2] >= UNLIMITED else max(0, used[2] - limit[2]),
    )


def plus(left: Sequence[int], right: Sequence[int]) -> Amount:
    """The sum by unit, saturating."""
    return (
        saturating_add(left[0], right[0]),
        saturating_add(left[1], right[1]),
        saturating_add(left[2], right[2]),
    )


def least(left: Amount, right: Amount) -> Amount:
    """The smaller by unit."""
    return min(left[0], right[0]), min(left[1], right[1]), min(left[2], right[2])


def _rest(owned: int, lendable: int) -> int:
    """What stays of `owned`; nothing does where all of it may be lent, unlimited or not."""
    if owned >= UNLIMITED:
        return 0 if lendable >= UNLIMITED else UNLIMITED
    return owned - lendable
