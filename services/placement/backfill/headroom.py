"""What of the quota of its flavors a workload may be charged now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.placement.backfill.kept_quota import KeptQuota
from services.placement.state.records import Record
from services.placement.state.spent_budgets import SpentBudgets
from services.placement.state.usage import Usage
from shared.core.model.amounts import Amount, amount, resources
from shared.core.model.units import Resources
from shared.core.queueing.nomination import in_order_of_use
from shared.core.quota.fair_share import may_borrow, within_nominal
from shared.core.quota.limits import least


class Headroom:
    """All workloads of one cell."""

    def __init__(self, usage: Usage, spent_budgets: SpentBudgets, kept_quota: KeptQuota) -> None:
        self._usage, self._spent_budgets, self._kept_quota = usage, spent_budgets, kept_quota

    def of(self, record: Record) -> Mapping[str, Resources]:
        """What it may be charged in each permitted flavor, in the order to try them.

        The ledger charges no flavor in which the queue has no quota.
        """
        rooms = self._rooms(record)
        return {
            flavor: self._kept_quota.limit(record, flavor, room) for flavor, room in rooms.items()
        }

    def _rooms(self, record: Record) -> Mapping[str, Resources]:
        """The same, whatever is kept for others."""
        assert record.nomination is not None
        usage, queue = self._usage, record.workload.queue
        flavors = [one for one in record.nomination.flavors if usage.names(queue, one)]
        if len(flavors) > 1 and not record.nomination.within_nominal:
            node = usage.tree.node(queue)
            before = node.document is None or node.document.policy.borrow_before_preempt
            ordered = in_order_of_use(node, flavors, record.least, borrow_before_preempt=before)
            return {flavor: usage.headroom(queue, flavor) for flavor in ordered}
        return {flavor: self.room(record, flavor) for flavor in flavors}

    def room(self, record: Record, flavor: str) -> Resources:
        """What it may be charged in one flavor: of its queue's own, where that may not borrow."""
        queue, nomination = record.workload.queue, record.nomination
        own = nomination.within_nominal if nomination else self._owned_only(record)
        return self._own(queue, flavor) if own else self._usage.headroom(queue, flavor)

    def _owned_only(self, record: Record) -> bool:
        """Of one that runs: its budget is spent, or what is borrowed could not be taken back."""
        workload = record.workload
        node = self._usage.tree.node(workload.queue)
        return self._spent_budgets.owned_only(workload.team) or not may_borrow(
            node, evictable=workload.spec.preemptible
        )

    def owned_of(self, record: Record, flavors: Iterable[str]) -> tuple[str, ...]:
        """Of these flavors those in which its queue owns enough for it."""
        node = self._usage.tree.node(record.workload.queue)
        return tuple(one for one in flavors if within_nominal(node, one, record.least))

    def taken(self, queue: str) -> Mapping[str, Amount]:
        """What counts against the quota of a queue, by flavor."""
        node = self._usage.tree.node(queue)
        return {flavor: node.taken(flavor) for flavor in {**node.used, **node.promised}}

    def quota_is_there(self, record: Record) -> bool:
        """Whether the least of its gang could be charged now, were nothing kept for others."""
        least = resources(record.least)
        return any(least.fits_in(room) for room in self._rooms(record).values())

    def has_quota(self, record: Record) -> bool:
        """Whether the least of its gang may be charged in some flavor now."""
        least = resources(record.least)
        return any(least.fits_in(room) for room in self.of(record).values())

    def has_quota_everywhere(self, record: Record) -> bool:
        """Whether the least of its gang may be charged in each of its flavors now.

        What MIG slices are charged depends on the board: for these it is not known.
        """
        assert record.nomination is not None
        if any(one.gpu.mig_profile for one in record.workload.spec.pod_sets):
            return False
        headroom, least = self.of(record), resources(record.least)
        return all(
            flavor in headroom and least.fits_in(headroom[flavor])
            for flavor in record.nomination.flavors
        )

    def _own(self, queue: str, flavor: str) -> Resources:
        """What is left of the queue's own quota."""
        node = self._usage.tree.node(queue)
        room = amount(self._usage.headroom(queue, flavor))
        gpu, cpu, memory = least(node.spare(flavor), room)
        return Resources(gpu_milli=max(0, gpu), cpu_milli=max(0, cpu), memory_mib=max(0, memory))
