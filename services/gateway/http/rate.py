"""How many submissions a team may make: a bucket of tokens for each, filled as time goes by.

One team that sends without end gets 429 early, and leaves the group commit to the others.
"""

from __future__ import annotations

from typing import Final

TEAMS_MAX: Final = 10_000
BURST_SECONDS: Final = 1.0


class Rate:
    """Tokens by team; `per_second` 0 means no limit."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, team: str, now_seconds: float, count: int = 1) -> bool:
        """Whether `count` more are allowed now; takes them if so."""
        if not self._per_second:
            return True
        most = self._per_second * BURST_SECONDS
        tokens, at_seconds = self._buckets.get(team, (most, now_seconds))
        tokens = min(most, tokens + (now_seconds - at_seconds) * self._per_second)
        allowed = tokens >= min(count, most)
        if len(self._buckets) >= TEAMS_MAX and team not in self._buckets:
            self._buckets.clear()
        self._buckets[team] = (tokens - count if allowed else tokens, now_seconds)
        return allowed
