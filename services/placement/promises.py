"""Who waits at the head is promised a start, and its nodes are kept (core/backfill.py).

Kept in step by the desk: what begins and ends goes into the timeline, who waits no more loses his
promise. The trials say who was refused for want of room; of these the first few are promised to,
after each unit in which something changed that matters to them: somebody new among the first, a
promise given up, kept or due, work that ended before its time, or somebody refused while nodes
are kept. With nobody refused this costs an entry for each node of what begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from datetime import UTC, datetime
from heapq import nsmallest
from typing import Any, Final

from services.placement.promise_rows import kept_nodes, promise_writes, read_promises
from services.placement.records import Record, Records
from shared.core.backfill import LATE_MS, PROMISES_MAX, Backfill, Promise, Waiter
from shared.core.cluster import Cluster
from shared.core.decision import Reason, Refusal
from shared.core.demand import gang_of
from shared.core.estimates import Estimates
from shared.core.lifecycle import State
from shared.core.timeline import NEVER, Timeline
from shared.core.value import replace
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received
from shared.events.nodes import KeptFor, NodesKept
from shared.ports.reader import Reader
from shared.ports.store import Write

DUE: Final = "promise"
"""Kind of the message of a promise that was not kept in time."""
HEAD_AFTER_MS: Final = 6 * 3_600_000
"""Who waits longer is at the head, whatever its share (mission Q8)."""
EARLY_MS: Final = 1_000
"""Work that ends so much before its time may let somebody start earlier."""
ROOM: Final = frozenset({Reason.NO_CAPACITY, Reason.GANG_SHORT, Reason.TOPOLOGY})
"""Reasons that time alone can mend."""


class Promises:
    """Promises of one cell, and who may be given the next."""

    def __init__(self, cluster: Cluster, records: Records) -> None:
        self._cluster, self._records = cluster, records
        self._timeline, self._estimates = Timeline(), Estimates()
        self._backfill = Backfill(cluster, self._timeline)
        self._blocked: dict[Hashable, str] = {}
        """By class of requests: the one that was refused for want of room."""
        self._class_of: dict[str, Hashable] = {}
        self._stale = False
        self._written: dict[str, Promise] = {}
        """Those that have rows."""
        self._told: tuple[dict[str, Promise], tuple[KeptFor, ...]] = ({}, ())
        """Of which promises the kept nodes were looked at last, and what was told of them."""
        self.loosened: list[str] = []
        """Nodes that may be used more freely since the last `take_loosened`."""

    @property
    def standing(self) -> Collection[Promise]:
        """All promises."""
        return self._backfill.promises.values()

    def of(self, workload_id: str) -> Promise | None:
        """What a workload was promised."""
        return self._backfill.promises.get(workload_id)

    # ── what begins and ends ──

    def began(self, record: Record, now_ms: int) -> None:
        """It holds its nodes from now on; the promise to it is kept."""
        assert record.placement is not None
        if record.began_at_ms == 0:
            record.began_at_ms = now_ms
        nodes = {pod.node for pod in record.placement.pods}
        span = (record.began_at_ms, self._length_ms(record))
        self._timeline.begin(record.workload.id, nodes, span)
        self.withdrawn(record.workload.id)

    def running(self, record: Record, now_ms: int) -> None:
        """Its clock starts now; it was placed a little earlier."""
        record.began_at_ms = now_ms
        self.began(record, now_ms)

    def left(self, record: Record) -> None:
        """It leaves the nodes of its placement."""
        assert record.placement is not None
        nodes = {pod.node for pod in record.placement.pods}
        self._timeline.finish(record.workload.id, nodes)

    def ended(self, record: Record, now_ms: int) -> None:
        """It holds nothing any more."""
        self.left(record)
        length_ms, lasted_ms = self._length_ms(record), now_ms - record.began_at_ms
        if length_ms is None or lasted_ms < length_ms - EARLY_MS:
            self._stale = True
        if record.state is State.SUCCEEDED:
            self._estimates.note(record.workload, max(lasted_ms // 1000, 1))
        record.began_at_ms = 0

    def withdrawn(self, workload_id: str) -> None:
        """It waits for room no more."""
        request = self._class_of.pop(workload_id, None)
        if request is not None and self._blocked.get(request) == workload_id:
            del self._blocked[request]
        if workload_id in self._backfill.promises:
            self.loosened += self._backfill.drop(workload_id)
            self._stale = True

    def changed(self) -> None:
        """A node is in another condition, or a promise was not kept: plan anew."""
        self._stale = True

    # ── rows ──

    def restored(self, record: Record, since_ms: int) -> None:
        """It held its nodes before the restart, at least since its row last changed."""
        record.began_at_ms = since_ms
        self.began(record, since_ms)

    async def load(self, reader: Reader) -> None:
        """Keep again what was promised to those that still wait."""
        promises = await read_promises(reader)
        self._written = {one.workload_id: one for one in promises}
        waiting = [one for one in promises if self._waits(one.workload_id)]
        self._backfill.restore(waiting)
        for one in waiting:
            # Its class of requests is learned when it is tried again.
            self._blocked[one.workload_id] = one.workload_id
            self._class_of[one.workload_id] = one.workload_id
        self._told = self._written, kept_nodes(self._written)

    def _waits(self, workload_id: str) -> bool:
        record = self._records.alive.get(workload_id)
        return record is not None and record.nomination is not None

    def writes(self) -> list[Write]:
        """The rows that changed since the last call."""
        if self._written is self._backfill.promises:
            return []
        writes = promise_writes(self._written, self._backfill.promises)
        self._written = self._backfill.promises
        return writes

    def news(self) -> NodesKept | None:
        """Which nodes are kept for whom, if that is not what was told last."""
        promises, (seen, told) = self._backfill.promises, self._told
        if promises is seen:
            return None
        kept = kept_nodes(promises)
        self._told = promises, kept
        return NodesKept(kept=kept) if kept != told else None

    # ── who may use what ──

    def pins_for(self, record: Record, now_ms: int) -> tuple[int, ...]:
        """Pinned nodes on which it may lie if it starts now."""
        if not self._backfill.promises:
            return ()
        length_ms = self._length_ms(record)
        end_ms = NEVER if length_ms is None else now_ms + length_ms
        return self._backfill.pins_for(record.workload.id, end_ms)

    def length_class(self, record: Record) -> int:
        """Requests of about equal length are tried once: by powers of two."""
        length_ms = self._length_ms(record)
        return -1 if length_ms is None else (length_ms // 1000).bit_length()

    def _length_ms(self, record: Record) -> int | None:
        """Asked once for each workload, so that all answers about it agree."""
        if record.expected_seconds < 0:
            seconds = self._estimates.seconds(record.workload)
            record.expected_seconds = 0 if seconds is None else seconds
        return record.expected_seconds * 1000 or None

    # ── who is next ──

    def refused(self, record: Record, request: Hashable, refusal: Refusal, now_ms: int) -> None:
        """It found no room: the head of its class may be promised some."""
        workload_id = record.workload.id
        if self._backfill.promises:
            self._stale = True
        if refusal.reason not in ROOM or not self._is_head(record, now_ms):
            self.withdrawn(workload_id)
        elif self._blocked.get(request) != workload_id:
            self._blocked.pop(self._class_of.get(workload_id), None)
            self._class_of.pop(self._blocked.get(request, ""), None)
            self._blocked[request] = workload_id
            self._class_of[workload_id] = request
            self._stale = True

    def _is_head(self, record: Record, now_ms: int) -> bool:
        """Gangs, and pods that fill a node, starve beside small work; anybody does in the end."""
        demands = gang_of(record.workload).demands
        if not any(demand.gpus for demand in demands):
            return False
        largest = max(demand.gpus for demand in demands)
        return (
            record.workload.pods > 1
            or any(key.gpus == largest for key in self._cluster.kinds)
            or _aged(record, now_ms)
        )

    def plan(self, rank: Callable[[str], tuple[Any, ...]], now_ms: int) -> list[Promise]:
        """Promise anew if anything changed that matters; the promises that are to be told."""
        if not self._stale or not (self._blocked or self._backfill.promises):
            return []
        self._stale = False
        before = self._backfill.promises
        kept = [name for name in before if name in self._class_of]
        others = [name for name in self._blocked.values() if name not in before]
        following = nsmallest(
            PROMISES_MAX - len(kept), others, key=lambda name: self._place(name, rank, now_ms)
        )
        waiters = [self._waiter(self._records.alive[name]) for name in (*kept, *following)]
        self.loosened += self._backfill.plan(waiters, now_ms)
        after = self._backfill.promises
        return [one for name, one in after.items() if _is_news(one, before.get(name))]

    def _place(
        self, workload_id: str, rank: Callable[[str], tuple[Any, ...]], now_ms: int
    ) -> tuple[Any, ...]:
        """Who is old first; then by priority, those that ran already, and rank."""
        record = self._records.alive[workload_id]
        assert record.nomination is not None
        order_key = record.nomination.order_key
        if _aged(record, now_ms):
            return (False, record.workload.submitted_at_ms, False, (), order_key, workload_id)
        first = (True, -record.priority, record.attempt == 0)
        return (*first, rank(workload_id), order_key, workload_id)

    def _waiter(self, record: Record) -> Waiter:
        assert record.nomination is not None
        return Waiter(
            workload_id=record.workload.id,
            gang=gang_of(record.workload),
            flavors=record.nomination.flavors,
            length_ms=self._length_ms(record),
        )

    def take_loosened(self) -> list[str]:
        """Nodes that others may use more freely since the last call."""
        loosened, self.loosened = self.loosened, []
        return loosened

    # ── time ──

    def next_due_ms(self) -> int | None:
        """When the first promise is broken."""
        return min((one.promised_ms + LATE_MS for one in self.standing), default=None)

    def due(self, now_ms: int) -> Sequence[Received]:
        """A message for each promise that was not kept."""
        return [
            deadline_message(DUE, one.workload_id, one.missed, one.promised_ms + LATE_MS)
            for one in self.standing
            if one.promised_ms + LATE_MS <= now_ms
        ]


def with_promise(refusal: Refusal, promise: Promise) -> Refusal:
    """The refusal of one that waits for its promised start."""
    start = datetime.fromtimestamp(promise.promised_ms / 1000, UTC)
    count = len(promise.nodes)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    message = (
        f"{refusal.message.rstrip('.')}. It starts at {start:%Y-%m-%d %H:%M} UTC at the latest,"
        f" on {nodes} kept for it, if what runs there ends in time."
    )
    evidence = {"promised_start_ms": promise.promised_ms, "promised_nodes": count}
    return replace(refusal, message=message, evidence=refusal.evidence | evidence)


def _is_news(promise: Promise, before: Promise | None) -> bool:
    """Whether the start is another than was told, by more than may be late."""
    return before is None or abs(promise.promised_ms - before.promised_ms) > LATE_MS


def _aged(record: Record, now_ms: int) -> bool:
    return now_ms - record.workload.submitted_at_ms > HEAD_AFTER_MS
