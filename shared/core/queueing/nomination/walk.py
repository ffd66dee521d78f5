"""Which workloads of a line may go, in order, while one batch settles.

Room only shrinks while others nominate, so a request class that finds none is not asked again, and
a nomination costs O(log different requests), not a look at all of them. But one that had to leave
the window for another hopes for room no more: then the line is walked anew.
"""

from __future__ import annotations

import heapq

from shared.core.queueing.nomination.pending_queue import PendingQueue
from shared.core.queueing.nomination.permission import Permissions
from shared.core.queueing.nomination.turns import Turn


class Walk:
    """Through the first of each class of a line; good until a batch settles again."""

    def __init__(self, line: PendingQueue, permissions: Permissions) -> None:
        self._line, self._permissions = line, permissions
        self._begin()

    def _begin(self) -> None:
        """O(different requests)."""
        line = self._line
        self._entries = line.entries
        self._heads = line.heads() if self._permissions.could_fit(line) else []
        if self._heads:
            line.measure()

    def first(self) -> Turn | None:
        """The first that may go now; once it is nominated, the next."""
        line = self._line
        if line.entries != self._entries:
            self._begin()
        heads = self._heads
        while heads:
            _, identifier, members = heads[0]
            first = members.lineup.first()
            if first is not None and first.id == identifier:
                room = self._permissions.room(line, members)
                if room.flavor:
                    return Turn(first, members, room)
                if line.strict:
                    return None
                first = None
            if first is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (first.key, first.id, members))
        return None
