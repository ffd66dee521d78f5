"""In which flavors of its queue a request may ever run, and in which there is room for it now.

What is permitted follows from documents alone (products, whole quota) and is worked out once for
each class of requests; room follows from what is used and promised, at every level of the tree.
Where there is none, others may have to make it: then a nomination says so, and promises nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from shared.core.model.amounts import Amount, fits
from shared.core.model.decision import Refusal
from shared.core.model.team_policy import AtLimit
from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.flavor_choice import (
    UNTOLD,
    FlavorChoice,
    FlavorKind,
    in_order_of_use,
    permitted,
)
from shared.core.queueing.nomination.pending import Pending
from shared.core.queueing.nomination.pending_queue import EqualRequests, PendingQueue
from shared.core.queueing.nomination.room_by_eviction import Hope
from shared.core.quota.budget import Restriction
from shared.core.quota.fair_share import may_borrow, within_nominal
from shared.core.quota.limits import least
from shared.core.quota.tree import NOTHING, QuotaTree


class FlavorRoom(NamedTuple):
    """A flavor in which to nominate; "" for none."""

    flavor: str
    by_eviction: bool = False
    """Others must make room first."""


NO_ROOM: Final = FlavorRoom("")


class Permissions:
    """Answers by the documents of now; a change of one must be followed by `changed`."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self.kinds: dict[str, FlavorKind] = {}
        """What each flavor is made of, where that is told."""
        self._blocked_above: dict[str, dict[str, PendingQueue]] = {}
        self.hope = Hope(tree, self._note_above)
        self._version = 0
        self._restrictions: dict[str, Restriction] = {}

    def kept_from_above(self, root: str) -> dict[str, PendingQueue]:
        """Lines that a level above their queue kept from going, since the last call, by name."""
        return self._blocked_above.pop(root, {})

    def restrict(self, team: str, restriction: Restriction | None) -> bool:
        """What the budget of a team permits from now on; whether that is news."""
        known = self._restrictions.get(team)
        if restriction is not None:
            self._restrictions[team] = restriction
        elif known is not None:
            del self._restrictions[team]
        if known != restriction:
            self.changed()
        return known != restriction

    def within_nominal(self, line: PendingQueue) -> bool:
        """Whether the queue may not borrow now, by the budget of its team."""
        found = self._restriction(line)
        return found is not None and found.at_limit is AtLimit.NOMINAL

    def owned_only(self, line: PendingQueue, choice: FlavorChoice) -> bool:
        """Whether the queue may not borrow for such work now."""
        return self.within_nominal(line) or not may_borrow(line.node, evictable=choice.evictable)

    def by_budget(self, line: PendingQueue, members: EqualRequests) -> Refusal | None:
        """Why the budget keeps a request from going; None if it does not."""
        found = self._restriction(line)
        if found is None or (
            found.at_limit is AtLimit.NOMINAL
            and any(within_nominal(line.node, one, members.request) for one in members.flavors)
        ):
            return None
        return found.refusal if found.at_limit is AtLimit.NOMINAL or not members.flavors else None

    def _restriction(self, line: PendingQueue) -> Restriction | None:
        if not self._restrictions or line.node.document is None:
            return None
        return self._restrictions.get(line.node.document.team)

    def changed(self) -> None:
        """A document changed: nothing that was worked out holds any more."""
        self._version += 1

    def room(self, line: PendingQueue, members: EqualRequests) -> FlavorRoom:
        """The first permitted flavor with room at every level, or that others could make room in.

        For the first of the class; no flavor for none.
        """
        flavors, request = self.permitted(line, members), members.request
        owned_only = self.owned_only(line, members.choice)
        flavor = self._first_with_room(line, flavors, request, owned_only=owned_only)
        if flavor:
            return FlavorRoom(flavor)
        first = members.lineup.first()
        priority = first.priority if first else 0
        return self._hoped_for(line, flavors, request, priority, owned_only=owned_only)

    def _hoped_for(
        self,
        line: PendingQueue,
        flavors: Sequence[str],
        request: Amount,
        priority: int,
        *,
        owned_only: bool,
    ) -> FlavorRoom:
        for flavor in flavors:
            if owned_only and not self.hope.of_own(line, flavor, request, priority):
                continue
            if self.hope.of(line, flavor, request, priority):
                return FlavorRoom(flavor, by_eviction=True)
        return NO_ROOM

    def usable(self, line: PendingQueue, members: EqualRequests) -> Sequence[str]:
        """Permitted flavors in which it may go now: in all, or in those that own enough."""
        flavors, request = self.permitted(line, members), members.request
        owned_only = self.owned_only(line, members.choice)
        return _may_use(line, flavors, request, owned_only=owned_only)

    def own_room(self, line: PendingQueue, members: EqualRequests) -> str:
        """The first usable flavor with room at every level, within what the queue owns."""
        request = members.request
        for flavor in self.usable(line, members):
            own = within_nominal(line.node, flavor, request)
            if own and self.tree.blocked_by(line.node, flavor, request) is None:
                return flavor
        return ""

    def _first_with_room(
        self,
        line: PendingQueue,
        flavors: Sequence[str],
        request: Amount,
        *,
        owned_only: bool,
        any_will_do: bool = False,
    ) -> str:
        """The first of `flavors` with room for `request`; notes what is kept from above."""
        node, document = line.node, line.node.document
        flavors = _may_use(line, flavors, request, owned_only=owned_only)
        before = any_will_do or document is None or document.policy.borrow_before_preempt
        for flavor in in_order_of_use(node, flavors, request, borrow_before_preempt=before):
            blocker = self.tree.blocked_by(node, flavor, request)
            if blocker is None:
                return flavor
            if blocker is not node:
                self._note_above(line)
        return ""

    def _note_above(self, line: PendingQueue) -> None:
        self._blocked_above.setdefault(line.node.root.name, {})[line.name] = line

    def borrowable(self, line: PendingQueue, choice: FlavorChoice, flavor: str) -> Amount:
        """What the queue may borrow there for it now, beyond what is left of its own."""
        if line.node.parent is None or self.owned_only(line, choice):
            return NOTHING
        left, spare = line.node.available(flavor), line.node.spare(flavor)
        return tuple(  # type: ignore[return-value]  # three again
            UNLIMITED if has >= UNLIMITED else max(0, has - own)
            for has, own in zip(left, spare, strict=True)
        )

    def permitted(self, line: PendingQueue, members: EqualRequests) -> tuple[str, ...]:
        """Flavors with the product and enough quota for it at all, in the queue's order."""
        if members.flavors_version != self._version:
            members.flavors_version = self._version
            members.flavors = tuple(
                flavor
                for flavor in self._affordable(line, self.matching(line, members.choice))
                if fits(members.request, NOTHING, most_of(line, members.choice, flavor))
            )
        return members.flavors

    def _affordable(self, line: PendingQueue, flavors: Sequence[str]) -> Sequence[str]:
        """Those that the budget of the team permits."""
        found = self._restriction(line)
        if found is None or found.at_limit is AtLimit.NOMINAL:
            return flavors
        if found.at_limit is AtLimit.STOP:
            return ()
        return [one for one in flavors if self.kinds.get(one, UNTOLD).spot]

    def for_pending(self, line: PendingQueue, pending: Pending) -> tuple[str, ...]:
        """What a nomination of `pending` would permit by the rules of now."""
        members = line.classes.get((pending.request, pending.choice))
        if members is None:
            members = EqualRequests(pending.request, pending.choice)
        return self.permitted(line, members)

    def matching(self, line: PendingQueue, choice: FlavorChoice) -> list[str]:
        """Flavors of the queue that will do, in the order of nomination/flavor_choice.py."""
        document = line.node.document
        if document is None:
            return []
        spot_first = document.policy.spot_first
        return permitted(document.flavors, self.kinds, choice, spot_first=spot_first)

    def could_fit(self, line: PendingQueue) -> bool:
        """Whether any flavor has room, or hope of it, for the least of all that wait."""
        least, document, head = line.least, line.node.document, line.head()
        if least is None or document is None or head is None:
            return False
        flavors, owned_only = tuple(document.flavors), self.within_nominal(line)
        return (
            self._first_with_room(line, flavors, least, owned_only=owned_only, any_will_do=True)
            or self._hoped_for(line, flavors, least, head.priority, owned_only=owned_only).flavor
        ) != ""


def most_of(line: PendingQueue, choice: FlavorChoice, flavor: str) -> Amount:
    """What such work may ever have there, all together."""
    if may_borrow(line.node, evictable=choice.evictable):
        return line.node.potential(flavor)
    return least(line.node.owned(flavor), line.node.potential(flavor))


def _may_use(
    line: PendingQueue, flavors: Sequence[str], request: Amount, *, owned_only: bool
) -> Sequence[str]:
    """Those in which it may go now."""
    if not owned_only:
        return flavors
    return [one for one in flavors if within_nominal(line.node, one, request)]
