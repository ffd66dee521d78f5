"""Names about which something is to be told, all together and seldom."""

from __future__ import annotations

from collections.abc import Iterable


class Untold:
    """Names in the order in which they came; told once in `interval_ms` at most."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._names: dict[str, None] = {}
        self._told_at_ms = 0

    def add(self, names: Iterable[str]) -> None:
        """There is something to tell about them."""
        self._names.update(dict.fromkeys(names))

    def due_ms(self) -> int | None:
        """When the next are to be told; None for no one."""
        return self._told_at_ms + self._interval_ms if self._names else None

    def take(self, now_ms: int) -> list[str]:
        """All that are to be told now; nothing is left to tell."""
        names, self._names = list(self._names), {}
        self._told_at_ms = now_ms
        return names
