"""What the queues of a cell ask for beside what they use: waiting and tried workloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shared.core.queueing.nomination.pending_queue import PendingQueue
from shared.core.queueing.nomination.permission import Permissions


def gpu_milli_waiting(
    lines: Iterable[PendingQueue], permissions: Permissions
) -> dict[str, dict[str, int]]:
    """By flavor and queue; a request counts in the first flavor that its queue permits it.

    Queues that take nothing in ask for nothing. O(different requests and open nominations).
    """
    found: dict[str, dict[str, int]] = {}
    for line in lines:
        if line.held:
            continue
        for flavor, gpu_milli in _requests(line, permissions):
            queues = found.setdefault(flavor, {})
            queues[line.name] = queues.get(line.name, 0) + gpu_milli
    return found


def _requests(line: PendingQueue, permissions: Permissions) -> Iterator[tuple[str, int]]:
    for members in line.classes.values():
        flavors = permissions.permitted(line, members)
        if flavors and members.request[0]:
            yield flavors[0], members.request[0] * len(members.lineup)
    for pending in line.open.values():
        if pending.offered and pending.offered[0] and pending.request[0]:
            yield pending.offered[0], pending.request[0]
