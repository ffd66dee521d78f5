"""Buckets of tokens, one for each team or key, filled as time goes by.

A team that sends without end gets 429 early, and leaves the group commit to the others. Of each
bucket only one moment is kept: until when its tokens are spent (the generic cell rate algorithm,
ITU-T I.371). A moment that lies a burst back is a full bucket, one in the future a debt.
"""

from __future__ import annotations

from typing import Final

NAMES_MAX: Final = 10_000
BURST_SECONDS: Final = 1.0


class Rate:
    """Tokens by name; `per_second` 0 means no limit, a bucket holds those of `burst_seconds`."""

    def __init__(self, per_second: int, burst_seconds: float = BURST_SECONDS) -> None:
        self.per_second = per_second
        self._burst_seconds = burst_seconds
        self._spent_until: dict[str, float] = {}

    def take(self, name: str, now_seconds: float, count: int = 1) -> bool:
        """Whether `count` more are allowed now; takes them if so."""
        if self.wait_seconds(name, now_seconds, count) > 0:
            return False
        self.spend(name, now_seconds, count)
        return True

    def wait_seconds(self, name: str, now_seconds: float, count: int = 1) -> float:
        """How long until `count` tokens, or a full bucket, are there; takes nothing."""
        if not self.per_second:
            return 0.0
        needed_seconds = min(count / self.per_second, self._burst_seconds)
        return max(0.0, self._from(name, now_seconds) + needed_seconds - now_seconds)

    def spend(self, name: str, now_seconds: float, count: int = 1) -> None:
        """Take `count` tokens, though they may not be there yet."""
        if not self.per_second:
            return
        spent_until = self._from(name, now_seconds) + count / self.per_second
        if len(self._spent_until) >= NAMES_MAX and name not in self._spent_until:
            self._spent_until.clear()
        self._spent_until[name] = spent_until

    def _from(self, name: str, now_seconds: float) -> float:
        full = now_seconds - self._burst_seconds
        return max(full, self._spent_until.get(name, full))
