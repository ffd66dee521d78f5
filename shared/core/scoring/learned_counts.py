"""What is asked for, learned from the requests themselves, in bounded counters.

Each request counts once for each of its pods; a class that is refused again and again counts once
until one of it is placed, so that retries do not look like demand. Old requests fade: when the
sum reaches `TOTAL_MAX` every counter is halved. Nothing is learned from a trace as a whole (ADR
14).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

TOTAL_MAX: Final = 16_384
"""Pods remembered at most; then the older ones weigh half."""
CLASSES_MAX: Final = 512
"""Classes told apart at most; the rarest are forgotten first."""
REFRESH_MAX: Final = 4096
"""Pods after which the counts in force are replaced at the latest."""

Class = TypeVar("Class", bound=Hashable)


class LearnedCounts(Generic[Class]):
    """Counters by class. `version` changes when those in force do."""

    def __init__(self, learned_min: int) -> None:
        """`learned_min` pods must have been asked for before there is anything to go by."""
        self.counts: dict[Class, int] = {}
        self.version = 0
        """0 while nothing is known."""
        self._total = 0
        self._noted = 0
        self._refresh_at = learned_min
        self._refused: set[Class] = set()

    def note(self, asked: Class, pods: int, *, placed: bool) -> bool:
        """Count what one request asks for; false if it was refused before and so is counted."""
        if placed:
            self._refused.discard(asked)
        elif asked in self._refused:
            return False
        elif len(self._refused) < CLASSES_MAX:
            self._refused.add(asked)
        self._count(asked, pods)
        return True

    def _count(self, asked: Class, pods: int) -> None:
        self.counts[asked] = self.counts.get(asked, 0) + pods
        self._total += pods
        self._noted += pods
        if self._total >= TOTAL_MAX or len(self.counts) > CLASSES_MAX:
            self._fade()
        if self._noted >= self._refresh_at:
            self._refresh_at = self._noted + min(self._noted, REFRESH_MAX)
            self.version += 1

    def _fade(self) -> None:
        self.counts = {each: count // 2 for each, count in self.counts.items() if count > 1}
        if len(self.counts) > CLASSES_MAX // 2:
            kept = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
            self.counts = dict(kept[: CLASSES_MAX // 2])
        self._total = sum(self.counts.values())
