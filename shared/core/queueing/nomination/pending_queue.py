"""The line of one queue: workloads that wait, that are being tried, and that were told why.

Equal requests of a queue form a class that is looked at once: when its head does not fit, none
of it does. So a change costs the number of different requests, not the number of workloads.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TypeVar

from shared.core.model.amounts import Amount
from shared.core.model.ordering import Lineup, OrderKey
from shared.core.queueing.nomination.flavor_choice import FlavorChoice
from shared.core.queueing.nomination.pending import Pending, Phase
from shared.core.quota.tree import NOTHING, QuotaNode

Key = TypeVar("Key")


class EqualRequests:
    """Waiting workloads of one queue with equal requests."""

    __slots__ = ("choice", "flavors", "flavors_version", "lineup", "request")

    def __init__(self, request: Amount, choice: FlavorChoice) -> None:
        self.request = request
        self.choice = choice
        self.lineup: Lineup[Pending] = Lineup()
        self.flavors: tuple[str, ...] = ()
        self.flavors_version = -1


class PendingQueue:
    """One queue: workloads that wait, that are being tried, and that were told why."""

    __slots__ = (
        "announced",
        "classes",
        "entries",
        "hoped",
        "hopes",
        "in_vain",
        "least",
        "name",
        "node",
        "open",
        "refused",
        "retell",
        "suspects",
        "told",
        "untold",
        "use",
    )

    def __init__(self, node: QuotaNode) -> None:
        self.node = node
        self.name = node.name
        self.classes: dict[tuple[Amount, FlavorChoice], EqualRequests] = {}
        self.entries = 0
        """How often a workload began to wait here."""
        self.open: dict[str, Pending] = {}
        self.refused: Lineup[Pending] = Lineup(reverse=True)
        self.suspects: list[Pending] = []
        """Open ones to look at again, because the rules have changed."""
        self.retell = False
        self.told: dict[str, Pending] = {}
        self.untold: Lineup[Pending] = Lineup()
        self.least: Amount | None = None
        """No waiting request is smaller in any unit; None when nothing waits."""
        self.hoped: dict[str, Amount] = {}
        """By flavor, requests of open nominations for which others must make room first."""
        self.hopes: dict[str, Counter[Amount]] = {}
        """How many of each size these are ..."""
        self.in_vain: dict[str, Counter[Amount]] = {}
        """... and how many of them were refused."""
        self.announced: dict[str, Pending] = {}
        """By id, what waits here and is the next for what the queue owns, as placement knows."""
        self.use: dict[tuple[str, int], Amount] = {}
        """What is charged, by flavor and priority."""

    @property
    def strict(self) -> bool:
        """Whether nothing passes a head that waits."""
        return self.node.document is not None and self.node.document.strict

    @property
    def team(self) -> str:
        """The team that owns the queue; "" before its document is known."""
        return self.node.document.team if self.node.document is not None else ""

    @property
    def held(self) -> bool:
        """Whether the queue takes nothing in."""
        document = self.node.document
        return document is not None and (document.held or document.draining)

    def charge(self, pending: Pending, sign: int) -> None:
        """Count what a placed `pending` is charged, or with `sign` -1 no longer."""
        _count(self.use, (pending.flavor, pending.priority), pending.charge, sign)

    def hope(self, pending: Pending, flavor: str) -> None:
        """It is nominated in hope of room in `flavor`; with "" it no longer is. O(1)."""
        if pending.hopes_in:
            self._count_hope(pending, -1)
        pending.hopes_in = flavor
        if flavor:
            self._count_hope(pending, 1)

    def _count_hope(self, pending: Pending, sign: int) -> None:
        flavor, request = pending.hopes_in, pending.request
        _count(self.hoped, flavor, request, sign)
        self.hopes.setdefault(flavor, Counter())[request] += sign
        if not self.hopes[flavor][request]:
            del self.hopes[flavor][request]
        if pending.phase is Phase.REFUSED:
            self._count_vain(pending, sign)

    def _count_vain(self, pending: Pending, sign: int) -> None:
        sizes = self.in_vain.setdefault(pending.hopes_in, Counter())
        sizes[pending.request] += sign
        if not sizes[pending.request]:
            del sizes[pending.request]

    def answered(self, pending: Pending) -> None:
        """It was refused, and stays open."""
        pending.phase = Phase.REFUSED
        self.refused.push(pending)
        if pending.hopes_in:
            self._count_vain(pending, 1)

    def hopes_beside(self, flavor: str, request: Amount) -> list[tuple[Amount, int]]:
        """How many of each size hope there, but for what is larger and was refused. O(sizes)."""
        in_vain = self.in_vain.get(flavor, Counter())
        found = []
        for size, count in self.hopes.get(flavor, Counter()).items():
            counted = count - in_vain[size] if size[0] > request[0] else count
            if counted:
                found.append((size, counted))
        return found

    def use_below(self, flavor: str, priority: int) -> Amount:
        """What work of lower priority is charged. O(flavors x priorities in use)."""
        gpu = cpu = memory = 0
        for (name, level), amount in self.use.items():
            if name == flavor and level < priority:
                gpu, cpu, memory = gpu + amount[0], cpu + amount[1], memory + amount[2]
        return gpu, cpu, memory

    def enter(self, pending: Pending) -> EqualRequests:
        """Let `pending` wait here. O(log n)."""
        key = (pending.request, pending.choice)
        members = self.classes.get(key)
        if members is None:
            members = self.classes[key] = EqualRequests(pending.request, pending.choice)
        members.lineup.push(pending)
        self.entries += 1
        self.untold.push(pending)
        pending.phase = Phase.WAITING
        least = self.least
        self.least = pending.request if least is None else _least(least, pending.request)
        return members

    def leave(self, pending: Pending) -> None:
        """Take a waiting `pending` out. O(1)."""
        key = (pending.request, pending.choice)
        members = self.classes[key]
        members.lineup.discard(pending)
        if not members.lineup:
            del self.classes[key]
            if not self.classes:
                self.least = None
        self.untold.discard(pending)
        self.announced.pop(pending.id, None)
        if pending.told is not None:
            del self.told[pending.id]
            pending.told = None

    def heads(self) -> list[tuple[OrderKey, str, EqualRequests]]:
        """A heap of the first of each class. O(different requests)."""
        heads = []
        for members in self.classes.values():
            first = members.lineup.first()
            assert first is not None, "a class goes with the last of its members"
            heads.append((first.key, first.id, members))
        heapq.heapify(heads)
        return heads

    def head(self) -> Pending | None:
        """The first of all that wait. O(different requests)."""
        heads = self.heads()
        return heads[0][2].lineup.first() if heads else None

    def waiting(self) -> int:
        """Number of workloads that wait. O(different requests)."""
        return sum(len(one.lineup) for one in self.classes.values())

    def measure(self) -> None:
        """Compute `least` anew. O(different requests)."""
        self.least = None
        for one in self.classes.values():
            self.least = one.request if self.least is None else _least(self.least, one.request)


def _count(sums: dict[Key, Amount], key: Key, amount: Amount, sign: int) -> None:
    """Add to a sum; one that is nothing is forgotten."""
    before = sums.get(key, NOTHING)
    after = tuple(one + sign * more for one, more in zip(before, amount, strict=True))
    if any(after):
        sums[key] = after[0], after[1], after[2]
    else:
        sums.pop(key, None)


def _least(left: Amount, right: Amount) -> Amount:
    return min(left[0], right[0]), min(left[1], right[1]), min(left[2], right[2])
