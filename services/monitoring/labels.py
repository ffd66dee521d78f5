"""Label values stay bounded: what comes after the first N is called "other"."""

from __future__ import annotations

from typing import Final

OTHER: Final = "other"


class Capped:
    """The first `values_max` different values keep their name."""

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._known: set[str] = set()

    def __call__(self, value: str) -> str:
        """The label for `value`. O(1)."""
        if value in self._known:
            return value
        if len(self._known) >= self._values_max:
            return OTHER
        self._known.add(value)
        return value
