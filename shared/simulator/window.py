"""The events a watch can still start from: dense versions, the oldest ones dropped.

Event number `version` is what `resource_version` counts, so a place in the window is found by
subtraction. A client that asks for events that are gone must list again (410); of a version not
reached yet nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class EventWindow(Generic[T]):
    """The last `capacity` to 2 x `capacity` events after `version`."""

    def __init__(self, version: int, capacity: int) -> None:
        self.version = version
        """Version of the newest event."""
        self._capacity = capacity
        self._events: list[T] = []

    def extend(self, events: Iterable[T]) -> None:
        """Add events, each one version above the one before it. Amortised O(1) each."""
        before = len(self._events)
        self._events.extend(events)
        self.version += len(self._events) - before
        if len(self._events) >= 2 * self._capacity:
            del self._events[: -self._capacity]

    def since(self, version: int, count_max: int) -> list[T] | None:
        """At most `count_max` events after `version`; None when they are gone."""
        first = self.version - len(self._events)
        if version < first:
            return None
        start = version - first
        return self._events[start : start + count_max]
