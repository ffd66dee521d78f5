"""Workloads announced to placement ahead: the next for what a queue owns and holds itself.

Placement hears first when work of the queue ends. If it did not know what is next, it would leave
the room empty until quota has heard of it and nominates, or give what the queue owns to a borrower
that waits, from which the owner would get it back by eviction only (docs/adr/0050). So the first
few workloads that wait, in sum no more than the queue owns, are announced. The first of all is
announced whatever the queue owns, as placement keeps for it what smaller work would take bit by
bit (docs/adr/0054). That promises nothing and is no open nomination: they wait on in their line.
Once the queue has given back enough, placement tries them by itself within what it owns; quota,
which hears of it later, counts them from then on as nominated.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import reduce
from typing import Final

from shared.core.model.amounts import Amount, fits
from shared.core.queueing.nomination.pending import Pending
from shared.core.queueing.nomination.pending_queue import EqualRequests, PendingQueue
from shared.core.queueing.nomination.permission import Permissions
from shared.core.quota.limits import plus
from shared.core.quota.tree import NOTHING

NEXT_MAX: Final = 8
"""In each queue: about what may end there between a start and the next nomination."""


def next_few(line: PendingQueue, permissions: Permissions) -> dict[str, Pending]:
    """By id, in order, the workloads to announce. O(different requests).

    Of a strict queue its head alone, if nothing is tried before it.
    """
    if line.held or line.node.document is None or (line.strict and line.open):
        return {}
    found = _head(line, permissions)
    if line.strict or not _owns(line):
        return found
    sums: dict[str, Amount] = {}
    ready = [Candidate(members) for members in line.classes.values()]
    heapq.heapify(ready)
    while ready and len(found) < NEXT_MAX:
        first = ready[0]
        flavor = next(_flavors(line, permissions, first.members, sums), "")
        if flavor:
            found[first.pending.id] = first.pending
            sums[flavor] = plus(sums.get(flavor, NOTHING), first.members.request)
        if flavor and first.moves_on():
            heapq.heapreplace(ready, first)
        else:  # an equal request finds no more
            heapq.heappop(ready)
    return found


def _head(line: PendingQueue, permissions: Permissions) -> dict[str, Pending]:
    """The first of all, whatever its queue owns, where nothing hopes for evictions."""
    head = line.head()
    if head is None:
        return {}
    usable = permissions.usable(line, line.classes[head.request, head.choice])
    return {head.id: head} if any(one not in line.hoped for one in usable) else {}


class Candidate:
    """The first of a class of equal requests that was not looked at; smaller comes before."""

    __slots__ = ("_rest", "members", "pending")

    def __init__(self, members: EqualRequests) -> None:
        self.members = members
        self._rest = members.lineup.in_order()
        self.pending = next(self._rest)

    def moves_on(self) -> bool:
        """Whether there is a next one."""
        following = next(self._rest, None)
        self.pending = following if following is not None else self.pending
        return following is not None

    def __lt__(self, other: Candidate) -> bool:
        """By the order of the queue."""
        return _order(self.pending) < _order(other.pending)


def could_be_next(line: PendingQueue, permissions: Permissions, pending: Pending) -> bool:
    """Whether one that begins to wait could be announced beside those before it. O(1).

    In which flavors those are is not known where there are several.
    """
    before = [one for one in line.announced.values() if _order(one) < _order(pending)]
    if not before:
        return True
    if len(before) >= NEXT_MAX or not _owns(line):
        return False
    sums: dict[str, Amount] = {}
    if line.node.document is not None and len(line.node.document.flavors) == 1:
        (flavor,) = line.node.document.flavors
        others = sorted(before, key=_order)[1:]  # the head may be more than the queue owns
        sums[flavor] = reduce(plus, (one.request for one in others), NOTHING)
    members = line.classes[pending.request, pending.choice]
    return next(_flavors(line, permissions, members, sums), "") != ""


def _owns(line: PendingQueue) -> bool:
    """Whether it owns something of which it holds no more than that."""
    document = line.node.document
    flavors = document.flavors if document is not None else ()
    return any(held <= own and own for one in flavors for held, own in _units(line, one))


def _flavors(
    line: PendingQueue, permissions: Permissions, members: EqualRequests, sums: dict[str, Amount]
) -> Iterator[str]:
    """Flavors of which its queue owns so much beside `sums`, borrows none, and hopes for none."""
    request = members.request
    for flavor in permissions.usable(line, members):
        if (
            fits(request, sums.get(flavor, NOTHING), line.node.owned(flavor))
            and flavor not in line.hoped
            and not any(
                asked and held > own
                for asked, (held, own) in zip(request, _units(line, flavor), strict=True)
            )
        ):
            yield flavor


def _units(line: PendingQueue, flavor: str) -> Iterator[tuple[int, int]]:
    """Of each unit what is taken, and what is owned."""
    return zip(line.node.taken(flavor), line.node.owned(flavor), strict=True)


def _order(pending: Pending) -> tuple[tuple[int, int, int], str]:
    return pending.key, pending.id
