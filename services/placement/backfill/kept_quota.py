"""What of a quota is kept for one workload, and what others may take beside it (ADR 54).

For one workload in each flavor of each tree: which, services/placement/backfill/quota_heads.py
says. A workload that is later in queue order is offered only what will be left over beside it,
unless it will have ended before that quota can be there. No workload is held back from what its
own queue owns, except by the first of that queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from services.placement.backfill.lengths import waited_ms
from services.placement.backfill.promises import Promises
from services.placement.state.queue_order import QueueOrder
from services.placement.state.records import Record
from services.placement.state.usage import Usage
from shared.core.model.amounts import Amount, amount, resources
from shared.core.model.decision import Reason, Refusal
from shared.core.model.units import Resources
from shared.core.queueing import WaitingIndex
from shared.core.quota.fair_share import within_nominal
from shared.core.quota.limits import exceeding, least
from shared.core.quota.reasons import kept_for
from shared.core.quota.tree import QuotaNode

Place = tuple[str, str]
"""Root of a tree, flavor."""
Turn = tuple[Any, ...]
"""Smaller is earlier."""


@dataclass(slots=True, kw_only=True)
class Kept:
    """A core.backfill.kept_quota.Keeping for one that had this `turn` when it was worked out."""

    record: Record
    turn: Turn
    levels: tuple[str, ...]
    until_ms: int
    spare: Amount
    missed: int
    """How often it became later, as others say too little of their lengths: each time they are
    believed half as much."""

    def counts(self, queue: QuotaNode) -> bool:
        """Whether what `queue` takes may be missing where quota is short."""
        return any(node.name in self.levels for node in queue.path())


class KeptQuota:
    """All of one cell; `now_ms` is the time of the present batch."""

    def __init__(
        self,
        usage: Usage,
        turns: QueueOrder,
        waiting: WaitingIndex,
        promises: Promises,
        head_after_ms: int,
    ) -> None:
        self._usage, self._turns, self._waiting = usage, turns, waiting
        self._promises, self._head_after_ms = promises, head_after_ms
        self.at: dict[Place, Kept] = {}
        self.now_ms = 0

    def limit(self, record: Record, flavor: str, room: Resources) -> Resources:
        """Of `room`, its quota there, what is not kept for a workload before it."""
        kept = self._before(record, flavor)
        return room if kept is None else resources(least(amount(room), kept.spare))

    def took(self, record: Record, flavor: str, charge: Resources) -> None:
        """It was charged: there is less beside the first, unless it ends before."""
        queue = self._usage.tree.node(record.workload.queue)
        kept = self.at.get((queue.root.name, flavor))
        if kept is not None and kept.counts(queue) and not self._ends_before(record, kept):
            kept.spare = exceeding(kept.spare, amount(charge))

    def told(self, record: Record, refusal: Refusal) -> Refusal:
        """The refusal; that quota is kept for another, if it is that which hinders."""
        if refusal.reason is not Reason.WAITING_FOR_QUOTA or record.nomination is None:
            return refusal
        for flavor in record.nomination.flavors:
            kept = self._before(record, flavor)
            free = self._usage.headroom(record.workload.queue, flavor)
            if kept is not None and resources(record.least).fits_in(free):
                level, first = self._usage.tree.node(kept.levels[0]), kept.record
                wanted, until_ms = first.least, kept.until_ms
                return kept_for(level, flavor, first.workload.queue, wanted, until_ms)
        return refusal

    def waits(self, record: Record) -> bool:
        """Whether it is still to be tried."""
        return record.workload.id in self._waiting and record.nomination is not None

    def turn(self, record: Record) -> Turn:
        """Old workloads, by age; then priority, the rank of its queue, age (queueing/waiting.py).

        What runs already, and would only grow, comes last.
        """
        if record.nomination is None:
            return (2,)
        order_key = record.nomination.order_key
        if self._is_old(record):
            return 0, order_key[1:], record.workload.id
        rank = self._turns.rank(record.workload.id)
        return 1, order_key[0], rank, order_key, record.workload.id

    def _before(self, record: Record, flavor: str) -> Kept | None:
        """What is kept from it."""
        if not self.at:
            return None
        queue = self._usage.tree.node(record.workload.queue)
        kept = self.at.get((queue.root.name, flavor))
        if kept is None or kept.record is record or not self.waits(kept.record):
            return None
        same = queue.name == kept.record.workload.queue
        if not same and within_nominal(queue, flavor, record.least):
            return None
        if not kept.counts(queue) or self._ends_before(record, kept):
            return None
        return kept if self._comes_first(kept, record, same_queue=same) else None

    def _comes_first(self, kept: Kept, record: Record, *, same_queue: bool) -> bool:
        """In one queue by priority and age alone, whatever it owns that suffices for the small."""
        mine, others = record.nomination, kept.record.nomination
        if same_queue and mine is not None and others is not None:
            old = self._is_old(kept.record), self._is_old(record)
            return others.order_key < mine.order_key if old[0] == old[1] else old[0]
        return kept.turn < self.turn(record)

    def _is_old(self, record: Record) -> bool:
        return waited_ms(record, self.now_ms) > self._head_after_ms

    def _ends_before(self, record: Record, kept: Kept) -> bool:
        length_ms = self._promises.length_ms(record)
        return length_ms is not None and (
            self.now_ms + (length_ms << kept.missed) <= kept.until_ms
        )
