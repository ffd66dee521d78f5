"""The course of one GPU: readings of the present five minutes, and points of those before.

Arrays, as a fleet has many: about 4 kB a GPU. After a restart all begins anew, the past of seven
days included (shared/core/health/heat.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from math import isnan, nan
from typing import Any, Final

import numpy as np

from shared.core.health import heat, leak, replays, straggler
from shared.core.health.heat import HeatPoint, degrees_above
from shared.core.health.leak import MemoryPoint
from shared.core.health.replays import ReplayPoint
from shared.core.health.trends import POINT_MS, UNTOLD, DevicePoint, PointReadings, point_of

FIELDS: Final = len(PointReadings._fields)
SHORT_MAX: Final = (1 << 15) - 1
CLOCKS: Final = straggler.POINTS + 1
"""One more than are judged, as the nodes of a gang make their points one after the other."""
_LEAK: Final = leak.WINDOW_MS // POINT_MS + 1
KEPT: Final = {
    "at_ms": ("q", _LEAK),
    "memory_mib": ("f", _LEAK),
    "percent": ("f", _LEAK),
    "replays": ("d", replays.HOUR_MS // POINT_MS + 1),
    "celsius": ("f", heat.RECENT_POINTS),
    "watts": ("f", heat.RECENT_POINTS),
    "above": ("f", heat.RECENT_POINTS),
    "sm_mhz": ("f", CLOCKS),
    "throttled": ("f", CLOCKS),
}
"""By column of the points: its type, and how many of the last are kept."""


class Course:
    """One GPU; its points are in order of time."""

    __slots__ = (
        "_columns",
        "_past_celsius",
        "_past_ms",
        "_past_watts",
        "_readings",
        "from_ms",
        "work",
    )

    def __init__(self) -> None:
        self.work: tuple[str, ...] = ()
        """Ids of the workloads that hold it, in order."""
        self.from_ms = 0
        """Memory is evidence of a leak from here on."""
        self._readings = array("i")
        self._columns: dict[str, array[Any]] = {
            name: array(kind) for name, (kind, _) in KEPT.items()
        }
        self._past_celsius, self._past_watts, self._past_ms = array("h"), array("h"), 0

    def held_by(self, work: tuple[str, ...], at_ms: int) -> None:
        """Who holds it from now on; what it takes of memory is no evidence before it is warm."""
        if work != self.work:
            self.work, self.from_ms = work, at_ms + leak.WARM_UP_MS

    def add(self, reading: Iterable[int]) -> None:
        """One more reading, in the order of `PointReadings`."""
        self._readings.extend(reading)

    def close(self, at_ms: int, *, is_hot: bool) -> bool:
        """Make a point of the readings; false if there are none. O(readings + past points)."""
        if not self._readings:
            return False
        point = point_of(
            at_ms, PointReadings(*(self._readings[at::FIELDS] for at in range(FIELDS)))
        )
        del self._readings[:]
        above = self._above(point)
        for name, (_, count) in KEPT.items():
            column = self._columns[name]
            column.append(getattr(point, name, above))
            del column[:-count]
        if not is_hot:
            self._remember(point)
        return True

    def _above(self, point: DevicePoint) -> float:
        if len(self._past_celsius) < heat.PAST_POINTS_MIN or not _tells_heat(point):
            return nan
        celsius = np.frombuffer(self._past_celsius, dtype=np.int16)
        watts = np.frombuffer(self._past_watts, dtype=np.int16)
        above = degrees_above(point.celsius, point.watts, celsius, watts)
        return nan if above is None else above

    def _remember(self, point: DevicePoint) -> None:
        """One point of half an hour belongs to the past that others are compared with."""
        if point.at_ms - self._past_ms < heat.PAST_MS or not _tells_heat(point):
            return
        self._past_ms = point.at_ms
        self._past_celsius.append(round(point.celsius))
        self._past_watts.append(min(round(point.watts), SHORT_MAX))
        del self._past_celsius[: -heat.PAST_POINTS_MAX]
        del self._past_watts[: -heat.PAST_POINTS_MAX]

    def memory_points(self) -> list[MemoryPoint]:
        """Those of the work that holds it now."""
        return [
            MemoryPoint(at_ms=at, memory_mib=mib, percent=use)
            for at, mib, use in self._rows("memory_mib", "percent")
            if at >= self.from_ms
        ]

    def heat_points(self) -> list[HeatPoint]:
        """Those of the last half hour that are told."""
        return [
            HeatPoint(
                at_ms=at, celsius=celsius, watts=watts, above=None if isnan(above) else above
            )
            for at, celsius, watts, above in self._rows("celsius", "watts", "above")
            if celsius != UNTOLD
        ]

    def replay_points(self) -> list[ReplayPoint]:
        """Those of the last hour that are told."""
        rows = self._rows("replays")
        return [ReplayPoint(at_ms=at, count=count) for at, count in rows if count != UNTOLD]

    def clocks(self, since_ms: int) -> list[tuple[float, ...]]:
        """(MHz, per cent, throttled part) of the points from `since_ms`; [] if one is missing."""
        rows = {at: tuple(row) for at, *row in self._rows("sm_mhz", "percent", "throttled")}
        times = range(since_ms, since_ms + straggler.POINTS * POINT_MS, POINT_MS)
        return [rows[at] for at in times] if all(at in rows for at in times) else []

    def _rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Time and columns of as many points as the first column has."""
        count = len(self._columns[names[0]])
        columns = [self._columns[name][-count:] for name in ("at_ms", *names)]
        return zip(*columns, strict=True)


def _tells_heat(point: DevicePoint) -> bool:
    return UNTOLD not in (point.celsius, point.watts)
