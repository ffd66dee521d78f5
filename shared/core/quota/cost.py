"""What the use of devices amounts to, by team and day, in integers that sum exactly.

An interval is one attempt on its devices: from the moment they were charged to the moment they
were given back. Its amount is milli-GPU times milliseconds; the price is the one in force when it
began. Money is computed once, from the sum, so nothing depends on the order of additions.
`monitoring.cost_by_team_and_day` says the same in SQL, and a test holds both together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from shared.core.quota.prices import Price, price_at

DAY_MS: Final = 86_400_000
GPU_HOUR_MILLI_MS: Final = 1_000 * 3_600_000
"""Milli-GPU milliseconds in one hour of one GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Devices of one attempt; `ended_at_ms` is None while they are held."""

    team: str
    flavor: str
    gpu_milli: int
    started_at_ms: int
    ended_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """An amount of use and what it costs."""

    gpu_milli_ms: int
    microdollars: int


def by_team_and_day(
    intervals: Iterable[Interval],
    prices: Mapping[str, Sequence[Price]],
    from_ms: int,
    until_ms: int,
) -> dict[tuple[str, int, str], Cost]:
    """Cost by (team, day since 1970 UTC, flavor) of what was held in [from_ms, until_ms).

    O(intervals x days). A flavor without a price costs nothing.
    """
    sums: dict[tuple[str, int, str], tuple[int, int]] = {}
    for one in intervals:
        found = price_at(prices.get(one.flavor, ()), one.started_at_ms)
        price = found.microdollars_per_gpu_hour
        for day, held_ms in days(one, from_ms, until_ms):
            amount = held_ms * one.gpu_milli
            known, priced = sums.get((one.team, day, one.flavor), (0, 0))
            sums[one.team, day, one.flavor] = (known + amount, priced + amount * price)
    return {
        key: Cost(gpu_milli_ms=amount, microdollars=rounded(priced))
        for key, (amount, priced) in sums.items()
    }


def days(one: Interval, from_ms: int, until_ms: int) -> Iterator[tuple[int, int]]:
    """The part of `one` within [from_ms, until_ms), cut at midnight UTC: (day, milliseconds)."""
    started = max(one.started_at_ms, from_ms)
    ended = until_ms if one.ended_at_ms is None else min(one.ended_at_ms, until_ms)
    while started < ended:
        day = started // DAY_MS
        midnight = min(ended, (day + 1) * DAY_MS)
        yield day, midnight - started
        started = midnight


def rounded(priced: int) -> int:
    """Whole micro-dollars of a sum of amounts (>= 0) times price; halves go up."""
    return (2 * priced + GPU_HOUR_MILLI_MS) // (2 * GPU_HOUR_MILLI_MS)


@dataclass(slots=True, kw_only=True)
class RunningTotal:
    """Milli-GPU milliseconds so far, while intervals begin and end; every operation is O(1).

    What is open grows by `open_milli` each millisecond, so the total at any time is
    `ended + at_ms x open_milli - started`, without touching an interval.
    """

    ended: int = 0
    open_milli: int = 0
    started: int = 0
    """Sum of start times x milli-GPU over the open intervals."""

    def begin(self, gpu_milli: int, at_ms: int) -> None:
        """An interval opens."""
        self.open_milli += gpu_milli
        self.started += gpu_milli * at_ms

    def end(self, gpu_milli: int, began_at_ms: int, at_ms: int) -> None:
        """The interval that began then closes; one that ends before it began counts nothing."""
        self.open_milli -= gpu_milli
        self.started -= gpu_milli * began_at_ms
        self.ended += gpu_milli * max(at_ms - began_at_ms, 0)

    def at(self, at_ms: int) -> int:
        """The total at `at_ms`, which is not before any start."""
        return self.ended + at_ms * self.open_milli - self.started
