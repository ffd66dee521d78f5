"""In which order queues fill the window of open nominations when it cannot hold all that may go.

The same order as placement's (core/fair_share.py), of the first of each queue: priority, rank,
age, identity. Each nomination is a promise and makes the next of its queue wait longer, so the
window fills evenly; `OPEN_EACH` of each queue are always open, so nobody is kept out of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from shared.core.fair_share import rank
from shared.core.pending import Line

Use = Callable[[str], int]
"""What a queue used over time."""


def turn_key(line: Line, used: Use) -> tuple[Any, ...]:
    """When the first of a line, in which somebody waits, has his turn. O(different requests)."""
    first = line.head()
    assert first is not None, "only lines in which somebody waits take turns"
    flavors = line.node.document.flavors if line.node.document is not None else ()
    return first.key[0], rank(line.node, flavors, first.request, used(line.name)), *first.key[1:]


def take_turns(
    lines: Iterable[Line], used: Use, turn: Callable[[Line], bool], turns_max: int
) -> list[Line]:
    """Let the line whose turn it is take one `turn`, until none wants another or `turns_max`.

    `turn` says whether its line wants another; those that did not get it are returned.
    """
    ready = [(turn_key(line, used), line.name, line) for line in lines if line.classes]
    heapq.heapify(ready)
    while ready and turns_max > 0:
        key, name, line = ready[0]
        now = turn_key(line, used)
        if now > key:
            heapq.heapreplace(ready, (now, name, line))
            continue
        heapq.heappop(ready)
        turns_max -= 1
        if turn(line) and line.classes:
            heapq.heappush(ready, (turn_key(line, used), name, line))
    return [line for _, _, line in ready]
