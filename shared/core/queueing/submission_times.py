"""Times of submission that keep the order in which a team submits.

Queues go by (priority, time of submission, id), and an id is a hash. Submissions of one
millisecond, such as the documents of a batch, would stand in the order of their ids; so each time
of a team is later than the one before, as in a hybrid logical clock.
"""

from __future__ import annotations

from typing import Final

LEAD_MS_MAX: Final = 1_000
"""How far times may be ahead of the clock: of what comes faster than 1,000 a second for long,
the order is that of the ids."""
TEAMS_MAX: Final = 10_000


class SubmissionTimes:
    """The last time given to each team; bounded, and forgotten with the process."""

    def __init__(self) -> None:
        self._last_ms: dict[str, int] = {}

    def next(self, team: str, now_ms: int) -> int:
        """The time of the next submission of `team`, Unix milliseconds.

        `now_ms`, or one later than the last one, at most `LEAD_MS_MAX` ahead of `now_ms`.
        """
        time_ms = max(now_ms, min(self._last_ms.get(team, 0) + 1, now_ms + LEAD_MS_MAX))
        if len(self._last_ms) >= TEAMS_MAX and team not in self._last_ms:
            self._last_ms.clear()
        self._last_ms[team] = time_ms
        return time_ms
