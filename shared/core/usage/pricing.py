"""What use costs: computed once, from sums, so nothing depends on the order of additions."""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.model.value import Value
from shared.core.quota.cost import rounded
from shared.core.usage.amounts import UseAmounts


class PricedUse(Value, frozen=True, kw_only=True):
    """A sum of use at one price."""

    amounts: UseAmounts
    microdollars_per_gpu_hour: int


class UseCost(Value, frozen=True, kw_only=True):
    """A sum of use at any prices."""

    amounts: UseAmounts
    microdollars: int
    """Of all that was allocated."""
    unused_microdollars: int
    """Of what was measured without use."""


def cost_of(uses: Iterable[PricedUse]) -> UseCost:
    """The sum of `uses` with its cost in whole micro-dollars; halves go up. O(uses)."""
    total, priced, unused = UseAmounts(), 0, 0
    for one in uses:
        total = total.plus(one.amounts)
        priced += one.amounts.allocated * one.microdollars_per_gpu_hour
        unused += one.amounts.unused * one.microdollars_per_gpu_hour
    return UseCost(
        amounts=total, microdollars=rounded(priced), unused_microdollars=rounded(unused)
    )
