"""When nodes will be wholly free, by what is expected of the work on them.

Each piece of work is noted with its begin and its expected length. Work past its expected end is
taken to last twice as long as was said, then four times, and so on: a bad estimate is survived,
and the next promise is more careful. Nodes stand in one list in the order in which they will be
free; what changes is only marked, and put in its place when it is asked for, so that work that
begins and ends while nothing waits for room costs two dictionary entries a node.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

NEVER: Final = 1 << 62
"""A time that does not come."""

Span = tuple[int, int | None]
"""(begin, expected length), in milliseconds; no length for what never ends."""


def expected_end(span: Span, now_ms: int) -> int:
    """When work will end; always after `now_ms`."""
    begin_ms, length_ms = span
    if length_ms is None:
        return NEVER
    length_ms = max(length_ms, 1)
    while begin_ms + length_ms <= now_ms:
        length_ms *= 2
    return begin_ms + length_ms


class Timeline:
    """Work by node, and nodes by the time at which they are wholly free."""

    def __init__(self) -> None:
        self._on: dict[str, dict[str, Span]] = {}
        self._order: list[tuple[int, str]] = []
        self._free_at: dict[str, int] = {}
        """By node: where it stands in `_order`."""
        self._changed: dict[str, None] = {}

    def begin(self, workload_id: str, nodes: Iterable[str], span: Span) -> None:
        """Work lies on `nodes`; once more if its begin or its length is known better."""
        for node in nodes:
            self._on.setdefault(node, {})[workload_id] = span
            self._changed[node] = None

    def finish(self, workload_id: str, nodes: Iterable[str]) -> None:
        """It does so no more."""
        for node in nodes:
            self._on.get(node, {}).pop(workload_id, None)
            self._changed[node] = None

    def free_at(self, node: str, now_ms: int) -> int:
        """When `node` will be wholly free: now, or later, or `NEVER`."""
        spans = self._on.get(node)
        if not spans:
            return now_ms
        return max(expected_end(span, now_ms) for span in spans.values())

    def walk(
        self, nodes: Iterable[str], now_ms: int, busy: Mapping[str, int]
    ) -> Iterator[tuple[int, str]]:
        """(time, node) in the order in which nodes are free; those that never are, are left out.

        `nodes` are all of the fleet; `busy` ones are not free before the given time. O(log n) for
        each that changed since the last walk, and for each that is taken.
        """
        self._follow(nodes, now_ms)
        waiting: list[tuple[int, str]] = []
        for free_at, node in self._order:
            if free_at >= NEVER:
                break
            while waiting and waiting[0][0] <= free_at:
                yield heapq.heappop(waiting)
            until = busy.get(node, 0)
            if until > free_at:
                heapq.heappush(waiting, (until, node))
            else:
                yield max(free_at, now_ms), node
        while waiting and waiting[0][0] < NEVER:
            yield heapq.heappop(waiting)

    def _follow(self, nodes: Iterable[str], now_ms: int) -> None:
        """Put in its place what changed, what came, and what is past its expected end."""
        for node in nodes:
            if node not in self._free_at:
                self._changed[node] = None
        first = bisect_left(self._order, (1, ""))
        for _, node in self._order[first : bisect_left(self._order, (now_ms + 1, ""))]:
            self._changed[node] = None
        for node in self._changed:
            self._move(node, now_ms)
        self._changed.clear()

    def _move(self, node: str, now_ms: int) -> None:
        before = self._free_at.get(node)
        if before is not None:
            del self._order[bisect_left(self._order, (before, node))]
        free_at = self._free_at[node] = self.free_at(node, now_ms) if self._on.get(node) else 0
        insort(self._order, (free_at, node))
