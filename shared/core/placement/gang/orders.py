"""Other orders in which the pod sets of a gang may be placed, for those with a leader or slices.

The hungriest first and the leader last is what mostly works, and works best. It fails where a
leader needs a node that a worker took, or where the slices of one set broke the domain that those
of another need. Then a few other orders are tried, each as cheap as the first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import permutations
from typing import Final

from shared.core.model.demand import Gang

SETS_MAX: Final = 4
"""Pod sets up to which every order is tried; of more, each set once comes before the others."""
ORDERED_MAX: Final = 400
"""Pods charged in other orders before giving up: a few milliseconds."""

Order = tuple[int, ...]
"""Numbers of the pod sets, as they stand in the gang."""


class OtherOrders:
    """Those of one gang; the budget is shared by all attempts of a decision."""

    def __init__(self, gang: Gang) -> None:
        self._gang = gang
        self._left = ORDERED_MAX

    def __iter__(self) -> Iterator[Order]:
        """As long as there is something left to try them with; leaders first to begin with."""
        tried = {self._alike(range(len(self._gang.demands)))}
        for order in _orders(self._gang):
            if self._left <= 0:
                return
            alike = self._alike(order)
            if alike not in tried:
                tried.add(alike)
                yield order

    def spend(self, pods: int) -> None:
        """So many were charged in one order."""
        self._left -= pods + 1

    def _alike(self, order: Iterable[int]) -> Hashable:
        """What tells orders apart: which of equal sets comes first does not."""
        ordered = (self._gang.demands[at] for at in order)
        return tuple((each.shape, each.count, each.leader) for each in ordered)


def _orders(gang: Gang) -> Iterator[Order]:
    numbers = range(len(gang.demands))
    yield tuple(sorted(numbers, key=lambda at: not gang.demands[at].leader))
    if len(numbers) <= SETS_MAX:
        yield from permutations(numbers)
        return
    for first in numbers:
        yield (first, *(at for at in numbers if at != first))
