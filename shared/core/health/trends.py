"""Slow changes that end badly: memory that leaks while the use of a GPU stays as it is.

Medians of five minutes are the points; the slope is the median of the slopes of all pairs
(Theil, 1950; Sen, 1968), which outliers do not move. Told, and never acted on.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

import numpy as np

from shared.core.model.value import Value

POINT_MS: Final = 300_000
POINTS_MIN: Final = 30
WINDOW_MS: Final = 6 * 3_600_000
WARM_UP_MS: Final = 1_800_000
"""Work that begins fills memory: its first half hour is no evidence."""
SLOPE_MIN: Final = 200.0
"""MiB an hour."""
RISE_MIN_MIB: Final = 2_000
USE_SPREAD_MAX: Final = 10
"""Use within five points of its middle."""


class TrendPoint(Value, frozen=True, kw_only=True):
    """Medians of five minutes."""

    at_ms: int
    memory_mib: float
    percent: float


class Leak(Value, frozen=True, kw_only=True):
    """Used memory that rises while use does not."""

    since_ms: int
    mib_per_hour: float
    mib: float
    """By how much it has risen in all."""


def point_of(at_ms: int, samples: Sequence[tuple[int, int]]) -> TrendPoint:
    """The point of some samples (MiB, per cent); at least one. O(samples log samples)."""
    return TrendPoint(
        at_ms=at_ms,
        memory_mib=median(memory for memory, _ in samples),
        percent=median(percent for _, percent in samples),
    )


def slope_per_hour(points: Sequence[TrendPoint]) -> float:
    """Median of the slopes of all pairs, MiB an hour; at least two points. O(points squared)."""
    hours = np.array([one.at_ms for one in points]) / 3_600_000
    memory = np.array([one.memory_mib for one in points])
    low, high = np.triu_indices(len(points), k=1)
    return float(np.median((memory[high] - memory[low]) / (hours[high] - hours[low])))


def _rise_of_floor(points: Sequence[TrendPoint]) -> float:
    """By how much the least use of memory rises: a cache that is emptied in turn has a floor.

    Between the lowest of the first third and of the last, two thirds apart; as of the whole.
    """
    third = len(points) // 3
    first = min(one.memory_mib for one in points[:third])
    last = min(one.memory_mib for one in points[-third:])
    return 1.5 * (last - first)


def leak_of(points: Sequence[TrendPoint]) -> Leak | None:
    """Whether memory leaks, by points in order of time; None if nothing says so."""
    recent = [one for one in points if points[-1].at_ms - one.at_ms <= WINDOW_MS]
    if len(recent) < POINTS_MIN or recent[-1].at_ms - recent[0].at_ms < WINDOW_MS - POINT_MS:
        return None
    uses = [one.percent for one in recent]
    rise = _rise_of_floor(recent)
    if max(uses) - min(uses) > USE_SPREAD_MAX or rise < RISE_MIN_MIB:
        return None
    slope = slope_per_hour(recent)
    # A cache that fills up rises, too, and then stays: a leak still rises in its last half.
    if min(slope, slope_per_hour(recent[len(recent) // 2 :])) <= SLOPE_MIN:
        return None
    return Leak(since_ms=recent[0].at_ms, mib_per_hour=slope, mib=rise)
