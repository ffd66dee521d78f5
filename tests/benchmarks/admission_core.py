"""The quota core alone on the shapes of the benchmark `admission`, in virtual time.

No broker or database, and of placement the order and the quota alone: what is nominated is placed
at once if the ledger could charge it, waits in the index if not, and ends after its run time.
Everything is created at once; `decided` is the time until each is nominated or told why not.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from typing import Any, Final

from shared.core.queueing.nomination.decision import Decision, Expect, Nominate
from shared.core.queueing.nomination.nominator import Nominator
from shared.core.queueing.nomination.pending import Pending
from shared.core.queueing.waiting import WaitingIndex
from shared.core.quota.tree import FlavorLimits, QuotaDocument, QuotaTree
from tests.benchmarks.admission_shapes import (
    BORROWED_CPU_MAX,
    FLAVOR,
    MEMORY_MIB,
    MEMORY_QUOTA_MIB,
    NOMINAL_CPU,
    Arrival,
    Shape,
    arrivals,
)

BATCH: Final = 500
"""Workloads in one unit of work, as the services take them."""


def prepared(shape: Shape) -> tuple[Nominator, list[tuple[Pending, Arrival]]]:
    """A core with all documents applied, and who will wait."""
    core = Nominator()
    limits = FlavorLimits(
        nominal=(0, NOMINAL_CPU * 1_000, MEMORY_QUOTA_MIB),
        borrowing_limit=(0, BORROWED_CPU_MAX * 1_000, MEMORY_QUOTA_MIB),
    )
    for cohort, queue in shape.queue_names():
        core.apply(QuotaDocument(name=cohort, kind="cohort", version=1))
        flavors = {FLAVOR: limits}
        core.apply(
            QuotaDocument(name=queue, kind="queue", version=1, parent=cohort, flavors=flavors)
        )
    return core, [(_pending(number, one), one) for number, one in enumerate(arrivals(shape))]


def _pending(number: int, arrival: Arrival) -> Pending:
    return Pending(
        f"w{number:026d}",
        team="bench",
        queue=arrival.queue,
        priority=arrival.work.priority,
        submitted_at_ms=arrival.at_ms,
        request=(0, arrival.work.cpu * 1_000, MEMORY_MIB),
    )


class _World:
    """A core, and of placement its waiting index and its own quota tree, without promises."""

    def __init__(self, core: Nominator, waiting: Sequence[tuple[Pending, Arrival]]) -> None:
        self.core = core
        self.running: list[tuple[int, str, Pending]] = []
        self.waits: dict[str, list[int]] = {}
        self._index = WaitingIndex()
        self._ledger = QuotaTree()
        for node in core.tree.nodes.values():
            assert node.document is not None
            self._ledger.apply(node.document)
        self._known = {pending.id: pending for pending, _ in waiting}
        self._work_of = {pending.id: one.work for pending, one in waiting}

    def settle(self, now_ms: int) -> None:
        """Draw conclusions; of what is nominated runs what there is quota for."""
        while True:
            self.core.settle()
            chosen = [one.pending for one in self.core.take() if _is_tried(one)]
            for pending in chosen:
                self._index.add(pending.id, (pending.queue, pending.request), pending.key)
            while (identifier := self._index.pop()) is not None:
                self._try(self._known[identifier], now_ms)
            if not chosen and not self.core.unsettled:
                return

    def _try(self, pending: Pending, now_ms: int) -> None:
        if self._ledger.blocked_by(self._ledger.node(pending.queue), FLAVOR, pending.request):
            self._index.make_inadmissible(
                pending.id, (pending.queue, pending.request), pending.key
            )
            self.core.refused(pending, pending.nomination)
            return
        self._ledger.charge(pending.queue, FLAVOR, pending.request)
        self.core.placed(pending, FLAVOR, pending.request, 1)
        work = self._work_of[pending.id]
        self.waits.setdefault(work.name, []).append(now_ms)
        heapq.heappush(self.running, (now_ms + work.run_ms, pending.id, pending))

    def end(self) -> int:
        """Let whatever ends next end; when that is."""
        now_ms, freed = self.running[0][0], set()
        while self.running and self.running[0][0] == now_ms:
            over = heapq.heappop(self.running)[2]
            self._ledger.charge(over.queue, FLAVOR, over.request, -1)
            self.core.forget(over)
            freed.add(self._root(over))
        self._index.requeue(lambda one: self._root(self._known[one]) in freed)
        return now_ms

    def _root(self, pending: Pending) -> str:
        return self._ledger.node(pending.queue).root.name


def _is_tried(decision: Decision) -> bool:
    """Whether placement tries it now; who is announced it only remembers."""
    nominated = isinstance(decision, Nominate) and not decision.next_of_own
    return nominated or isinstance(decision, Expect)


def measure(shape: Shape) -> dict[str, Any]:
    """Decided a second, whole lives a second, and what the rules alone would give."""
    core, waiting = prepared(shape)
    world = _World(core, waiting)
    begin = time.process_time()
    for start in range(0, len(waiting), BATCH):
        for pending, _ in waiting[start : start + BATCH]:
            core.enter(pending)
        world.settle(0)
    decided = time.process_time() - begin
    now_ms = 0
    while world.running:
        now_ms = world.end()
        world.settle(now_ms)
    seconds = time.process_time() - begin
    assert sum(map(len, world.waits.values())) == len(waiting), "somebody was never nominated"
    return {
        "workloads": len(waiting),
        "decided_per_second": round(len(waiting) / decided),
        "lives_per_second": round(len(waiting) / seconds),
        "useful_utilisation_percent": round(100 * shape.ideal_ms / now_ms, 1),
        "mean_seconds_to_admission": {
            name: _mean(each) for name, each in sorted(world.waits.items())
        },
    }


def _mean(milliseconds: Sequence[int]) -> float:
    return round(sum(milliseconds) / len(milliseconds) / 1_000, 2)
