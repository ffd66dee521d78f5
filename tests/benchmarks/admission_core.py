"""The quota core alone on the shapes of the benchmark `admission`, in virtual time.

No broker, database or placement: what is nominated is placed at once and ends after its run time.
Everything is created at once; `decided` is the time until each is nominated or told why not.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from typing import Any, Final

from shared.core.nomination import Nominate, Nominator
from shared.core.pending import Pending
from shared.core.quota import FlavorLimits, QuotaDocument
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


def measure(shape: Shape) -> dict[str, Any]:
    """Decided a second, whole lives a second, and what the rules alone would give."""
    core, waiting = prepared(shape)
    running: list[tuple[int, str, Pending]] = []
    work_of = {pending.id: one.work for pending, one in waiting}
    waits: dict[str, list[int]] = {}

    def settle(now_ms: int) -> None:
        """Draw conclusions; what is nominated runs at once."""
        while True:
            core.settle()
            chosen = [one.pending for one in core.take() if isinstance(one, Nominate)]
            for pending in chosen:
                core.placed(pending, pending.flavor, pending.request, 1)
                work = work_of[pending.id]
                waits.setdefault(work.name, []).append(now_ms)
                heapq.heappush(running, (now_ms + work.run_ms, pending.id, pending))
            if not chosen and not core.unsettled:
                return

    begin = time.perf_counter()
    for start in range(0, len(waiting), BATCH):
        for pending, _ in waiting[start : start + BATCH]:
            core.enter(pending)
        settle(0)
    decided = time.perf_counter() - begin
    now_ms = 0
    while running:
        now_ms = running[0][0]
        while running and running[0][0] == now_ms:
            core.forget(heapq.heappop(running)[2])
        settle(now_ms)
    seconds = time.perf_counter() - begin
    assert sum(map(len, waits.values())) == len(waiting), "somebody was never nominated"
    return {
        "workloads": len(waiting),
        "decided_per_second": round(len(waiting) / decided),
        "lives_per_second": round(len(waiting) / seconds),
        "useful_utilisation_percent": round(100 * shape.ideal_ms / now_ms, 1),
        "mean_seconds_to_admission": {name: _mean(each) for name, each in sorted(waits.items())},
    }


def _mean(milliseconds: Sequence[int]) -> float:
    return round(sum(milliseconds) / len(milliseconds) / 1_000, 2)
