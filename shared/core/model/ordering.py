"""The order of a queue: priority, then age, then identity; total, and the same on every machine.

`Lineup` is a heap with lazy deletion: what has left is skipped when it comes up, so no message
ever costs a sort or a search (mission Q3; fair share and use over time will join the key).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

OrderKey = tuple[int, int, int]
"""(-priority, submission in Unix milliseconds, ordinal): smaller is earlier."""

_ORDINAL_BYTES: Final = 8
_STALE_MIN: Final = 64


def order_key(priority: int, submitted_at_ms: int, identifier: str) -> OrderKey:
    """The place of a workload; the ordinal is the first 8 bytes of its id, in the id's order.

    The letter that all ids begin with is left out.
    """
    raw = identifier.encode()[1 : 1 + _ORDINAL_BYTES].ljust(_ORDINAL_BYTES, b"\0")
    return (-priority, submitted_at_ms, int.from_bytes(raw, "big") >> 1)


class Member(Protocol):
    """Something that can stand in a lineup. Its key may change only while it stands in none."""

    id: str
    key: OrderKey


M = TypeVar("M", bound=Member)


class Lineup(Generic[M]):
    """Members in order, the first one at hand; `reverse` keeps the last one at hand instead.

    Push and pop O(log n), discard O(1).
    """

    __slots__ = ("_heap", "_pushed", "_reverse", "_tickets")

    def __init__(self, *, reverse: bool = False) -> None:
        self._heap: list[tuple[OrderKey, str, int, M]] = []
        self._tickets: dict[str, int] = {}
        self._pushed = 0
        self._reverse = reverse

    def __len__(self) -> int:
        """Members that stand here."""
        return len(self._tickets)

    def push(self, member: M) -> None:
        """Let `member` stand here; without effect if it does already."""
        if member.id in self._tickets:
            return
        self._pushed += 1
        self._tickets[member.id] = self._pushed
        key = member.key
        if self._reverse:
            key = (-key[0], -key[1], -key[2])
        heapq.heappush(self._heap, (key, member.id, self._pushed, member))

    def first(self) -> M | None:
        """The first member, left where it is."""
        heap, tickets = self._heap, self._tickets
        while heap:
            _, identifier, ticket, member = heap[0]
            if tickets.get(identifier) == ticket:
                return member
            heapq.heappop(heap)
        return None

    def in_order(self) -> Iterator[M]:
        """The members, the first one first; the lineup may not change meanwhile.

        O(log n) for each, and for each that was discarded before it.
        """
        heap, tickets = self._heap, self._tickets
        ahead = [(heap[0][:3], 0)] if heap else []
        while ahead:
            (_, identifier, ticket), at = heapq.heappop(ahead)
            if tickets.get(identifier) == ticket:
                yield heap[at][3]
            for child in range(2 * at + 1, min(2 * at + 3, len(heap))):
                heapq.heappush(ahead, (heap[child][:3], child))

    def pop(self) -> M | None:
        """The first member, taken out."""
        member = self.first()
        if member is not None:
            heapq.heappop(self._heap)
            del self._tickets[member.id]
        return member

    def discard(self, member: M) -> None:
        """Take out `member` if it stands here; its entry is forgotten later."""
        if self._tickets.pop(member.id, None) is None:
            return
        if len(self._heap) > _STALE_MIN + 2 * len(self._tickets):
            tickets = self._tickets
            self._heap = [one for one in self._heap if tickets.get(one[1]) == one[2]]
            heapq.heapify(self._heap)
