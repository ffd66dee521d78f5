"""Quota tells the first of each queue why it waits, and only when the reason is another.

A queue can be long, so at most `TOLD_MAX` of it know their reason; one that leaves makes room for
the next. Reasons are told again after a change of rules, and to the head of a strict queue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from shared.core.model.decision import Refusal
from shared.core.queueing.nomination.pending import Pending
from shared.core.queueing.nomination.pending_queue import EqualRequests, PendingQueue
from shared.core.queueing.nomination.permission import Permissions, most_of
from shared.core.quota import reasons as quota_reasons
from shared.core.quota.fair_share import within_nominal

TOLD_MAX: Final = 1_000
"""Waiting workloads of one queue that are told why, the first ones."""

Tell = Callable[[Pending, Refusal], None]


class ReasonTeller:
    """Hands each reason that is news to `tell`."""

    def __init__(self, permissions: Permissions, tell: Tell) -> None:
        self._permissions = permissions
        self._give = tell

    def tell_line(self, line: PendingQueue, open_count: int) -> None:
        """Tell what has changed: everything after a change of rules, else the head and the new."""
        head = line.head() if line.strict else None
        if line.retell:
            line.retell = False
            for pending in line.told.values():
                self._tell(line, pending, self.refusal(line, pending, head, open_count))
        elif head is not None and head.told is not None:
            self._tell(line, head, self.refusal(line, head, head, open_count))
        self.tell_more(line, head, open_count)

    def tell_more(self, line: PendingQueue, head: Pending | None, open_count: int) -> None:
        """Tell the first that were not told yet, up to the bound."""
        while len(line.told) < TOLD_MAX:
            pending = line.untold.pop()
            if pending is None:
                return
            self._tell(line, pending, self.refusal(line, pending, head, open_count))

    def _tell(self, line: PendingQueue, pending: Pending, refusal: Refusal) -> None:
        if pending.told is refusal.reason:
            return
        pending.told = refusal.reason
        line.told[pending.id] = pending
        self._give(pending, refusal)

    def refusal(
        self, line: PendingQueue, pending: Pending, head: Pending | None, open_count: int
    ) -> Refusal:
        """Why a waiting workload is not nominated; `head` is the first of a strict queue."""
        document = line.node.document
        if line.held and document is not None:
            return quota_reasons.queue_held(line.name, draining=document.draining)
        members = line.classes[pending.request, pending.choice]
        permitted = self._permissions.permitted(line, members)
        by_budget = self._permissions.by_budget(line, members)
        if not permitted:
            return by_budget or self._never(line, members)
        if head is not None and head is not pending:
            return quota_reasons.behind_head(line.name, head.id)
        kept = by_budget or self._own_is_short(line, members, permitted)
        if kept is not None:
            return kept
        for flavor in permitted:
            blocking = self._permissions.tree.blocking(line.node, flavor, members.request)
            if blocking is not None:
                node, asked = blocking
                return quota_reasons.waiting(line.node, node, flavor, asked)
        return quota_reasons.window_full(open_count)

    def _own_is_short(
        self, line: PendingQueue, members: EqualRequests, permitted: Sequence[str]
    ) -> Refusal | None:
        """It may not borrow, and its queue owns too little everywhere beside what it uses."""
        if not self._permissions.owned_only(line, members.choice) or any(
            within_nominal(line.node, one, members.request) for one in permitted
        ):
            return None
        return quota_reasons.may_not_borrow(line.node, permitted[0], members.request)

    def _never(self, line: PendingQueue, members: EqualRequests) -> Refusal:
        choice = members.choice
        matching = self._permissions.matching(line, choice)
        if not matching and self._permissions.matching(line, choice._replace(interruptible=True)):
            return quota_reasons.only_spot(line.name)
        if not matching:
            return quota_reasons.no_flavor(line.name, choice.products)
        largest = max(matching, key=lambda one: most_of(line, choice, one))
        most = most_of(line, choice, largest)
        return quota_reasons.exceeds(line.node, largest, members.request, most)
