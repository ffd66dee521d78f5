"""The open nominations that wait for room: by request class, in order within a class.

Equal requests get the same answer, so each class is tried at its head only and rests after a
refusal, until something frees up that can help it. A strict FIFO queue is one class of unlike
requests: nothing behind its refused head is tried, and it rests only as long as that one is its
head. Sizes are bounded by quota's bound on open nominations (design.md 1).

Who was refused for want of room alone rests by the room that he lacks: all who lack the same are
woken together, and as long as nothing of it comes free nobody asks them. When the turn of one who
was woken so comes and others have taken that room, he rests again without having been tried.

Over all classes that do not rest the order is priority, then the rank of the head (whose share is
smallest now: core/quota/fair_share.py), then age and identity. A rank moves with every placement,
so a class stands in the heap under a key that is not larger than its own and is looked at again
when it comes up: ranks only grow while work is placed. When something was given back, `rewind`
sets all keys back. So nothing is sorted anew, and O(log n) stays true.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

OrderKey = tuple[int, ...]
"""(-priority, submission in Unix milliseconds, ordinal): smaller is earlier."""
Key = tuple[int, tuple[Any, ...], OrderKey, str]
"""-priority, rank, order key, workload id."""


RankOf = Callable[[str], tuple[Any, ...]]


class FreeRoom(Protocol):
    """What is left of the room that resting workloads lack."""

    def is_free(self, lacks: Any) -> bool:  # noqa: ANN401  # what `rest` was given
        """Whether something is left of it."""

    def passes(self, workload_id: str) -> bool:
        """Whether this workload, whose turn it is, finds none in what is left."""


def _no_rank(workload_id: str) -> tuple[Any, ...]:  # noqa: ARG001  # an order without shares
    return ()


@dataclass(slots=True)
class Line:
    """The waiting workloads of one class; `resting` after its head was refused."""

    heap: list[tuple[OrderKey, str]] = field(default_factory=list)
    members: dict[str, OrderKey] = field(default_factory=dict)
    resting: bool = False
    alike: bool = True
    """Whether the refusal of one speaks for all; not so in a strict queue."""
    ticket: int = 0
    """Of its entry among the ready; 0 for none. An entry with another ticket is stale."""
    lacks: Hashable | None = None
    """The room for want of which it was refused, if that room alone can help it."""


class WaitingIndex:
    """Order x request class. O(log n) to add, take and remove."""

    def __init__(self, rank: RankOf = _no_rank, rank_at_least: RankOf = _no_rank) -> None:
        """`rank`: of a workload now; grows only, but for what `rewind` follows.

        `rank_at_least`: no larger than that, and quickly told: the key of who becomes ready.
        """
        self._rank, self._rank_at_least = rank, rank_at_least
        self._lines: dict[Hashable, Line] = {}
        self._resting: dict[Hashable | None, dict[Hashable, Line]] = {None: {}}
        """Those that rest by the room that they lack; None for who is asked one by one."""
        self._class_of: dict[str, Hashable] = {}
        self._ready: list[tuple[Key, int, Hashable]] = []
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
        if not line.resting:
            line.lacks = None  # nobody has told the new one why it waits
        line.members[workload_id] = order_key
        heapq.heappush(line.heap, (order_key, workload_id))
        self._class_of[workload_id] = request_class
        is_head = self._is_head(line, workload_id)
        if is_head and not line.alike:
            self._rouse(request_class, line)
        if not line.resting and (is_head or not line.ticket):
            self._offer(request_class, line)

    def waits(self, request_class: Hashable) -> bool:
        """Whether anybody of this class waits."""
        return request_class in self._lines

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
            self._rouse(request_class, line)
        del line.members[workload_id]
        if not line.members:
            self._rouse(request_class, line)
            del self._lines[request_class]
        elif not line.resting and not (line.ticket and line.alike):
            self._offer(request_class, line)

    def pop(self, free: FreeRoom | None = None) -> str | None:
        """The first workload of all classes that do not rest, removed; None without one.

        Before it others may be let rest again, whose room is taken by what `free` tells.
        """
        line = self._first(free)
        return self._take(line) if line is not None else None

    def first(self) -> str | None:
        """The first workload of all classes that do not rest, where it is; None without one."""
        line = self._first()
        return self._head(line)[1] if line is not None else None

    def _first(self, free: FreeRoom | None = None) -> Line | None:
        """The class whose turn it is; its entry is on top."""
        ready, checked = self._ready, 0
        while ready:
            _, ticket, request_class = ready[0]
            line = self._lines.get(request_class)
            if line is None or line.resting or line.ticket != ticket:
                heapq.heappop(ready)
            elif free and line.lacks is not None and not free.is_free(line.lacks):
                self._let_rest(request_class, line)
            elif checked != ticket and len(ready) > 1:
                heapq.heapreplace(ready, (self._key(line), ticket, request_class))
                checked = ticket
            elif free and line.lacks is not None and free.passes(self._head(line)[1]):
                self._let_rest(request_class, line)
            else:
                return line
        return None

    def rewind(self) -> None:
        """Ranks may have fallen: whoever is ready is ranked anew when he comes up. O(classes)."""
        self._ready = []
        for request_class, line in self._lines.items():
            line.ticket = 0
            if not line.resting:
                self._offer(request_class, line)

    def rest(
        self,
        workload_id: str,
        request_class: Hashable,
        order_key: OrderKey,
        *,
        alike: bool = True,
        lacks: Hashable | None = None,
    ) -> None:
        """Put a refused workload back; its class rests until something wakes it.

        `lacks` names the room without which nothing helps it; None where anything may.
        """
        self.add(workload_id, request_class, order_key, alike=alike)
        line = self._lines[request_class]
        self._rouse(request_class, line)
        line.lacks = lacks
        self._let_rest(request_class, line)

    def wake(self, can_help: Callable[[str], bool], free: FreeRoom | None = None) -> None:
        """Let resting classes be tried again: all that lack a room of which some is free.

        Of the others those for whose head `can_help(workload id)` is true. O(rooms that are
        lacked, others that rest, and who is woken).
        """
        one_by_one = self._resting[None]
        for request_class, line in list(one_by_one.items()):
            if can_help(self._head(line)[1]):
                self._wake(request_class, line)
        for lacks in [one for one in self._resting if one is not None]:
            if free is None or free.is_free(lacks):
                for request_class, line in list(self._resting[lacks].items()):
                    self._wake(request_class, line)

    def wake_class(self, request_class: Hashable) -> None:
        """Let a class be tried again that rests, whatever it lacks."""
        line = self._lines.get(request_class)
        if line is not None and line.resting:
            self._wake(request_class, line)
            line.lacks = None

    def head_at_rest(self, request_class: Hashable) -> str | None:
        """The first workload of a class that rests."""
        line = self._lines.get(request_class)
        return self._head(line)[1] if line is not None and line.resting else None

    def resting_heads(self) -> Iterator[str]:
        """The first workload of each class that rests."""
        for line in self._lines.values():
            if line.resting:
                yield self._head(line)[1]

    def behind(self, request_class: Hashable) -> Iterator[str]:
        """All workloads of a class, in no order."""
        line = self._lines.get(request_class)
        yield from line.members if line else ()

    def _wake(self, request_class: Hashable, line: Line) -> None:
        self._rouse(request_class, line)
        self._offer(request_class, line)

    def _rouse(self, request_class: Hashable, line: Line) -> None:
        """It rests no more."""
        if line.resting:
            line.resting = False
            alike = self._resting[line.lacks]
            del alike[request_class]
            if not alike and line.lacks is not None:
                del self._resting[line.lacks]

    def _let_rest(self, request_class: Hashable, line: Line) -> None:
        line.resting, line.ticket = True, 0
        self._resting.setdefault(line.lacks, {})[request_class] = line

    def _offer(self, request_class: Hashable, line: Line) -> None:
        """Let a class be ready, under a key that is not larger than that of its head."""
        self._tickets += 1
        line.ticket = self._tickets
        order_key, workload_id = self._head(line)
        key = (order_key[0], self._rank_at_least(workload_id), order_key, workload_id)
        heapq.heappush(self._ready, (key, line.ticket, request_class))

    def _take(self, line: Line) -> str:
        """The head of the class that came up, removed; the next of it is ready."""
        heapq.heappop(self._ready)
        line.ticket = 0
        workload_id = self._head(line)[1]
        self.remove(workload_id)
        return workload_id

    def _key(self, line: Line) -> Key:
        order_key, workload_id = self._head(line)
        return order_key[0], self._rank(workload_id), order_key, workload_id

    def _is_head(self, line: Line, workload_id: str) -> bool:
        return self._head(line)[1] == workload_id

    def _head(self, line: Line) -> tuple[OrderKey, str]:
        """The first who waits; a line goes with the last of its members."""
        heap, members = line.heap, line.members
        while members.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0]
