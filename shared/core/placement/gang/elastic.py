"""Gangs that may be smaller than asked: `min_count` pods of a set must run, up to `count` may.

Shrinking takes away one unit at a time (a pod, or a whole outermost slice), always from the set
with the most to spare. What fits at one size fits at any smaller one, so the most that fits is
found by bisection. Each try places the whole gang: a large one begins with the largest size for
which there is room by count, which mostly is the answer, and goes down from there in longer and
longer strides.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from shared.core.cluster.statement import Statement
from shared.core.model.demand import Gang, PodDemand
from shared.core.model.units import Resources
from shared.core.placement.feasibility import permitted
from shared.core.placement.gang.anywhere import COUNTED_MIN, rooms
from shared.core.placement.gang.attempt import attempt
from shared.core.scoring import Cluster


def spare_units(gang: Gang) -> int:
    """By how many units the gang may shrink."""
    return sum(map(_spare, gang.demands))


def shrunk(gang: Gang, units: int) -> Gang:
    """The gang without `units` units; at most `spare_units`. O(pod sets x log(units))."""
    spare = [_spare(demand) for demand in gang.demands]
    # Taken one by one, all that have more come down to a common level; the first of them go on.
    level = bisect_left(range(max(spare) + 1), -units, key=lambda low: -_above(spare, low))
    rest = units - _above(spare, level)
    counts = []
    for demand, has in zip(gang.demands, spare, strict=True):
        goes_on = has >= level and rest > 0
        rest -= goes_on
        counts.append(demand.count - (has - min(has, level) + goes_on) * demand.unit)
    demands = tuple(
        replace(demand, count=count) for demand, count in zip(gang.demands, counts, strict=True)
    )
    return replace(gang, demands=demands, pods=sum(counts))


def smallest(gang: Gang) -> Gang:
    """The gang that must run at least."""
    return shrunk(gang, spare_units(gang))


def attempt_most(
    cluster: Cluster, gang: Gang, flavor: str, headroom: Resources
) -> Statement | None:
    """The most of a gang that does not fit whole, charged; None if not even the least fits."""
    sizes = _Sizes(cluster, gang, flavor, headroom)
    least, most = 1, spare_units(gang)
    if not most or not sizes.fits(most):
        return None
    stride = most
    if gang.pods > COUNTED_MIN:
        least, stride = sizes.least_by_count(most), 1
    while least < most:
        units = min(least + stride - 1, (least + most) // 2)
        if sizes.fits(units):
            most = units
        else:
            least, stride = units + 1, 2 * stride
    return sizes.charged(most)


class _Sizes:
    """Sizes of a gang in one flavor, one tried after the other: what fits stays till the next."""

    def __init__(self, cluster: Cluster, gang: Gang, flavor: str, headroom: Resources) -> None:
        self._cluster, self._gang, self._flavor = cluster, gang, flavor
        self._headroom = headroom
        self._units = 0
        self._statement: Statement | None = None

    def fits(self, units: int) -> bool:
        """Whether the gang without so many units does."""
        self._take_back()
        gang, self._units = shrunk(self._gang, units), units
        self._statement = attempt(self._cluster, gang, self._flavor, self._headroom)
        return self._statement is not None

    def charged(self, units: int) -> Statement | None:
        """The gang without so many units, which was seen to fit."""
        if units != self._units or self._statement is None:
            self.fits(units)
        return self._statement

    def least_by_count(self, most: int) -> int:
        """With fewer units less, up to `most`, a set has more pods than there is room for."""
        gang, flavor = self._gang, self._flavor
        self._take_back()
        tiers = tuple(permitted(self._cluster, gang, demand, flavor) for demand in gang.demands)
        room = list(rooms(self._cluster, gang, tiers))

        def counts(units: int) -> int:
            demands = shrunk(gang, units).demands
            return int(all(each.count <= have for each, have in zip(demands, room, strict=True)))

        return bisect_left(range(1, most), 1, key=counts) + 1

    def _take_back(self) -> None:
        if self._statement is not None:
            self._statement.rollback()
            self._statement = None


def _spare(demand: PodDemand) -> int:
    return (demand.count - demand.min_count) // demand.unit


def _above(spare: list[int], level: int) -> int:
    return sum(max(each - level, 0) for each in spare)
