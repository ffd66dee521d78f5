"""Duplicates are removed before a decision: recent ids in memory, older ones by one look-up.

Ids begin with their time. Memory keeps the newest; `horizon_ms` is the time below which ids may
have been forgotten, so only an id older than that needs the inbox (ADR 3).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from shared.events.envelope import time_of_id

RECENT_IDS_MAX: Final = 200_000


class RecentIds:
    """Ids of consumed events, bounded."""

    def __init__(self, ids: Iterable[str] = (), *, complete: bool = True) -> None:
        # Not a dict: to find its first key it steps over every key that was ever taken out.
        self._ids = OrderedDict.fromkeys(ids)
        oldest = next(iter(self._ids), None)
        self.horizon_ms = -1 if complete or oldest is None else time_of_id(oldest)

    def __contains__(self, identifier: str) -> bool:
        """Whether it is known to have been consumed."""
        return identifier in self._ids

    def uncertain(self, identifier: str) -> bool:
        """Whether it may have been consumed and forgotten here."""
        return time_of_id(identifier) <= self.horizon_ms

    def add(self, ids: Iterable[str]) -> None:
        """Remember `ids`, and forget the first ones beyond the bound."""
        self._ids.update(dict.fromkeys(ids))
        while len(self._ids) > RECENT_IDS_MAX:
            oldest, _ = self._ids.popitem(last=False)
            self.horizon_ms = max(self.horizon_ms, time_of_id(oldest))
