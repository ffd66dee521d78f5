"""Who of a fairness world is promised a start, as by services/placement/backfill/promises.py."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping
from typing import Any

from services.placement.backfill.heads import HEAD_AFTER_HOURS
from shared.core.backfill.backfill import Backfill
from shared.core.backfill.promise import PROMISES_MAX, Waiter
from shared.core.model.demand import gang_of
from shared.core.quota.attainable import Attainable
from shared.core.quota.fair_share import arrears
from tests.benchmarks.fairness_fleet import Fleet
from tests.benchmarks.fairness_live import Class, Live
from tests.benchmarks.fairness_world import FLAVOR


class Promises:
    """Starts that were promised, and who was refused for want of whole nodes."""

    def __init__(self, fleet: Fleet, live: Mapping[str, Live]) -> None:
        self._fleet, self._live = fleet, live
        self._backfill = Backfill(fleet.cluster, fleet.timeline)
        self._blocked: dict[Class, Live] = {}
        """By class of requests."""

    def __bool__(self) -> bool:
        """Whether any stands."""
        return bool(self._backfill.promises)

    def due(self, now_ms: int) -> list[str]:
        """Whose promised start has come."""
        standing = self._backfill.promises.items()
        return [name for name, promise in standing if promise.start_ms <= now_ms]

    def nodes_of(self, workload_id: str) -> Collection[str]:
        """The nodes that are kept for it."""
        promise = self._backfill.promises.get(workload_id)
        return promise.nodes if promise else ()

    def pins_for(
        self, live: Live, now_ms: int, yields: Callable[[str], bool] | None
    ) -> tuple[int, ...]:
        """Kept nodes on which it may lie if it starts now."""
        return self._backfill.pins_for(live.workload.id, now_ms + live.left_ms, yields)

    def refused(self, live: Live) -> None:
        """It needs whole nodes and found none; the first of a class speaks for it."""
        self._blocked.setdefault(live.kind, live)

    def drop(self, workload_id: str) -> bool:
        """It starts or waits for room no more; whether nodes are freer now."""
        return workload_id in self._backfill.promises and bool(self._backfill.drop(workload_id))

    def plan(self, now_ms: int) -> bool:
        """Promise the first who need whole nodes a start; whether nodes are freer after it."""
        blocked = [live for live in self._blocked.values() if live.placement is None]
        self._blocked = {}
        if not blocked and not self._backfill.promises:
            return False
        can_have = Attainable()
        able = (one for one in blocked if self._fits(one, can_have))
        first = heapq.nsmallest(PROMISES_MAX, able, key=lambda one: self._turn(one, now_ms))
        chosen = {live.workload.id for live in first}
        standing = [self._live[one] for one in self._backfill.promises if one not in chosen]
        kept = [one for one in standing if self._fits(one, can_have)]
        waiters = [_waiter(live) for live in (*kept, *first)]
        return bool(self._backfill.plan(waiters[:PROMISES_MAX], now_ms))

    def _fits(self, live: Live, can_have: Attainable) -> bool:
        queue = self._fleet.ledger.node(live.job.team)
        return can_have.fits(queue, FLAVOR, live.pending.request)

    def _turn(self, live: Live, now_ms: int) -> tuple[Any, ...]:
        """Who waits longest of those who wait too long, else who is owed most, and age."""
        aged = now_ms - live.asked_ms > HEAD_AFTER_HOURS * 3_600_000
        queue = self._fleet.ledger.node(live.job.team)
        owed = () if aged else arrears(queue, (FLAVOR,), live.pending.request)
        return (not aged, owed, live.pending.key, live.workload.id)


def _waiter(live: Live) -> Waiter:
    return Waiter(
        workload_id=live.workload.id,
        gang=gang_of(live.workload),
        flavors=(FLAVOR,),
        length_ms=live.left_ms,
    )
