"""Time comes in through this port; the core gets it as an argument."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall time for facts, monotonic time for durations."""

    def now_ms(self) -> int:
        """Unix time in milliseconds."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...
