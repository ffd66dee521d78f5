"""Gangs that wait for nodes; equal ones are one entry, so a look at them is short (ADR 108)."""

from __future__ import annotations

from collections import Counter
from heapq import nsmallest

from shared.core.needed_nodes import WaitingGang

Kind = tuple[int, WaitingGang]
"""(priority, what it asks for)"""


class GangsWithoutRoom:
    """Of equal gangs of a priority, how many wait since when."""

    def __init__(self) -> None:
        self._since: dict[Kind, Counter[int]] = {}

    def __len__(self) -> int:
        """Unequal gangs."""
        return len(self._since)

    def count(self, priority: int, wanted: WaitingGang, since_ms: int, sign: int) -> None:
        """Add one that waits since then, or take it out. O(1)."""
        kind = (priority, wanted)
        since = self._since.setdefault(kind, Counter())
        since[since_ms] += sign
        if not since[since_ms]:
            del since[since_ms]
            if not since:
                del self._since[kind]

    def first(self, most: int) -> list[tuple[WaitingGang, int]]:
        """The most urgent, each with how many wait: by priority, then by the longest wait.

        O(entries).
        """
        entries = nsmallest(
            most, self._since.items(), key=lambda entry: (-entry[0][0], min(entry[1]))
        )
        return [(wanted, since.total()) for (_, wanted), since in entries]
