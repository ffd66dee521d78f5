"""The open nominations of one cell: at most so many, beyond a few for each queue.

A nomination is a promise in the first flavor with room until it has an answer. Once refused it
stays open and uncounted, because placement tries it again by itself. A waiting workload that
comes before an open and refused one of its queue takes its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from shared.core.model.ordering import OrderKey
from shared.core.queueing.nomination.changed_queues import ChangedQueues
from shared.core.queueing.nomination.decision import Decision, Expect, Nominate, Withdraw
from shared.core.queueing.nomination.flavor_choice import FlavorChoice
from shared.core.queueing.nomination.pending import Pending, Phase
from shared.core.queueing.nomination.pending_queue import EqualRequests, PendingQueue
from shared.core.queueing.nomination.permission import FlavorRoom, Permissions
from shared.core.quota.tree import QuotaTree

OPEN: Final = frozenset((Phase.OFFERED, Phase.REFUSED))
_OTHER_RULES: Final = ("",)
"""Flavors of a nomination that was given under rules that hold no more; no queue has them."""


class NominationWindow:
    """What is open, and the decisions that open and close it."""

    def __init__(
        self,
        tree: QuotaTree,
        permissions: Permissions,
        agenda: ChangedQueues,
        *,
        open_max: int,
        open_each: int,
    ) -> None:
        self.count = 0
        """Open nominations of the cell, answered or not."""
        self.open_max = open_max
        self.decisions: list[Decision] = []
        self.open_each = open_each
        self._tree = tree
        self._permissions = permissions
        self._agenda = agenda
        self._blocked: dict[str, PendingQueue] = {}

    def has_room_for(self, line: PendingQueue, pending: Pending) -> bool:
        """Whether the window has room, if need be by displacing a later one of the queue."""
        if self.count < self.open_max or len(line.open) < self.open_each:
            return True
        self._blocked[line.name] = line
        return self._displace(line, pending.key)

    def _displace(self, line: PendingQueue, key: OrderKey) -> bool:
        """Make room in the window by the last open and refused one, if that comes after `key`."""
        last = line.refused.first()
        if last is None or last.key <= key:
            return False
        self.withdraw(last, window_freed=False)
        line.enter(last)
        return True

    def offer(
        self, line: PendingQueue, members: EqualRequests, pending: Pending, room: FlavorRoom
    ) -> None:
        """Nominate one that waits."""
        self._open(line, members, pending)
        pending.nomination += 1
        self.decisions.append(self._nomination(line, members, pending, room))
        if room.by_eviction:
            line.hope(pending, room.flavor)
        else:
            self._promise(line, pending, room.flavor)

    def _open(self, line: PendingQueue, members: EqualRequests, pending: Pending) -> None:
        line.leave(pending)
        pending.phase = Phase.OFFERED
        pending.offered = members.flavors
        line.open[pending.id] = pending
        self.count += 1

    def _promise(self, line: PendingQueue, pending: Pending, flavor: str) -> None:
        pending.flavor = flavor
        self._tree.promise(line.name, flavor, pending.request)

    def _nomination(
        self, line: PendingQueue, members: EqualRequests, pending: Pending, room: FlavorRoom
    ) -> Nominate:
        return Nominate(
            pending,
            pending.nomination,
            members.flavors,
            line.strict,
            self._permissions.owned_only(line, members.choice),
            tuple(
                self._permissions.borrowable(line, members.choice, one) for one in members.flavors
            ),
            room.by_eviction,
        )

    def announce(self, line: PendingQueue, few: Mapping[str, Pending]) -> None:
        """Let placement know these and no others as the next for what the queue owns."""
        for one in [one for name, one in line.announced.items() if name not in few]:
            self.unannounce(line, one)
        for name, pending in few.items():
            if name not in line.announced:
                line.announced[name] = pending
                pending.nomination += 1
                members = line.classes[pending.request, pending.choice]
                told = self._nomination(line, members, pending, FlavorRoom(""))
                self.decisions.append(replace(told, next_of_own=True))

    def expect(self, line: PendingQueue) -> None:
        """The queue gave something back: placement tries those it knows, within what it owns."""
        for pending in sorted(line.announced.values(), key=lambda one: (one.key, one.id)):
            members = line.classes[pending.request, pending.choice]
            flavor = self._permissions.own_room(line, members)
            if flavor:
                self._open(line, members, pending)
                self._promise(line, pending, flavor)
                self.decisions.append(Expect(pending, pending.nomination))

    def unannounce(self, line: PendingQueue, pending: Pending) -> None:
        """It is not the next any more, if it was."""
        if line.announced.pop(pending.id, None) is not None:
            self.decisions.append(Withdraw(pending, pending.nomination))

    def restore(self, line: PendingQueue, pending: Pending) -> None:
        """Put back one that was open, in its phase and flavor."""
        line.open[pending.id] = pending
        self.count += 1
        if pending.phase is Phase.REFUSED:
            line.refused.push(pending)
        elif pending.flavor:
            self._tree.promise(pending.queue, pending.flavor, pending.request)

    def refused(self, line: PendingQueue, pending: Pending) -> None:
        """It was tried in vain: it stays open, and no longer counts as use."""
        self._uncount(pending)
        self._agenda.wake(pending.queue)
        line.answered(pending)

    def withdraw(self, pending: Pending, *, window_freed: bool = True) -> None:
        """Take an open nomination back."""
        self.close(pending, window_freed=window_freed)
        self.decisions.append(Withdraw(pending, pending.nomination))

    def close(
        self, pending: Pending, *, quota_freed: bool = True, window_freed: bool = True
    ) -> None:
        """An open nomination is no longer open; wakes the queues that what it frees can help."""
        line = self._agenda.line(pending.queue)
        if pending.phase is Phase.OFFERED:
            self._uncount(pending)
            if quota_freed:
                self._agenda.wake(pending.queue)
        else:
            line.refused.discard(pending)
        if pending.hopes_in:
            line.hope(pending, "")
            self._agenda.wake(pending.queue)
        del line.open[pending.id]
        if line.strict and line.classes:  # its head may be announced now
            self._agenda.look_at(line)
        self.count -= 1
        pending.phase = Phase.IDLE
        if window_freed and self._blocked:
            self._agenda.reopen(self._blocked)
            self._blocked.clear()

    def _uncount(self, pending: Pending) -> None:
        """Its answer is no longer waited for; what hopes for room was never counted."""
        if not pending.flavor:
            return
        self._tree.promise(pending.queue, pending.flavor, pending.request, -1)
        pending.flavor = ""


def give_anew(line: PendingQueue, whom: Callable[[FlavorChoice], bool] = lambda _: True) -> None:
    """What is open in a line, of those that are concerned, was given under other rules."""
    for pending in line.open.values():
        if whom(pending.choice):
            pending.offered = _OTHER_RULES
