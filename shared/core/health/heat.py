"""Heat: a device is hotter than it was at equal power, so its cooling is worse.

Each point is compared with the median of the device's own past at about the same power: a busy GPU
is hotter than an idle one, and no two places in a rack are alike. The past is thinned to a point
in half an hour, seven days of them, and none is added while the device is hot: so heat that stays
does not become the measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from shared.core.health.trends import ABSENT, POINT_MS, UNKNOWN, TrendEvidence, TrendJudgement
from shared.core.model.value import Value

CELSIUS_MAX: Final = 8.0
"""Degrees above the median of the past."""
PAST_MS: Final = 1_800_000
"""Of so long one point becomes part of the past."""
PAST_POINTS_MAX: Final = 336
"""Seven days."""
PAST_POINTS_MIN: Final = 30
"""At equal power; with fewer nothing is said."""
RECENT_POINTS: Final = 6
"""Half an hour: at a change of power temperature lags behind for a point or two."""
COMPARED_MIN: Final = 4
"""Recent points that must have a past."""
EQUAL_WATTS: Final = 20.0
EQUAL_PART: Final = 0.05
"""Power is equal within this part of it, or within EQUAL_WATTS if that is more."""


class HeatPoint(Value, frozen=True, kw_only=True):
    """Medians of five minutes, compared with the past."""

    at_ms: int
    celsius: float
    watts: float
    above: float | None
    """Degrees above the past at equal power; None: there is too little of it."""


def degrees_above(
    celsius: float, watts: float, past_celsius: NDArray[np.int16], past_watts: NDArray[np.int16]
) -> float | None:
    """How much hotter than the median of the past at equal power; None: too little is known.

    Both arrays have the shape (points of the past,). O(points log points).
    """
    tolerance = max(EQUAL_WATTS, EQUAL_PART * watts)
    equal = np.sort(past_celsius[np.abs(past_watts - float(watts)) <= tolerance])
    if len(equal) < PAST_POINTS_MIN:
        return None
    return celsius - float(equal[len(equal) // 2])


def judged_heat(points: Sequence[HeatPoint]) -> TrendJudgement:
    """Whether a device is too hot, by its last points in order of time; degrees Celsius. O(1)."""
    recent = [one for one in points if points[-1].at_ms - one.at_ms < RECENT_POINTS * POINT_MS]
    above = [one.above for one in recent if one.above is not None]
    if len(recent) < RECENT_POINTS or len(above) < COMPARED_MIN:
        return UNKNOWN
    middle = median(above)
    if middle <= CELSIUS_MAX:
        return ABSENT
    last = recent[-1]
    return TrendJudgement(
        evidence=TrendEvidence.FOUND,
        since_ms=recent[0].at_ms,
        value=middle,
        limit=CELSIUS_MAX,
        text=f"{middle:.0f} C hotter than its median of 7 days at equal power"
        f" ({last.celsius:.0f} C at {last.watts:.0f} W now, {CELSIUS_MAX:.0f} C more are allowed);"
        " look at its cooling",
    )
