"""The open nominations that wait for room: by request class, in order within a class.

Equal requests get the same answer, so each class is tried at its head only and rests after a
refusal, until something frees up that can help it. Over all classes that do not rest, the
smallest order key goes first. A strict FIFO queue is one class of unlike requests: nothing behind
its refused head is tried, and it rests only as long as that one is its head. Sizes are bounded by
quota's bound on open nominations (design.md 1).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

OrderKey = tuple[int, ...]


@dataclass(slots=True)
class Line:
    """The waiting workloads of one class; `resting` after its head was refused."""

    heap: list[tuple[OrderKey, str]] = field(default_factory=list)
    members: dict[str, OrderKey] = field(default_factory=dict)
    resting: bool = False
    alike: bool = True
    """Whether the refusal of one speaks for all; not so in a strict queue."""


class WaitingIndex:
    """Order key x request class. O(log n) to add, take and remove."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, Line] = {}
        self._class_of: dict[str, Hashable] = {}
        self._ready: list[tuple[OrderKey, str, int, Hashable]] = []
        self._tickets = 0

    def __len__(self) -> int:
        """Workloads that wait."""
        return len(self._class_of)

    def __contains__(self, workload_id: str) -> bool:
        """Whether it waits."""
        return workload_id in self._class_of

    def add(
        self,
        workload_id: str,
        request_class: Hashable,
        order_key: OrderKey,
        *,
        alike: bool = True,
    ) -> None:
        """Let a workload wait; one that waits already is moved."""
        self.remove(workload_id)
        line = self._lines.setdefault(request_class, Line(alike=alike))
        line.members[workload_id] = order_key
        heapq.heappush(line.heap, (order_key, workload_id))
        self._class_of[workload_id] = request_class
        if self._is_head(line, workload_id) and not line.alike:
            line.resting = False
        if not line.resting:
            self._offer(request_class, line)

    def resting(self, request_class: Hashable) -> bool:
        """Whether the class was refused and nothing that could help happened since."""
        line = self._lines.get(request_class)
        return line is not None and line.resting

    def remove(self, workload_id: str) -> None:
        """Forget a workload; nothing happens if it does not wait."""
        request_class = self._class_of.pop(workload_id, None)
        if request_class is None:
            return
        line = self._lines[request_class]
        if self._is_head(line, workload_id) and not line.alike:
            line.resting = False
        del line.members[workload_id]
        if not line.members:
            del self._lines[request_class]
        elif not line.resting:
            self._offer(request_class, line)

    def pop(self) -> str | None:
        """The first workload of all classes that do not rest, removed; None without one."""
        while self._ready:
            order_key, workload_id, _, request_class = heapq.heappop(self._ready)
            line = self._lines.get(request_class)
            if line is None or line.resting or line.members.get(workload_id) != order_key:
                continue
            self.remove(workload_id)
            return workload_id
        return None

    def rest(
        self,
        workload_id: str,
        request_class: Hashable,
        order_key: OrderKey,
        *,
        alike: bool = True,
    ) -> None:
        """Put a refused workload back; its class rests until `wake`."""
        self.add(workload_id, request_class, order_key, alike=alike)
        self._lines[request_class].resting = True

    def wake(self, can_help: Callable[[str], bool]) -> None:
        """Let resting classes be tried again for whose head `can_help(workload id)` is true."""
        for request_class, line in self._lines.items():
            if line.resting and can_help(self._head(line)[1]):
                line.resting = False
                self._offer(request_class, line)

    def behind(self, request_class: Hashable) -> Iterator[str]:
        """All workloads of a class, in no order."""
        line = self._lines.get(request_class)
        yield from line.members if line else ()

    def _offer(self, request_class: Hashable, line: Line) -> None:
        self._tickets += 1
        heapq.heappush(self._ready, (*self._head(line), self._tickets, request_class))

    def _is_head(self, line: Line, workload_id: str) -> bool:
        return self._head(line)[1] == workload_id

    def _head(self, line: Line) -> tuple[OrderKey, str]:
        """The first who waits; a line goes with the last of its members."""
        heap, members = line.heap, line.members
        while members.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0]
