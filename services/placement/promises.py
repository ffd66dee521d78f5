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
from shared.core.estimates import UNKNOWN_SECONDS, Estimates
from shared.core.lifecycle import State
from shared.core.spare_room import SpareRoom
from shared.core.timeline import NEVER, Timeline
from shared.core.units import GPU_MILLI
from shared.core.value import replace
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received
from shared.events.nodes import KeptFor
from shared.ports.reader import Reader
from shared.ports.store import Write

DUE: Final = "promise"
"""Kind of the message of a promise that was not kept in time."""
SMALL_AFTER_MS: Final = 6 * 3_600_000
"""Work that fills no node is promised a start once it has waited longer."""
HEAD_AFTER_HOURS: Final = 48
"""Who waits longer is at the head, whatever its priority, share and width (mission Q8)."""
BRIEFEST_MS: Final = 3_600_000
"""Added to lengths in the order of heads, so that very short work is not first for ever."""
EARLY_MS: Final = 1_000
"""Work that ends so much before its time may let somebody start earlier."""
ROOM: Final = frozenset({Reason.NO_CAPACITY, Reason.GANG_SHORT, Reason.TOPOLOGY})
"""Reasons that time alone can mend."""


class Promises:
    """Promises of one cell, and who may be given the next."""

    def __init__(
        self, cluster: Cluster, records: Records, head_after_hours: int = HEAD_AFTER_HOURS
    ) -> None:
        self._cluster, self._records = cluster, records
        self._head_after_ms = head_after_hours * 3_600_000
        self._timeline, self._estimates = Timeline(), Estimates()
        self._room = SpareRoom(cluster)
        self._backfill = Backfill(cluster, self._timeline, self._room)
        self._blocked: dict[Hashable, str] = {}
        """By class of requests: the one that was refused for want of room."""
        self._class_of: dict[str, Hashable] = {}
        self._stale = False
        self._written: dict[str, Promise] = {}
        """Those that have rows."""
        self._kept: tuple[dict[str, Promise], tuple[KeptFor, ...]] = ({}, ())
        """The nodes kept for some promises, and for which."""
        self._heard: dict[str, int] = {}
        """By workload: the start that it was told last."""
        self.loosened: list[str] = []
        """Nodes that may be used more freely since the last `take_loosened`."""

    @property
    def standing(self) -> Collection[Promise]:
        """All promises."""
        return self._backfill.promises.values()

    def of(self, workload_id: str) -> Promise | None:
        """What a workload was promised."""
        return self._backfill.promises.get(workload_id)

    def precedes(
        self, record: Record, other: Record, rank: Callable[[str], tuple[Any, ...]], now_ms: int
    ) -> bool:
        """Whether it goes before `other`, who would be the next to be tried.

        Not before higher priority or an earlier turn. Among equals it does if it was told of a
        promise, or ran and lost its nodes; else who waited longer for its length.
        """
        mine, others = _turn(record, rank), _turn(other, rank)
        if mine != others:
            return mine < others
        first = record.workload.id in self._heard or _lost_its_nodes(record)
        return first or self._urgency(record, now_ms) <= self._urgency(other, now_ms)

    # ── what begins and ends ──

    def began(self, record: Record, now_ms: int) -> None:
        """It holds its nodes from now on; the promise to it is kept."""
        assert record.placement is not None
        if record.began_at_ms == 0:
            record.began_at_ms = now_ms
        nodes = {pod.node for pod in record.placement.pods}
        span = (record.began_at_ms, self._length_ms(record))
        self._timeline.begin(record.workload.id, nodes, span)
        likely = (record.began_at_ms, self._likely_ms(record))
        self._room.begin(record.workload.id, nodes, likely)
        if len(nodes) > 1:
            self._room.note_width(record.placement.flavor, _gpus(record), now_ms)
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
        self._room.finish(record.workload.id, nodes)

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
        self._heard.pop(workload_id, None)
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
        self._heard = {one.workload_id: one.promised_ms for one in promises}
        waiting = [one for one in promises if self._waits(one.workload_id)]
        self._backfill.restore(waiting)
        for one in waiting:
            # Its class of requests is learned when it is tried again.
            self._blocked[one.workload_id] = one.workload_id
            self._class_of[one.workload_id] = one.workload_id

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

    def kept(self) -> tuple[KeptFor, ...]:
        """Which nodes are kept for whom; worked out when promises have changed."""
        seen, kept = self._kept
        if seen is not self._backfill.promises:
            kept = kept_nodes(self._backfill.promises)
            self._kept = self._backfill.promises, kept
        return kept

    # ── who may use what ──

    def pins_for(
        self, record: Record, now_ms: int, yields: Callable[[str], bool] | None = None
    ) -> tuple[int, ...]:
        """Pinned nodes on which it may lie if it starts now; `yields` who gives way to it."""
        if not (self._backfill.promises or self._room.nodes):
            return ()
        length_ms = self._length_ms(record)
        end_ms = NEVER if length_ms is None else now_ms + length_ms
        promised = self._backfill.pins_for(record.workload.id, end_ms, yields)
        return promised + self._rooms(record, now_ms)

    def _rooms(self, record: Record, now_ms: int) -> tuple[int, ...]:
        flavors = record.nomination.flavors if record.nomination is not None else ()
        likely_ms, waited_ms = self._likely_ms(record), _waited_ms(record, now_ms)
        return self._room.open_to(flavors, _gpus(record), likely_ms, waited_ms)

    def waiting_class(self, record: Record) -> tuple[bool, int]:
        """Of equal requests those of about equal length are tried once: by powers of two.

        Who lost its nodes goes before the others, so it is not behind them.
        """
        length_ms = self._length_ms(record)
        length = -1 if length_ms is None else (length_ms // 1000).bit_length()
        return _lost_its_nodes(record), length

    def _length_ms(self, record: Record) -> int | None:
        """Asked once for each workload, so that all answers about it agree."""
        if record.expected_seconds < 0:
            seconds = self._estimates.seconds(record.workload)
            record.expected_seconds = 0 if seconds is None else seconds
        return record.expected_seconds * 1000 or None

    def _likely_ms(self, record: Record) -> int | None:
        """Asked once as well."""
        if record.likely_seconds < 0:
            seconds = self._estimates.likely_seconds(record.workload)
            record.likely_seconds = 0 if seconds is None else seconds
        return record.likely_seconds * 1000 or None

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
            or _waited_ms(record, now_ms) > SMALL_AFTER_MS
        )

    def ahead(
        self,
        rank: Callable[[str], tuple[Any, ...]],
        now_ms: int,
        goes_first: Callable[[str], bool],
    ) -> list[str]:
        """Before anybody is tried: heads for whom nodes enough are free now, in their order.

        Who was promised nothing yet is among them if it `goes_first`.
        """
        if self._blocked or self._backfill.promises:
            self._plan(rank, now_ms, goes_first)
        due = [one for one in self.standing if one.start_ms <= now_ms]
        # Whoever does not start after all gives up these nodes with the next plan.
        self._stale = self._stale or bool(due)
        return [one.workload_id for one in sorted(due, key=lambda one: one.promised_ms)]

    def plan(self, rank: Callable[[str], tuple[Any, ...]], now_ms: int) -> list[Promise]:
        """Promise anew if anything changed that matters; the promises that are to be told."""
        if not (self._blocked or self._backfill.promises):
            self.loosened += self._backfill.keep_room(now_ms)
            return []
        if not self._stale:
            return []
        self._stale = False
        self._plan(rank, now_ms)
        before, after = self._heard, self._backfill.promises
        self._heard = {name: one.promised_ms for name, one in after.items()}
        return [one for name, one in after.items() if _is_news(one, before.get(name))]

    def _plan(
        self,
        rank: Callable[[str], tuple[Any, ...]],
        now_ms: int,
        goes_first: Callable[[str], bool] | None = None,
    ) -> None:
        before = self._backfill.promises
        kept = [name for name in before if name in self._class_of]
        others = [
            name
            for name in self._blocked.values()
            if name not in before and (goes_first is None or goes_first(name))
        ]
        following = nsmallest(
            PROMISES_MAX - len(kept), others, key=lambda name: self._place(name, rank, now_ms)
        )
        waiters = [self._waiter(self._records.alive[name], now_ms) for name in (*kept, *following)]
        self.loosened += self._backfill.plan(waiters, now_ms, ahead=goes_first is not None)

    def _place(
        self, workload_id: str, rank: Callable[[str], tuple[Any, ...]], now_ms: int
    ) -> tuple[Any, ...]:
        """Who is old first; then by priority, who lost its nodes, rank, and response ratio."""
        record = self._records.alive[workload_id]
        assert record.nomination is not None
        young, urgency = self._urgency(record, now_ms)
        identity = urgency, record.nomination.order_key, workload_id
        if not young:
            return (young, *identity)
        priority, turn = _turn(record, rank)
        return (young, priority, not _lost_its_nodes(record), turn, *identity)

    def _urgency(self, record: Record, now_ms: int) -> tuple[bool, int]:
        """Who is old first, by age; then by response ratio.

        The ratio of the time waited to the length, times the GPUs: what waits longest for its
        length first (Brinch Hansen, highest response ratio next, 1971), wide before narrow, as
        the narrow finds room beside the wide.
        """
        waited_ms = _waited_ms(record, now_ms)
        if waited_ms > self._head_after_ms:
            return False, -waited_ms
        length_ms = self._length_ms(record) or UNKNOWN_SECONDS * 1000
        return True, -(waited_ms * _gpus(record) * 1000 // (length_ms + BRIEFEST_MS))

    def _waiter(self, record: Record, now_ms: int) -> Waiter:
        assert record.nomination is not None
        return Waiter(
            workload_id=record.workload.id,
            gang=gang_of(record.workload),
            flavors=record.nomination.flavors,
            length_ms=self._length_ms(record),
            rooms=self._rooms(record, now_ms),
        )

    def take_loosened(self) -> list[str]:
        """Nodes that others may use more freely since the last call."""
        loosened, self.loosened = self.loosened, []
        return loosened

    # ── time ──

    def next_due_ms(self) -> int | None:
        """When the first promise is broken, or room for short work is to be chosen anew."""
        promised_ms = min((one.promised_ms + LATE_MS for one in self.standing), default=NEVER)
        room_ms = NEVER if self._room.due_ms is None else self._room.due_ms
        due_ms = min(promised_ms, room_ms)
        return due_ms if due_ms < NEVER else None

    def due(self, now_ms: int) -> Sequence[Received]:
        """A message for each promise that was not kept, and one for the room."""
        room_ms = self._room.due_ms
        broken = [
            deadline_message(DUE, one.workload_id, one.missed, one.promised_ms + LATE_MS)
            for one in self.standing
            if one.promised_ms + LATE_MS <= now_ms
        ]
        if room_ms is not None and room_ms <= now_ms:
            broken.append(deadline_message(DUE, "spare-room", 0, room_ms))
        return broken


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


def _is_news(promise: Promise, told_ms: int | None) -> bool:
    """Whether the start is another than was told, by more than may be late."""
    return told_ms is None or abs(promise.promised_ms - told_ms) > LATE_MS


def _turn(record: Record, rank: Callable[[str], tuple[Any, ...]]) -> tuple[int, tuple[Any, ...]]:
    return -record.priority, rank(record.workload.id)


def _waited_ms(record: Record, now_ms: int) -> int:
    return now_ms - record.workload.submitted_at_ms


def _lost_its_nodes(record: Record) -> bool:
    """It ran before, and not only to fail: a node was lost or drained, or it was evicted."""
    return record.attempt > record.failures


def _gpus(record: Record) -> int:
    """Of the least of it, rounded up to whole ones."""
    return -(-record.least[0] // GPU_MILLI)
