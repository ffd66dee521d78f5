"""Replays: transfers that a PCIe link repeats, as a bad contact or riser makes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from shared.core.health.trends import ABSENT, UNKNOWN, TrendEvidence, TrendJudgement
from shared.core.model.value import Value

HOUR_MS: Final = 3_600_000
GROWTH_MAX: Final = 100
"""Replays an hour."""


class ReplayPoint(Value, frozen=True, kw_only=True):
    """The counter of a link, as the median of five minutes."""

    at_ms: int
    count: float


def growth_of(points: Sequence[ReplayPoint]) -> float:
    """By how much the counter grew; one that falls began anew at 0 with its driver. O(points)."""
    return sum(
        after.count - before.count if after.count >= before.count else after.count
        for before, after in pairwise(points)
    )


def judged_replays(points: Sequence[ReplayPoint]) -> TrendJudgement:
    """Whether the counter grows too fast, by points in order of time; replays an hour.

    Too much within less than an hour is too much in any hour with it. O(points).
    """
    recent = [one for one in points if points[-1].at_ms - one.at_ms <= HOUR_MS]
    growth = growth_of(recent)
    if growth <= GROWTH_MAX:
        whole = bool(recent) and recent[-1].at_ms - recent[0].at_ms >= HOUR_MS
        return ABSENT if whole else UNKNOWN
    return TrendJudgement(
        evidence=TrendEvidence.FOUND,
        since_ms=recent[0].at_ms,
        value=growth,
        limit=GROWTH_MAX,
        text=f"its PCIe link repeated {growth:,.0f} transfers within an hour, {GROWTH_MAX} are"
        " allowed; look at its slot, riser and cable",
    )
