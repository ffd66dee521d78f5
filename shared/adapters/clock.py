"""The system's clock, the one place where wall time is read."""

from __future__ import annotations

import time


class SystemClock:
    """`ports.Clock` on the machine's clocks."""

    def now_ms(self) -> int:
        """Unix time in milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic_seconds(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()
