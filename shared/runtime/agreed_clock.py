"""The process's clock, held against the database's: what is decided and charged has one time.

Each renewal of the lease tells the database's time. Between two renewals the monotonic clock says
what time it must be, so a step of the wall clock is seen at once and not with the next renewal.
"""

from __future__ import annotations

from typing import Final

from shared.ports.clock import Clock
from shared.ports.errors import ClockStepped

OFF_MS_MAX: Final = 5_000
"""Clocks that are further apart do not agree."""
ROUND_TRIP_SECONDS_MAX: Final = 2.0
"""An answer that took longer does not say well enough when it was made."""


class AgreedClock:
    """See the module. Before the first answer of the database it agrees."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._database_ms = 0
        """The database's time ..."""
        self._told_at: float | None = None
        """... and when it was told, in monotonic seconds; None: not yet."""

    def told(self, database_ms: int, asked_at: float) -> None:
        """The answer to a question that was asked at `asked_at`, in monotonic seconds.

        The answer was made somewhere between the question and now: the middle is taken. One that
        took longer than `ROUND_TRIP_SECONDS_MAX` is passed over.
        """
        now = self._clock.monotonic_seconds()
        if now - asked_at > ROUND_TRIP_SECONDS_MAX:
            return
        self._database_ms, self._told_at = database_ms, (asked_at + now) / 2

    @property
    def off_ms(self) -> int:
        """By how much this clock is ahead of the database's; negative: behind."""
        if self._told_at is None:
            return 0
        since_ms = (self._clock.monotonic_seconds() - self._told_at) * 1000
        return self._clock.now_ms() - self._database_ms - round(since_ms)

    @property
    def agrees(self) -> bool:
        """Whether the two are at most `OFF_MS_MAX` apart."""
        return abs(self.off_ms) <= OFF_MS_MAX

    def now_ms(self) -> int:
        """Unix time in milliseconds, for a decision.

        Raises:
            ClockStepped: The two clocks do not agree.
        """
        if not self.agrees:
            raise ClockStepped(self.message)
        return self._clock.now_ms()

    @property
    def message(self) -> str:
        """How far they are apart, and what to do."""
        off_ms = self.off_ms
        side = "ahead of" if off_ms > 0 else "behind"
        return (
            f"the clock of this machine is {abs(off_ms) / 1000:.1f} s {side} the database's;"
            f" nothing is decided until they are within {OFF_MS_MAX // 1000} s: look at the time"
            " service (chronyc tracking, timedatectl) of both machines"
        )
