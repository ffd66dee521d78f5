"""Memory that leaks on a GPU: medians of what is reported, judged by core/health/trends.py.

Kept in memory alone: after a restart the evidence of six hours begins anew. What is known of a GPU
is forgotten when other work holds it, and the first half hour of work is no evidence.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from services.monitoring.memory import MonitoringMemory
from shared.core.health.trends import (
    POINT_MS,
    WARM_UP_MS,
    WINDOW_MS,
    TrendPoint,
    leak_of,
    point_of,
)
from shared.events.nodes import GpuUsageReported

POINTS_MAX: Final = WINDOW_MS // POINT_MS + 1

Place = tuple[str, int]
"""(node, index of the GPU)."""


class Course:
    """The course of one GPU under the same work: points in arrays, as a fleet has many."""

    __slots__ = ("at_ms", "bin_ms", "from_ms", "holders", "memory", "percent", "samples")

    def __init__(self, holders: tuple[str, ...], from_ms: int) -> None:
        self.holders = holders
        self.from_ms = from_ms
        self.bin_ms = 0
        self.samples: list[tuple[int, int]] = []
        self.at_ms, self.memory, self.percent = array("q"), array("f"), array("f")

    def add(self, at_ms: int, memory_mib: int, percent: int) -> bool:
        """One more sample; whether a point was made of those before it."""
        bin_ms = at_ms // POINT_MS * POINT_MS
        made = bool(self.samples) and bin_ms != self.bin_ms
        if made:
            self._close()
        self.bin_ms = bin_ms
        self.samples.append((memory_mib, percent))
        return made

    def _close(self) -> None:
        point = point_of(self.bin_ms, self.samples)
        self.samples.clear()
        for values, value in (
            (self.at_ms, point.at_ms),
            (self.memory, point.memory_mib),
            (self.percent, point.percent),
        ):
            values.append(value)  # type: ignore[arg-type]
            del values[:-POINTS_MAX]

    def points(self) -> list[TrendPoint]:
        """All that are kept, in order of time."""
        rows = zip(self.at_ms, self.memory, self.percent, strict=True)
        return [TrendPoint(at_ms=at, memory_mib=mib, percent=use) for at, mib, use in rows]


class Trends:
    """The GPUs of one cell that work holds."""

    def __init__(self, memory: MonitoringMemory) -> None:
        self._memory = memory
        self._courses: dict[Place, Course] = {}

    def reported(self, fact: GpuUsageReported, at_ms: int) -> int:
        """How many leaks a report brings to light. O(GPUs and work on the node)."""
        found = 0
        for gpu, holders in self._holders(fact.node, len(fact.utilization_percent)):
            place = fact.node, gpu
            course = self._courses.get(place)
            if not holders or gpu in fact.unread:
                self._forget(place)
                continue
            if course is None or course.holders != holders:
                self._forget(place)
                course = self._courses[place] = Course(holders, at_ms + WARM_UP_MS)
            if at_ms < course.from_ms:
                continue
            memory, use = fact.memory_used_mib[gpu], fact.utilization_percent[gpu]
            if course.add(at_ms, memory, use):
                found += self._judge(place, course)
        return found

    def _judge(self, place: Place, course: Course) -> bool:
        """Whether memory leaks there, and did not before."""
        leak, leaks = leak_of(course.points()), self._memory.leaks
        if leak is None:
            leaks.pop(place, None)
            return False
        known = place in leaks
        leaks[place] = leak.mib_per_hour
        return not known

    def _holders(self, node: str, gpus: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        by_gpu: dict[int, list[str]] = {}
        for workload_id, shares in self._memory.shares.get(node, {}).items():
            for gpu, *_ in shares:
                by_gpu.setdefault(gpu, []).append(workload_id)
        for gpu in range(gpus):
            yield gpu, tuple(by_gpu.get(gpu, ()))

    def _forget(self, place: Place) -> None:
        if self._courses.pop(place, None) is not None:
            self._memory.leaks.pop(place, None)
