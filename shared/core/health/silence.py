"""When a node counts as silent: its agent is not heard, while those of most others are.

Time is the log's. A break in which nobody is heard is the broker's or the reader's, so all begin
anew after it; and while half of the agents or more are late, none is called silent.
"""

from __future__ import annotations

from typing import Final

from shared.core.model.value import Value

SILENT_MS_MIN: Final = 30_000
SILENT_MS_MAX: Final = 600_000
MISSED_MAX: Final = 3
"""Intervals between reports that may pass without one."""


class HeardNode(Value, frozen=True, kw_only=True):
    """When the agent of a node was heard last, and how long after the time before."""

    at_ms: int
    gap_ms: int = 0

    def heard(self, at_ms: int) -> HeardNode:
        """It is heard again; a gap that was a silence is no interval, but the first one is."""
        gap_ms = at_ms - self.at_ms
        longest_ms = self.limit_ms if self.gap_ms else SILENT_MS_MAX
        return HeardNode(at_ms=at_ms, gap_ms=gap_ms if gap_ms <= longest_ms else self.gap_ms)

    @property
    def limit_ms(self) -> int:
        """For how long it may be silent."""
        return min(max(MISSED_MAX * self.gap_ms, SILENT_MS_MIN), SILENT_MS_MAX)

    def is_late(self, newest_ms: int, since_ms: int) -> bool:
        """Whether it should have been heard by now; `since_ms`: the end of the last break."""
        return newest_ms - max(self.at_ms, since_ms) > self.limit_ms


def may_be_called_silent(late: int, others: int) -> bool:
    """Whether so few are late that it is them; `others` are in time."""
    return late < others


def is_break(before_ms: int, newest_ms: int) -> bool:
    """Whether nobody was heard for so long that it was not the nodes."""
    return newest_ms - before_ms > SILENT_MS_MIN
