"""What waits for others to be evicted: by class of equal requests, in order, each when it is due.

Equals get the same answer, so only the first of a class is looked at; after a no the class rests,
longer each time, until a victim's protection ends or one of it is refused anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

REST_MS: Final = 500
REST_MS_MAX: Final = 8_000
MOVES_REST_MS: Final = 60_000

OrderKey = tuple[int, ...]


@dataclass(slots=True)
class PreemptorClass:
    """One class; `due_ms` is when its first may be looked at again."""

    heap: list[tuple[OrderKey, str]] = field(default_factory=list)
    members: dict[str, OrderKey] = field(default_factory=dict)
    due_ms: int = 0
    moves_due_ms: int = 0
    """When moves may be looked for again for its first."""
    rests: int = 0

    def head(self) -> tuple[OrderKey, str]:
        """The first; a line goes with the last of its members."""
        while self.members.get(self.heap[0][1]) != self.heap[0][0]:
            heapq.heappop(self.heap)
        return self.heap[0]


class PreemptorClasses:
    """All that wait. Adding and removing O(log n), choosing O(classes)."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, PreemptorClass] = {}
        self._class_of: dict[str, Hashable] = {}

    def __len__(self) -> int:
        return len(self._class_of)

    def __contains__(self, workload_id: str) -> bool:
        return workload_id in self._class_of

    def add(self, workload_id: str, request_class: Hashable, order_key: OrderKey) -> None:
        """Let a workload wait; one that waits already is moved."""
        self.remove(workload_id)
        line = self._lines.setdefault(request_class, PreemptorClass())
        line.members[workload_id] = order_key
        heapq.heappush(line.heap, (order_key, workload_id))
        self._class_of[workload_id] = request_class

    def remove(self, workload_id: str) -> None:
        """Let it wait no more; nothing happens if it does not."""
        request_class = self._class_of.pop(workload_id, None)
        if request_class is not None:
            line = self._lines[request_class]
            del line.members[workload_id]
            if not line.members:
                del self._lines[request_class]

    def wake(self, request_class: Hashable) -> None:
        """One of the class has got its room: the next may be looked at again."""
        line = self._lines.get(request_class)
        if line is not None:
            line.rests = line.due_ms = 0

    def all_due(self) -> None:
        """What has changed may help any class."""
        for line in self._lines.values():
            line.due_ms = 0

    def equals(self, workload_id: str, most: int) -> list[str]:
        """The first `most` of its class, in order."""
        line = self._lines[self._class_of[workload_id]]
        keys = heapq.nsmallest(most, ((key, name) for name, key in line.members.items()))
        return [name for _, name in keys]

    def due_ms(self) -> int | None:
        """When the next class is due; None if nothing waits."""
        return min((line.due_ms for line in self._lines.values()), default=None)

    def first(self, now_ms: int) -> str | None:
        """The first of all classes that are due; None without one."""
        due = (line.head() for line in self._lines.values() if line.due_ms <= now_ms)
        _, workload_id = min(due, default=((), None))
        return workload_id

    def has_rested(self, workload_id: str) -> bool:
        """Whether its class was refused already, and none of it found room since."""
        return self._lines[self._class_of[workload_id]].rests > 0

    def takes_moves(self, workload_id: str, now_ms: int) -> bool:
        """Whether moves are looked for now for its class; then not again for a minute."""
        line = self._lines[self._class_of[workload_id]]
        if line.moves_due_ms > now_ms:
            return False
        line.moves_due_ms = now_ms + MOVES_REST_MS
        return True

    def rest(self, workload_id: str, now_ms: int, retry_at_ms: int = 0) -> None:
        """Its class got a no; `retry_at_ms` is when time alone may change that."""
        line = self._lines[self._class_of[workload_id]]
        pause_ms = min(REST_MS << min(line.rests, 10), REST_MS_MAX)
        line.rests += 1
        line.due_ms = now_ms + pause_ms
        if retry_at_ms > now_ms:
            line.due_ms = min(line.due_ms, retry_at_ms)
