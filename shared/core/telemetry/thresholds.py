"""Values of a device over time against thresholds: heat, throttling, links, fans.

An agent tells what was crossed, with the number; what follows from it the ladder says. A sign that
lasts is told once an hour. What a board does not tell crosses nothing.
Thresholds: fault thresholds of Azure's and Meta's node checks, and NVIDIA's for XID-less faults.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from shared.core.health.events import HealthEventKind as Kind
from shared.core.model.value import Value
from shared.core.telemetry.changes import HealthEvent
from shared.core.telemetry.metrics import PREFIX
from shared.core.telemetry.readings import (
    CLOCK_REASONS,
    HEAT_BITS,
    PCIE_REPLAYS,
    TEMPERATURE,
    Answering,
    GpuReading,
    NodeReading,
)

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
IDLE_BIT: Final = 0x1
SLOWDOWN: Final = PREFIX + "DEV_SLOWDOWN_TEMP"
FAN: Final = PREFIX + "DEV_FAN_SPEED"

LINK_ERRORS: Final = tuple(
    f"{PREFIX}DEV_NVLINK_{one}_ERROR_COUNT_TOTAL" for one in ("CRC_FLIT", "CRC_DATA", "REPLAY")
)
LINK_FAILURES: Final = (f"{PREFIX}DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",)


class ThresholdLimits(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is too much; of one kind of board."""

    hot_celsius: int = 85
    margin_celsius: int = 5
    """So near to its slowdown threshold a device is hot, too."""
    hot_ms: int = 2 * MINUTE_MS
    """For how long it is hot before that is told."""
    overheated_ms: int = 10 * MINUTE_MS
    """For how long it is at its slowdown threshold before that is told."""
    throttled_percent: int = 10
    """Of the last ten minutes."""
    throttled_percent_long: int = 50
    """Of the last thirty minutes."""
    replays_per_hour: int = 10_000
    """Growth of a hundred is told as a trend (core/health/replays.py); this is a broken link."""
    fan_celsius: int = 60
    """A fan that stands still is told above it."""


DEFAULT_THRESHOLDS: Final = ThresholdLimits()


class Thresholds:
    """All devices of one node."""

    def __init__(self, limits: ThresholdLimits = DEFAULT_THRESHOLDS) -> None:
        """`limits`: for every device of the node."""
        self._limits = limits
        self._devices: dict[str, _Device] = {}

    def crossed(self, reading: NodeReading) -> Iterator[HealthEvent]:
        """What is to be told after a reading, in order of index. O(GPUs)."""
        for gpu in reading.gpus:
            if gpu.answering is Answering.YES:
                device = self._devices.setdefault(gpu.uuid, _Device(self._limits))
                for kind, code in device.crossed(reading.at_ms, gpu.values):
                    yield _event(gpu, kind, code)


class _Device:
    """One device: since when each sign holds, and what was told when."""

    def __init__(self, limits: ThresholdLimits) -> None:
        self._limits = limits
        self._since_ms: dict[Kind, int] = {}
        self._told_ms: dict[Kind, int] = {}
        self._throttled = _HalfHour()
        self._counters: dict[str, float] = {}
        self._replays: deque[tuple[int, float]] = deque()

    def crossed(self, at_ms: int, values: Mapping[str, float]) -> Iterator[tuple[Kind, int]]:
        for kind, code in self._signs(at_ms, values):
            if at_ms - self._told_ms.get(kind, at_ms - HOUR_MS) >= HOUR_MS:
                self._told_ms[kind] = at_ms
                yield kind, code

    def _signs(self, at_ms: int, values: Mapping[str, float]) -> Iterator[tuple[Kind, int]]:
        yield from self._heat(at_ms, values)
        yield from self._throttling(at_ms, values)
        yield from self._replaying(at_ms, values)
        errors = self._growth(LINK_ERRORS, values)
        failures = self._growth(LINK_FAILURES, values)
        if errors:
            yield Kind.NVLINK_ERRORS, errors
        if failures:
            yield Kind.NVLINK_FAILED, failures

    def _heat(self, at_ms: int, values: Mapping[str, float]) -> Iterator[tuple[Kind, int]]:
        limits, celsius = self._limits, values.get(TEMPERATURE)
        if celsius is None:
            return
        slowdown = values.get(SLOWDOWN) or float("inf")
        hot = celsius > limits.hot_celsius or celsius >= slowdown - limits.margin_celsius
        still = values.get(FAN) == 0 and celsius > limits.fan_celsius
        for kind, holds, for_ms in (
            (Kind.HOT, hot, limits.hot_ms),
            (Kind.OVERHEATED, celsius >= slowdown, limits.overheated_ms),
            (Kind.FAN_STOPPED, still, limits.hot_ms),
        ):
            if self._lasts(kind, at_ms, for_ms, holds=holds):
                yield kind, round(celsius)

    def _lasts(self, kind: Kind, at_ms: int, for_ms: int, *, holds: bool) -> bool:
        if not holds:
            self._since_ms.pop(kind, None)
            return False
        return at_ms - self._since_ms.setdefault(kind, at_ms) >= for_ms

    def _throttling(self, at_ms: int, values: Mapping[str, float]) -> Iterator[tuple[Kind, int]]:
        reasons = values.get(CLOCK_REASONS)
        if reasons is None:
            return
        bits = int(reasons)
        self._throttled.add(at_ms, holds=bool(bits & HEAT_BITS) and not bits & IDLE_BIT)
        for kind, minutes, limit in (
            (Kind.THROTTLED, 10, self._limits.throttled_percent),
            (Kind.THROTTLED_LONG, 30, self._limits.throttled_percent_long),
        ):
            percent = self._throttled.percent(at_ms, minutes)
            if percent is not None and percent > limit:
                yield kind, percent

    def _replaying(self, at_ms: int, values: Mapping[str, float]) -> Iterator[tuple[Kind, int]]:
        count, kept = values.get(PCIE_REPLAYS), self._replays
        if count is None:
            return
        if kept and count < kept[-1][1]:
            kept.clear()
        while len(kept) > 1 and at_ms - kept[0][0] > HOUR_MS:
            kept.popleft()
        if not kept or at_ms - kept[-1][0] >= MINUTE_MS:
            kept.append((at_ms, count))
        growth = round(count - kept[0][1])
        if growth > self._limits.replays_per_hour:
            yield Kind.PCIE_REPLAYS, growth

    def _growth(self, names: tuple[str, ...], values: Mapping[str, float]) -> int:
        """By how much counters grew since they were read last; one that began anew did not."""
        grown = 0.0
        for name in names:
            if name in values:
                before = self._counters.get(name, values[name])
                self._counters[name] = values[name]
                grown += max(0.0, values[name] - before)
        return round(grown)


class _HalfHour:
    """How often something held, of all looks at it, by minutes of the last half hour."""

    MINUTES_MAX: Final = 30

    def __init__(self) -> None:
        self._minutes: deque[list[int]] = deque()
        """[minute, looks, times that it held], the oldest first."""

    def add(self, at_ms: int, *, holds: bool) -> None:
        minute = at_ms // MINUTE_MS
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append([minute, 0, 0])
        while self._minutes[0][0] <= minute - self.MINUTES_MAX:
            self._minutes.popleft()
        self._minutes[-1][1] += 1
        self._minutes[-1][2] += holds

    def percent(self, at_ms: int, minutes: int) -> int | None:
        """Of the looks in so many minutes; None where there were none in some of them."""
        first = at_ms // MINUTE_MS - minutes
        seen = [one for one in self._minutes if one[0] > first]
        if len(seen) < minutes:
            return None
        return 100 * sum(one[2] for one in seen) // sum(one[1] for one in seen)


def _event(gpu: GpuReading, kind: Kind, code: int) -> HealthEvent:
    return HealthEvent(gpu=gpu.index, kind=kind, code=code, uuid=gpu.uuid)
