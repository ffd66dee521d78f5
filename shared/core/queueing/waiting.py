"""The open nominations that wait for room: by request class, in order within a class.

Equal requests get the same answer, so each class is tried at its head only and is inadmissible
after a refusal, until something is released that can help it (Kueue: inadmissible workloads). A
strict FIFO queue is one class of unlike requests: nothing behind its refused head is tried, and it
stays inadmissible only as long as that one is its head. Sizes are bounded by quota's bound on open
nominations (ADR 22).

A class that was refused for want of room alone is inadmissible by the room that it lacks: all that
lack the same are requeued together, and as long as nothing of it is released none of them is
asked. When the turn of such a class comes and others have taken that room, it is set aside again
without having been tried.

Over all admissible classes the order is priority, then the rank of the head (the smallest
share now: core/quota/fair_share.py), then age and identity. A rank moves with every placement,
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
    """What is left of the room that inadmissible classes lack."""

    def is_free(self, lacks: Any) -> bool:  # noqa: ANN401  # what `make_inadmissible` was given
        """Whether something is left of it."""

    def passes(self, workload_id: str) -> bool:
        """Whether this workload, the next in order, finds none in what is left."""


def _no_rank(workload_id: str) -> tuple[Any, ...]:  # noqa: ARG001  # an order without shares
    return ()


@dataclass(slots=True)
class RequestClass:
    """The waiting workloads of one class; `inadmissible` after its head was refused."""

    heap: list[tuple[OrderKey, str]] = field(default_factory=list)
    members: dict[str, OrderKey] = field(default_factory=dict)
    inadmissible: bool = False
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

        `rank_at_least`: no larger than that, and quickly told: the key of what becomes ready.
        """
        self._rank, self._rank_at_least = rank, rank_at_least
        self._classes: dict[Hashable, RequestClass] = {}
        self._inadmissible: dict[Hashable | None, dict[Hashable, RequestClass]] = {None: {}}
        """By the room that they lack; None for those that are asked one by one."""
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
        waiting = self._classes.setdefault(request_class, RequestClass(alike=alike))
        if not waiting.inadmissible:
            waiting.lacks = None  # the new one was not told why it waits
        waiting.members[workload_id] = order_key
        heapq.heappush(waiting.heap, (order_key, workload_id))
        self._class_of[workload_id] = request_class
        is_head = self._is_head(waiting, workload_id)
        if is_head and not waiting.alike:
            self._admit(request_class, waiting)
        if not waiting.inadmissible and (is_head or not waiting.ticket):
            self._offer(request_class, waiting)

    def waits(self, request_class: Hashable) -> bool:
        """Whether any workload of this class waits."""
        return request_class in self._classes

    def is_inadmissible(self, request_class: Hashable) -> bool:
        """Whether the class was refused and nothing that could help happened since."""
        waiting = self._classes.get(request_class)
        return waiting is not None and waiting.inadmissible

    def remove(self, workload_id: str) -> None:
        """Forget a workload; nothing happens if it does not wait."""
        request_class = self._class_of.pop(workload_id, None)
        if request_class is None:
            return
        waiting = self._classes[request_class]
        if self._is_head(waiting, workload_id) and not waiting.alike:
            self._admit(request_class, waiting)
        del waiting.members[workload_id]
        if not waiting.members:
            self._admit(request_class, waiting)
            del self._classes[request_class]
        elif not waiting.inadmissible and not (waiting.ticket and waiting.alike):
            self._offer(request_class, waiting)

    def pop(self, free: FreeRoom | None = None) -> str | None:
        """The first workload of all admissible classes, removed; None without one.

        Classes before it are set aside again where `free` tells that their room is taken.
        """
        waiting = self._first(free)
        return self._take(waiting) if waiting is not None else None

    def first(self) -> str | None:
        """The first workload of all admissible classes, where it is; None without one."""
        waiting = self._first()
        return self._head(waiting)[1] if waiting is not None else None

    def _first(self, free: FreeRoom | None = None) -> RequestClass | None:
        """The class that is next in order; its entry is on top."""
        ready, checked = self._ready, 0
        while ready:
            _, ticket, request_class = ready[0]
            waiting = self._classes.get(request_class)
            if waiting is None or waiting.inadmissible or waiting.ticket != ticket:
                heapq.heappop(ready)
            elif free and waiting.lacks is not None and not free.is_free(waiting.lacks):
                self._set_aside(request_class, waiting)
            elif checked != ticket and len(ready) > 1:
                heapq.heapreplace(ready, (self._key(waiting), ticket, request_class))
                checked = ticket
            elif free and waiting.lacks is not None and free.passes(self._head(waiting)[1]):
                self._set_aside(request_class, waiting)
            else:
                return waiting
        return None

    def rewind(self) -> None:
        """Ranks may have fallen: what is ready is ranked anew when it comes up. O(classes)."""
        self._ready = []
        for request_class, waiting in self._classes.items():
            waiting.ticket = 0
            if not waiting.inadmissible:
                self._offer(request_class, waiting)

    def make_inadmissible(
        self,
        workload_id: str,
        request_class: Hashable,
        order_key: OrderKey,
        *,
        alike: bool = True,
        lacks: Hashable | None = None,
    ) -> None:
        """Put a refused workload back; its class is inadmissible until something requeues it.

        `lacks` names the room without which nothing helps it; None where anything may.
        """
        self.add(workload_id, request_class, order_key, alike=alike)
        waiting = self._classes[request_class]
        self._admit(request_class, waiting)
        waiting.lacks = lacks
        self._set_aside(request_class, waiting)

    def requeue(self, can_help: Callable[[str], bool], free: FreeRoom | None = None) -> None:
        """Let classes be tried again: all that lack a room of which some is free.

        Of the others those where `can_help(workload id)` is true for the head. O(rooms that are
        lacked, other inadmissible classes, and what is requeued).
        """
        one_by_one = self._inadmissible[None]
        for request_class, waiting in list(one_by_one.items()):
            if can_help(self._head(waiting)[1]):
                self._requeue(request_class, waiting)
        for lacks in [one for one in self._inadmissible if one is not None]:
            if free is None or free.is_free(lacks):
                for request_class, waiting in list(self._inadmissible[lacks].items()):
                    self._requeue(request_class, waiting)

    def requeue_class(self, request_class: Hashable) -> None:
        """Let an inadmissible class be tried again, whatever it lacks."""
        waiting = self._classes.get(request_class)
        if waiting is not None and waiting.inadmissible:
            self._requeue(request_class, waiting)
            waiting.lacks = None

    def inadmissible_head(self, request_class: Hashable) -> str | None:
        """The first workload of an inadmissible class; None of another."""
        waiting = self._classes.get(request_class)
        return self._head(waiting)[1] if waiting is not None and waiting.inadmissible else None

    def inadmissible_heads(self) -> Iterator[str]:
        """The first workload of each inadmissible class."""
        for waiting in self._classes.values():
            if waiting.inadmissible:
                yield self._head(waiting)[1]

    def behind(self, request_class: Hashable) -> Iterator[str]:
        """All workloads of a class, in no order."""
        waiting = self._classes.get(request_class)
        yield from waiting.members if waiting else ()

    def _requeue(self, request_class: Hashable, waiting: RequestClass) -> None:
        self._admit(request_class, waiting)
        self._offer(request_class, waiting)

    def _admit(self, request_class: Hashable, waiting: RequestClass) -> None:
        """It is inadmissible no more."""
        if waiting.inadmissible:
            waiting.inadmissible = False
            alike = self._inadmissible[waiting.lacks]
            del alike[request_class]
            if not alike and waiting.lacks is not None:
                del self._inadmissible[waiting.lacks]

    def _set_aside(self, request_class: Hashable, waiting: RequestClass) -> None:
        waiting.inadmissible, waiting.ticket = True, 0
        self._inadmissible.setdefault(waiting.lacks, {})[request_class] = waiting

    def _offer(self, request_class: Hashable, waiting: RequestClass) -> None:
        """Let a class be ready, under a key that is not larger than that of its head."""
        self._tickets += 1
        waiting.ticket = self._tickets
        order_key, workload_id = self._head(waiting)
        key = (order_key[0], self._rank_at_least(workload_id), order_key, workload_id)
        heapq.heappush(self._ready, (key, waiting.ticket, request_class))

    def _take(self, waiting: RequestClass) -> str:
        """The head of the class that came up, removed; the next of it is ready."""
        heapq.heappop(self._ready)
        waiting.ticket = 0
        workload_id = self._head(waiting)[1]
        self.remove(workload_id)
        return workload_id

    def _key(self, waiting: RequestClass) -> Key:
        order_key, workload_id = self._head(waiting)
        return order_key[0], self._rank(workload_id), order_key, workload_id

    def _is_head(self, waiting: RequestClass, workload_id: str) -> bool:
        return self._head(waiting)[1] == workload_id

    def _head(self, waiting: RequestClass) -> tuple[OrderKey, str]:
        """The first that waits; a class goes with the last of its members."""
        heap, members = waiting.heap, waiting.members
        while members.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0]
