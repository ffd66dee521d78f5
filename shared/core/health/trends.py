"""Slow changes of devices that end badly: what they are called, and how one is judged.

Medians of five minutes are the points, as single readings jump. Four judges look at them: leak.py,
heat.py, replays.py and straggler.py. A trend is told and never acted on: placement ignores it.

Source: thresholds of the project's own (ADR 88); none of them is a standard.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import median
from typing import Final, NamedTuple

from shared.core.model.value import Value

POINT_MS: Final = 300_000
"""So long readings are gathered for one point."""
UNTOLD: Final = -1
"""In place of a reading that the driver does not tell."""


class Trend(StrEnum):
    """A slow change of a device."""

    LEAK = "leak"
    """Used memory rises while use does not; MiB an hour."""
    HEAT = "heat"
    """Hotter than its median of seven days at equal power; degrees Celsius above it."""
    REPLAY = "replay"
    """Transfers are repeated on its PCIe link; replays an hour."""
    STRAGGLER = "straggler"
    """Slower than its gang, or throttled alone in it; clock in MHz."""


class TrendEvidence(StrEnum):
    """Whether a trend is there."""

    UNKNOWN = "unknown"
    """There is too little to tell."""
    ABSENT = "absent"
    FOUND = "found"


class TrendJudgement(Value, frozen=True, kw_only=True):
    """What the points of a device say of one trend; amounts are in the unit of the trend."""

    evidence: TrendEvidence
    since_ms: int = 0
    """Begin of the evidence, Unix milliseconds."""
    value: float = 0.0
    limit: float = 0.0
    """Beyond this it is one."""
    text: str = ""
    """What is found, with numbers, and what to do next."""

    def sentence(self, node: str, gpu: int) -> str:
        """For people: of which device it is said."""
        return f"GPU {gpu} of node {node}: {self.text}"


UNKNOWN: Final = TrendJudgement(evidence=TrendEvidence.UNKNOWN)
ABSENT: Final = TrendJudgement(evidence=TrendEvidence.ABSENT)


class PointReadings(NamedTuple):
    """PointReadings of one device within one point's time: a column each, all of one length."""

    memory_mib: Sequence[int]
    percent: Sequence[int]
    celsius: Sequence[int]
    """0 and less is not told."""
    watts: Sequence[int]
    """0 and less is not told."""
    sm_mhz: Sequence[int]
    """UNTOLD where it is not."""
    replays: Sequence[int]
    """UNTOLD where they are not."""
    throttled: Sequence[int]
    """1 while clocks are held down by heat or hardware, else 0."""


class DevicePoint(Value, frozen=True, kw_only=True):
    """Medians of the readings of five minutes; UNTOLD where none was told."""

    at_ms: int
    """Begin of the five minutes, Unix milliseconds."""
    memory_mib: float
    percent: float
    celsius: float
    watts: float
    sm_mhz: float
    replays: float
    throttled: float
    """Part of the readings in which it was, 0 to 1."""


def point_of(at_ms: int, readings: PointReadings) -> DevicePoint:
    """The point of some readings; at least one. O(readings log readings)."""
    return DevicePoint(
        at_ms=at_ms,
        memory_mib=median(readings.memory_mib),
        percent=median(readings.percent),
        celsius=_median_from(readings.celsius, 1),
        watts=_median_from(readings.watts, 1),
        sm_mhz=_median_from(readings.sm_mhz, 0),
        replays=_median_from(readings.replays, 0),
        throttled=sum(readings.throttled) / len(readings.throttled),
    )


def _median_from(values: Sequence[int], least: int) -> float:
    """Median of those that are told: from `least` on."""
    told = [one for one in values if one >= least]
    return median(told) if told else UNTOLD
