"""What goes wrong slowly in a machine, on demand: heat, a leak of memory, an agent that is mute.

Each begins at a time and grows from there by the clock alone, so that a report of use follows
from its time. A reset of the GPU ends all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from shared.core.health.events import HealthEventKind

CELSIUS_PER_MINUTE: Final = 30
THROTTLED_CELSIUS: Final = 90
"""From here on heat holds its clocks down."""
CELSIUS_MAX: Final = 97
"""A board that is hotter switches itself off."""
LEAK_MIB_PER_HOUR: Final = 1_000
"""On a board of 80 GiB that is held whole, what is free lasts eight hours."""
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_FOR_EVER_MS: Final = 1 << 62
SIGNS_OF_HEAT: Final = (
    (HealthEventKind.HOT, 4 * _MINUTE_MS),
    (HealthEventKind.OVERHEATED, 13 * _MINUTE_MS),
)
"""When an agent with the usual thresholds tells of heat: two minutes above 85 C, ten at the
slowdown threshold (core/telemetry/thresholds.py), of a board that was at rest."""


class Disorder(StrEnum):
    """What grows in one GPU."""

    THERMAL = "thermal"
    """Its temperature rises."""
    LEAK = "leak"
    """What is free of its memory falls."""


class Disorders:
    """Those of one machine."""

    def __init__(self) -> None:
        self._since_ms: dict[Disorder, dict[int, int]] = {one: {} for one in Disorder}
        self._mute_until_ms = 0
        self._told: set[tuple[int, HealthEventKind]] = set()

    def begin(self, disorder: Disorder, gpu: int, now_ms: int) -> None:
        """It grows from now on; what grows already goes on."""
        self._since_ms[disorder].setdefault(gpu, now_ms)

    def mute(self, now_ms: int, *, seconds: int) -> None:
        """No use is reported for so long; 0: until a reset."""
        self._mute_until_ms = now_ms + seconds * 1000 if seconds else _FOR_EVER_MS

    def heal(self, gpu: int) -> None:
        """A GPU of the machine was reset: that ends its own disorders, and a mute agent."""
        for since_ms in self._since_ms.values():
            since_ms.pop(gpu, None)
        self._told = {one for one in self._told if one[0] != gpu}
        self._mute_until_ms = 0

    def is_mute(self, now_ms: int) -> bool:
        """Whether no use is reported now."""
        return now_ms < self._mute_until_ms

    def signs(self, now_ms: int) -> Iterator[tuple[int, HealthEventKind]]:
        """Of which GPU its agent tells what now; each once until a reset."""
        for gpu, since_ms in self._since_ms[Disorder.THERMAL].items():
            for kind, after_ms in SIGNS_OF_HEAT:
                if now_ms - since_ms >= after_ms and (gpu, kind) not in self._told:
                    self._told.add((gpu, kind))
                    yield gpu, kind

    def celsius(self, gpu: int, now_ms: int, usual: int) -> int:
        """Its temperature, given what it would be."""
        minutes = self._for_ms(Disorder.THERMAL, gpu, now_ms) / _MINUTE_MS
        return max(usual, min(usual + int(minutes * CELSIUS_PER_MINUTE), CELSIUS_MAX))

    def used_mib(self, gpu: int, now_ms: int, usual: int, memory_mib: int) -> int:
        """How much of its `memory_mib` is used, given what it would be."""
        hours = self._for_ms(Disorder.LEAK, gpu, now_ms) / _HOUR_MS
        return min(usual + int(hours * LEAK_MIB_PER_HOUR), max(memory_mib, usual))

    def _for_ms(self, disorder: Disorder, gpu: int, now_ms: int) -> int:
        since: Mapping[int, int] = self._since_ms[disorder]
        return max(now_ms - since.get(gpu, now_ms), 0)
