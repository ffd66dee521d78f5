"""Straggler: the device for which its gang waits, as it is slower or throttled alone.

GPU_UTIL says nothing here, as waiting in a collective reads 100 %; so clocks are compared.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.health.trends import ABSENT, POINT_MS, UNKNOWN, TrendEvidence, TrendJudgement

CLOCK_PART: Final = 0.9
"""Of the median clock of the gang."""
BUSY_PERCENT_MIN: Final = 80.0
THROTTLED_PART_MIN: Final = 0.5
"""Of the readings of a point."""
POINTS: Final = 2
"""Ten minutes."""
COMPARED_MIN: Final = 2
"""Members of a gang that can be compared."""

SLOW: Final = "slower than its gang"
ALONE: Final = "alone in its gang held down by heat or hardware"

Table = NDArray[np.float64]
"""Shape (members of the gang, POINTS), the oldest point first."""
Mask = NDArray[np.bool_]
"""Shape (members of the gang,)."""


def judged_gang(
    since_ms: int, *, sm_mhz: Table, percent: Table, throttled: Table
) -> list[TrendJudgement]:
    """What is said of each member of a gang; MHz. O(members log members).

    `percent` is UNTOLD where a point is missing, `sm_mhz` where the driver does not tell it;
    `throttled` is the part of the readings, 0 to 1.
    """
    known: Mask = np.all(percent >= 0, axis=1)
    clocks = _clocks_of_gang(sm_mhz, percent)
    slow: Mask = np.all(_busy(sm_mhz, percent) & (sm_mhz < CLOCK_PART * clocks), axis=1)
    held = throttled >= THROTTLED_PART_MIN
    alone: Mask = np.all(held, axis=1) & (np.any(held, axis=1).sum() == 1)
    if known.sum() < COMPARED_MIN:
        return [UNKNOWN] * len(known)
    found = []
    for at, (mhz, *_) in enumerate(sm_mhz[:, ::-1]):
        words = SLOW if slow[at] else ALONE if alone[at] else ""
        judgement = _straggles(since_ms, words, (mhz, clocks[-1]), len(known)) if words else ABSENT
        found.append(judgement if known[at] else UNKNOWN)
    return found


def _busy(sm_mhz: Table, percent: Table) -> NDArray[np.bool_]:
    """Members that can be compared, by point."""
    return (percent >= BUSY_PERCENT_MIN) & (sm_mhz >= 0)


def _clocks_of_gang(sm_mhz: Table, percent: Table) -> Table:
    """Median clock by point, shape (POINTS,); 0, which no clock is below, of too few members."""
    busy = _busy(sm_mhz, percent)
    columns = (sm_mhz[busy[:, at], at] for at in range(sm_mhz.shape[1]))
    return np.array([np.median(one) if len(one) >= COMPARED_MIN else 0.0 for one in columns])


def _straggles(
    since_ms: int, words: str, clocks: tuple[float, float], members: int
) -> TrendJudgement:
    """`clocks` are the last of the member and of the gang."""
    mhz, gang_mhz = map(float, clocks)
    return TrendJudgement(
        evidence=TrendEvidence.FOUND,
        since_ms=since_ms,
        value=max(mhz, 0.0),
        limit=CLOCK_PART * gang_mhz,
        text=f"{words} for {POINTS * POINT_MS // 60_000} min, at {mhz:,.0f} MHz and the median of"
        f" the gang at {gang_mhz:,.0f} MHz; all {members} GPUs of the gang wait for it, look at"
        " its cooling and power",
    )
