"""In which order the queues of a tree nominate when not all that waits there may go.

The same order as placement's (core/quota/fair_share.py), of the first of each queue that may go
now: priority, rank, age, identity. Each nomination is a promise and makes the next of its queue
wait longer, so what room there is, and the window of open nominations, fill evenly; `OPEN_EACH` of
each queue are always open, so no queue is kept out of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from shared.core.queueing.nomination.pending import Pending
from shared.core.queueing.nomination.pending_queue import EqualRequests, PendingQueue
from shared.core.queueing.nomination.permission import FlavorRoom
from shared.core.quota.fair_share import rank

Use = Callable[[str], int]
"""What a queue used over time."""


class Turn(NamedTuple):
    """The first of a line that may go, and in which flavor."""

    pending: Pending
    members: EqualRequests
    room: FlavorRoom


def turn_key(line: PendingQueue, turn: Turn, used: Use) -> tuple[Any, ...]:
    """When it comes among those of other lines. O(depth x flavors)."""
    first, members = turn.pending, turn.members
    ranked = rank(line.node, members.flavors, members.request, used(line.name))
    return first.key[0], ranked, *first.key[1:], first.id


def take_turns(
    lines: Iterable[PendingQueue],
    find: Callable[[PendingQueue], Turn | None],
    take: Callable[[PendingQueue, Turn], bool],
    used: Use,
    turns_max: int,
) -> list[PendingQueue]:
    """Let the line that is next `take` its turn, until none finds another or `turns_max`.

    `take` says whether its line may have another; those that did not get theirs are returned.
    A turn comes later while others take theirs, never earlier: an old key is looked at again.
    """
    ready: list[tuple[tuple[Any, ...], PendingQueue]] = []

    def follow(line: PendingQueue) -> Turn | None:
        """Its next turn if no other comes before; else it stands in the order again."""
        turn = find(line)
        if turn is None:
            return None
        key = turn_key(line, turn, used)
        if (ready and ready[0][0] < key) or turns_max <= 0:
            heapq.heappush(ready, (key, line))
            return None
        return turn

    for line in lines:
        turn = find(line)
        if turn is not None:
            ready.append((turn_key(line, turn, used), line))
    heapq.heapify(ready)
    while ready and turns_max > 0:
        line = heapq.heappop(ready)[1]
        turn = follow(line)
        while turn is not None:
            turns_max -= 1
            turn = follow(line) if take(line, turn) else None
    return [line for _, line in ready]
