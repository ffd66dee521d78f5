"""The state of one cell in memory.

What a workload takes and gives back passes through here once: the cluster arrays, the quota, the
promises and the ledger rows of the unit of work stay in step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from services.placement.backfill.headroom import Headroom
from services.placement.backfill.heads import HEAD_AFTER_HOURS
from services.placement.backfill.kept_quota import KeptQuota
from services.placement.backfill.promises import Promises
from services.placement.backfill.quota_heads import QuotaHeads
from services.placement.state.heard import LastHeard
from services.placement.state.queue_order import QueueOrder
from services.placement.state.records import Record, Records
from services.placement.state.reservations import Reservations
from services.placement.state.spent_budgets import SpentBudgets
from services.placement.state.usage import Usage
from services.placement.unit.deadlines import Deadlines
from services.placement.unit.unit_of_work import UnitOfWork
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.placement.resize import joined, shrunk_to, surplus
from shared.core.queueing import WaitingIndex
from shared.core.scoring import Cluster

START_SECONDS: Final = 120
"""Bound but not running after so long: evicted and queued again."""
START_SECONDS_MAX: Final = 1_800
"""From placing to running at most, with the binder's backlog and the pull of images."""


@dataclass(slots=True, kw_only=True)
class CellState:
    """Memory of the placement service. `unit` is the unit of work in hand."""

    cell: int
    cluster: Cluster
    head_after_hours: int = HEAD_AFTER_HOURS
    start_seconds: int = START_SECONDS
    epoch: int = 0
    records: Records = field(default_factory=Records)
    usage: Usage = field(default_factory=Usage)
    spent_budgets: SpentBudgets = field(default_factory=SpentBudgets)
    heard: LastHeard = field(default_factory=LastHeard)
    unit: UnitOfWork = field(init=False)
    deadlines: Deadlines = field(init=False)
    reservations: Reservations = field(init=False)
    queue_order: QueueOrder = field(init=False)
    waiting: WaitingIndex = field(init=False)
    promises: Promises = field(init=False)
    kept_quota: KeptQuota = field(init=False)
    headroom: Headroom = field(init=False)
    quota_heads: QuotaHeads = field(init=False)
    off_size: dict[str, None] = field(default_factory=dict)
    """Workloads that were seen to run with another number of pods than they are to have."""

    def __post_init__(self) -> None:
        """All parts look at the same cluster, quota and records."""
        records, usage = self.records, self.usage
        self.unit = UnitOfWork(cell=self.cell, records=records)
        self.deadlines = Deadlines(records)
        self.reservations = Reservations(self.cluster, usage, records)
        self.queue_order = QueueOrder(usage, records)
        self.waiting = WaitingIndex(self.queue_order.rank, self.queue_order.rank_at_least)
        self.promises = Promises(self.cluster, records, self.head_after_hours)
        head_after_ms = self.head_after_hours * 3_600_000
        self.kept_quota = KeptQuota(
            usage, self.queue_order, self.waiting, self.promises, head_after_ms
        )
        self.headroom = Headroom(usage, self.spent_budgets, self.kept_quota)
        self.quota_heads = QuotaHeads(
            usage, records, self.headroom, self.promises, self.kept_quota
        )

    def begin(self, now_ms: int) -> None:
        """Start a unit of work."""
        self.kept_quota.now_ms = now_ms
        self.promises.begin()
        self.unit.begin(now_ms)

    def know(self, record: Record) -> None:
        """A workload is heard of: from now on it is alive, and its time to live is watched."""
        self.records.add(record)
        self.deadlines.watch(record)

    def pins_for(self, record: Record) -> tuple[int, ...]:
        """Kept nodes that it may use now, by being owed, too."""
        yields = self.queue_order.yields_to(record, self.promises.standing)
        return self.promises.pins_for(record, self.unit.now_ms, yields)

    # ── what a workload takes and gives back ──

    def charge(self, record: Record) -> None:
        """Write down what `place` has charged in the cluster arrays already."""
        assert record.placement is not None
        self.usage.charge(record.workload.queue, record.placement.flavor, record.placement.charge)
        self._began(record)
        self.heard.note(record.workload.id, self.unit.now_ms)
        self.unit.ledger.charge(record.workload, record.attempt, record.placement)

    def release(self, record: Record) -> None:
        """Give back everything that the attempt holds."""
        assert record.placement is not None
        workload, placement = record.workload, record.placement
        self.cluster.release(workload.team, placement.pods, workload.spec.pod_sets)
        more = self.usage.release(workload.queue, placement.flavor, placement.charge)
        self.records.off_nodes(record)
        self.heard.forget(workload.id)
        self.promises.ended(record, self.unit.now_ms)
        self.unit.ledger.release(workload, placement)
        record.placement = None
        self.reservations.released(workload.id)
        self.unit.freed(more, placement.pods)

    def grow(self, record: Record, added: Placement) -> None:
        """Write down that it holds `added` too, charged in the cluster arrays already."""
        assert record.placement is not None
        workload = record.workload
        self.usage.charge(workload.queue, added.flavor, added.charge)
        self.unit.ledger.charge(workload, record.attempt, added)
        record.placement = joined(record.placement, added)
        self._began(record)

    def shrink(self, record: Record, pods_kept: int) -> None:
        """Give back what the ranks from `pods_kept` on hold."""
        assert record.placement is not None
        workload, before = record.workload, record.placement
        gone = surplus(before, pods_kept)
        self.records.off_nodes(record)
        self.promises.left(record)
        record.placement = shrunk_to(workload, before, pods_kept)
        self._began(record)
        self.cluster.release(workload.team, gone, workload.spec.pod_sets)
        less = before.charge - record.placement.charge
        more = self.usage.release(workload.queue, before.flavor, less)
        self.unit.ledger.shrink(workload, pods_kept, gone)
        self.reservations.released(workload.id)
        self.unit.freed(more, gone)

    def _began(self, record: Record) -> None:
        """It holds the nodes of its placement from now on."""
        self.records.on_nodes(record)
        self.promises.began(record, self.unit.now_ms)

    def withdraw(self, record: Record, *, for_quota: bool = False) -> int:
        """Let it wait no more; until when room is kept for it all the same, as it moves, or 0.

        `for_quota`: from now on it waits for quota, and hears of a promise that is not kept.
        """
        self.waiting.remove(record.workload.id)
        if for_quota:
            self.promises.quota_gone(record.workload.id)
        else:
            self.promises.withdrawn(record.workload.id)
        record.nomination = None
        moves_until_ms = self.reservations.moves_until_ms(record.workload.id)
        if moves_until_ms and record.state is State.QUEUED:
            return moves_until_ms
        self.reservations.withdrawn(record.workload.id)
        return 0
