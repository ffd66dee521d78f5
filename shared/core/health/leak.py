"""A leak: memory in use that rises while the use of a GPU stays as it is.

The slope is the median of the slopes of all pairs of points (Theil, 1950; Sen, 1968), which
outliers do not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from shared.core.health.trends import ABSENT, POINT_MS, UNKNOWN, TrendEvidence, TrendJudgement
from shared.core.model.value import Value

POINTS_MIN: Final = 30
WINDOW_MS: Final = 6 * 3_600_000
WARM_UP_MS: Final = 1_800_000
"""Work that begins fills memory: its first half hour is no evidence."""
SLOPE_MIN: Final = 200.0
"""MiB an hour."""
RISE_MIN_MIB: Final = 2_000
USE_SPREAD_MAX: Final = 10
"""Use within five points of its middle."""


class MemoryPoint(Value, frozen=True, kw_only=True):
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


def slope_per_hour(points: Sequence[MemoryPoint]) -> float:
    """Median of the slopes of all pairs, MiB an hour; at least two points. O(points squared)."""
    hours = np.array([one.at_ms for one in points]) / 3_600_000
    memory = np.array([one.memory_mib for one in points])
    low, high = np.triu_indices(len(points), k=1)
    return float(np.median((memory[high] - memory[low]) / (hours[high] - hours[low])))


def _rise_of_floor(points: Sequence[MemoryPoint]) -> float:
    """By how much the least use of memory rises: a cache that is emptied in turn has a floor.

    Between the lowest of the first third and of the last, two thirds apart; as of the whole.
    """
    third = len(points) // 3
    first = min(one.memory_mib for one in points[:third])
    last = min(one.memory_mib for one in points[-third:])
    return 1.5 * (last - first)


def judged_leak(points: Sequence[MemoryPoint]) -> TrendJudgement:
    """Whether memory leaks, by points in order of time; MiB an hour. O(points squared)."""
    recent = _recent(points)
    if not _are_enough(recent):
        return UNKNOWN
    found = leak_of(recent)
    if found is None:
        return ABSENT
    return TrendJudgement(
        evidence=TrendEvidence.FOUND,
        since_ms=found.since_ms,
        value=found.mib_per_hour,
        limit=SLOPE_MIN,
        text=f"used memory rises by {found.mib_per_hour:,.0f} MiB an hour, {found.mib:,.0f} MiB"
        f" within {WINDOW_MS // 3_600_000} h, while its use stays; restart the work before its"
        " memory is full",
    )


def _recent(points: Sequence[MemoryPoint]) -> Sequence[MemoryPoint]:
    return [one for one in points if points[-1].at_ms - one.at_ms <= WINDOW_MS]


def _are_enough(recent: Sequence[MemoryPoint]) -> bool:
    if len(recent) < POINTS_MIN:
        return False
    return recent[-1].at_ms - recent[0].at_ms >= WINDOW_MS - POINT_MS


def leak_of(points: Sequence[MemoryPoint]) -> Leak | None:
    """Whether memory leaks, by points in order of time; None if nothing says so."""
    recent = _recent(points)
    if not _are_enough(recent):
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
