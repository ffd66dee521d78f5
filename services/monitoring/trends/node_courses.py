"""The courses of the GPUs of a node: what a report of use adds, and when points are made."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Final

from services.monitoring.trends.courses import Course
from shared.core.health.trends import POINT_MS, UNTOLD
from shared.events.nodes import GpuUsageReported

READING_MS_MIN: Final = 5_000
"""Reports that follow sooner are passed over: at most 60 readings make a point."""
INT_MAX: Final = (1 << 31) - 1


class NodeCourses:
    """The GPUs of one node, by index."""

    __slots__ = ("_begin_ms", "_read_ms", "gpus")

    def __init__(self, gpus: int) -> None:
        self.gpus = [Course() for _ in range(gpus)]
        self._begin_ms = 0
        self._read_ms = 0

    def finished(self, at_ms: int) -> int | None:
        """Begin of the five minutes that are over at this time, told once; None: none are."""
        begin_ms, before_ms = at_ms // POINT_MS * POINT_MS, self._begin_ms
        if begin_ms <= before_ms:
            return None
        self._begin_ms = begin_ms
        return before_ms or None

    def add(self, at_ms: int, fact: GpuUsageReported) -> None:
        """Take the readings of a report, unless it follows too soon. O(GPUs)."""
        if at_ms - self._read_ms < READING_MS_MIN:
            return
        self._read_ms = at_ms
        for gpu, reading in enumerate(_readings(fact)):
            if gpu not in fact.unread:
                self.gpus[gpu].add((*reading, gpu in fact.throttled))


def _readings(fact: GpuUsageReported) -> Iterator[tuple[int, ...]]:
    """By GPU, in the order of `PointReadings`, all but the last."""
    return zip(
        fact.memory_used_mib,
        fact.utilization_percent,
        fact.temperature_celsius,
        fact.power_watts,
        fact.sm_clock_mhz or repeat(UNTOLD),
        [min(one, INT_MAX) for one in fact.pcie_replays] or repeat(UNTOLD),
        strict=False,
    )
