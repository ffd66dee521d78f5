"""What waits at the head is promised a start, and its nodes are kept (core/backfill/backfill.py).

Kept in step by the unit of work: what begins and ends goes into the timeline, what waits no more
loses its promise. The scheduling cycle tells what was refused for want of room; of these the first
few are promised a start, after each unit in which something changed that matters to them: a new
one among the first, a promise given up, kept or due, work that ended before its time, or a refusal
while nodes are kept. With nothing refused this costs an entry for each node of what begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Final

from services.placement.backfill.heads import HEAD_AFTER_HOURS, Heads, RankOf
from services.placement.backfill.lengths import Lengths, gpus_of, lost_its_nodes, waited_ms
from services.placement.backfill.promise_news import (
    Broken,
    BrokenCause,
    due_messages,
    is_news,
    next_due_ms,
)
from services.placement.backfill.promise_rows import (
    BROKEN_ROWS,
    ROWS,
    kept_nodes,
    read_broken,
    read_promises,
    row_writes,
)
from services.placement.state.records import Record, Records
from shared.core.backfill.backfill import Backfill
from shared.core.backfill.promise import LATE_MS, PROMISES_MAX, Promise, Waiter
from shared.core.backfill.spare_room import SpareRoom
from shared.core.backfill.timeline import NEVER, Timeline
from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import gang_of
from shared.core.scoring import Cluster
from shared.events.envelope import Received
from shared.events.nodes import KeptFor
from shared.ports.reader import Reader
from shared.ports.store import Write

EARLY_MS: Final = 1_000
"""Work that ends so much before its time may let another start earlier."""
MayHave = Callable[[str], Sequence[str]]
"""In which flavors time may bring a workload its quota (core/quota/attainable.py)."""
ROOM: Final = frozenset({Reason.NO_CAPACITY, Reason.GANG_SHORT, Reason.TOPOLOGY})
"""Reasons that time alone can mend."""


class Promises:
    """Promises of one cell, and which workloads may be given the next."""

    def __init__(
        self, cluster: Cluster, records: Records, head_after_hours: int = HEAD_AFTER_HOURS
    ) -> None:
        self._records, self._lengths = records, Lengths()
        self._heads = Heads(cluster, records, self._lengths, head_after_hours)
        self._timeline = Timeline()
        self._room = SpareRoom(cluster)
        self._backfill = Backfill(cluster, self._timeline, self._room)
        self._stale = False
        self._written: dict[str, Promise] = {}
        """Those that have rows."""
        self._kept: tuple[dict[str, Promise], tuple[KeptFor, ...]] = ({}, ())
        """The nodes kept for some promises, and for which."""
        self._heard: dict[str, int] = {}
        """By workload: the start that it was told last."""
        self.loosened: list[str] = []
        """Nodes that may be used more freely since the last `take_loosened`."""
        self._lost: list[str] = []
        """Workloads that lost their promise since the last `take_lost`."""
        self._broken: dict[str, Broken] = {}
        """Promises that are not kept, until the batch that tells their owners is over."""
        self._broken_written: dict[str, Broken] = {}
        """Those that have rows."""
        self._told: list[str] = []
        """Workloads that this batch has told of a broken promise."""

    @property
    def standing(self) -> Collection[Promise]:
        """All promises."""
        return self._backfill.promises.values()

    def of(self, workload_id: str) -> Promise | None:
        """What a workload was promised."""
        return self._backfill.promises.get(workload_id)

    def precedes(self, record: Record, other: Record, rank: RankOf, now_ms: int) -> bool:
        """Whether it goes before `other`: a promise that was told makes it older than equals."""
        told = record.workload.id in self._heard
        return self._heads.precedes(record, other, rank, now_ms, told=told)

    def length_ms(self, record: Record) -> int | None:
        """How long promises take it to last; None for ever."""
        return self._lengths.expected_ms(record)

    # ── what begins and ends ──

    def began(self, record: Record, now_ms: int) -> None:
        """It holds its nodes from now on; the promise to it is kept."""
        assert record.placement is not None
        if record.began_at_ms == 0:
            record.began_at_ms = now_ms
        nodes = {pod.node for pod in record.placement.pods}
        span = (record.began_at_ms, self._lengths.expected_ms(record))
        self._timeline.begin(record.workload.id, nodes, span)
        likely = (record.began_at_ms, self._lengths.likely_ms(record))
        self._room.begin(record.workload.id, nodes, likely)
        if len(nodes) > 1:
            self._room.note_width(record.placement.flavor, gpus_of(record), now_ms)
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
        length_ms, lasted_ms = self._lengths.expected_ms(record), now_ms - record.began_at_ms
        if length_ms is None or lasted_ms < length_ms - EARLY_MS:
            self._stale = True
        self._lengths.ended(record, lasted_ms)
        record.began_at_ms = 0

    def withdrawn(self, workload_id: str) -> None:
        """It waits for room no more."""
        self._heard.pop(workload_id, None)
        self._broken.pop(workload_id, None)
        self._heads.forget(workload_id)
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
            self._heads.block(one.workload_id, one.workload_id)
        self._broken_written = {one.workload_id: one for one in await read_broken(reader)}
        self._broken = {
            name: one for name, one in self._broken_written.items() if name in self._records.alive
        }

    def _waits(self, workload_id: str) -> bool:
        record = self._records.alive.get(workload_id)
        return record is not None and record.nomination is not None

    def writes(self) -> list[Write]:
        """The rows that changed since the last call."""
        writes = []
        if self._written is not self._backfill.promises:
            writes += row_writes(ROWS, self._written, self._backfill.promises)
            self._written = self._backfill.promises
        if self._broken or self._broken_written:
            untold = {name: one for name, one in self._broken.items() if name not in self._told}
            writes += row_writes(BROKEN_ROWS, self._broken_written, untold)
            self._broken_written = untold
        return writes

    def kept(self) -> tuple[KeptFor, ...]:
        """Which nodes are kept for which workload; worked out when promises have changed."""
        seen, kept = self._kept
        if seen is not self._backfill.promises:
            kept = kept_nodes(self._backfill.promises)
            self._kept = self._backfill.promises, kept
        return kept

    # ── what may be used ──

    def pins_for(
        self, record: Record, now_ms: int, yields: Callable[[str], bool] | None = None
    ) -> tuple[int, ...]:
        """Pinned nodes on which it may lie if it starts now; `yields` give way to it."""
        if not (self._backfill.promises or self._room.nodes):
            return ()
        length_ms = self._lengths.expected_ms(record)
        end_ms = NEVER if length_ms is None else now_ms + length_ms
        promised = self._backfill.pins_for(record.workload.id, end_ms, yields)
        return promised + self.rooms_for(record, now_ms)

    def rooms_for(self, record: Record, now_ms: int) -> tuple[int, ...]:
        """Pins of the rooms that are open to it: more of them the longer it waits."""
        flavors = record.nomination.flavors if record.nomination is not None else ()
        likely_ms, waited = self._lengths.likely_ms(record), waited_ms(record, now_ms)
        return self._room.open_to(flavors, gpus_of(record), likely_ms, waited)

    def waiting_class(self, record: Record) -> tuple[bool, int]:
        """Of equal requests those of about equal length are tried once: by powers of two.

        A workload that lost its nodes goes before the others, so it is not behind them.
        """
        length_ms = self._lengths.expected_ms(record)
        length = -1 if length_ms is None else (length_ms // 1000).bit_length()
        return lost_its_nodes(record), length

    # ── what is next ──

    def refused(self, record: Record, request: Hashable, refusal: Refusal, now_ms: int) -> None:
        """It found no room: the head of its class may be promised some."""
        workload_id = record.workload.id
        if self._backfill.promises:
            self._stale = True
        if refusal.reason not in ROOM:
            self.quota_gone(workload_id)
        elif not self._heads.may_be(record, now_ms):
            self.withdrawn(workload_id)
        elif self._heads.block(workload_id, request):
            self._stale = True

    def ahead(
        self, rank: RankOf, may: MayHave, now_ms: int, goes_first: Callable[[str], bool]
    ) -> list[str]:
        """Before others are tried: heads for which enough nodes are free now, in their order.

        A head without a promise is among them if it `goes_first`.
        """
        if self._heads or self._backfill.promises:
            self._plan(rank, may, now_ms, goes_first)
        due = [one for one in self.standing if one.start_ms <= now_ms]
        # What does not start after all gives up these nodes with the next plan.
        self._stale = self._stale or bool(due)
        return [one.workload_id for one in sorted(due, key=lambda one: one.promised_ms)]

    def plan(self, rank: RankOf, may: MayHave, now_ms: int) -> list[Promise]:
        """Promise anew if anything changed that matters; the promises that are to be told."""
        if not (self._heads or self._backfill.promises):
            self.loosened += self._backfill.keep_room(now_ms)
            return []
        if not self._stale:
            return []
        self._stale = False
        self._plan(rank, may, now_ms)
        before, after = self._heard, self._backfill.promises
        self._heard = {name: one.promised_ms for name, one in after.items()}
        for name, promised_ms in before.items():
            now_promised_ms = self._heard.get(name, NEVER)
            if now_promised_ms > promised_ms + LATE_MS and name in self._heads:
                self._break(name, promised_ms, BrokenCause.NODES)
                self._lost.append(name)
        return [one for name, one in after.items() if is_news(one, before.get(name))]

    def _plan(
        self,
        rank: RankOf,
        may: MayHave,
        now_ms: int,
        goes_first: Callable[[str], bool] | None = None,
    ) -> None:
        before, heads = self._backfill.promises, self._heads
        waiting = [name for name in before if name in heads]
        kept = [name for name in waiting if before[name].flavor in may(name)]
        for name in waiting:
            if name not in kept:
                self._lose(name)
        standing = Counter(before[name].flavor for name in kept)
        others = [
            name
            for name in heads.names
            if name not in kept
            and (goes_first is None or goes_first(name))
            and _open(self._flavors(name), standing)
        ]
        waiters = [self._waiter(name, may(name), now_ms) for name in kept]
        for name in heads.in_order(others, rank, now_ms):
            if _open(self._flavors(name), standing) and (flavors := _open(may(name), standing)):
                waiters.append(self._waiter(name, flavors, now_ms))
                standing.update(flavors)
        self.loosened += self._backfill.plan(waiters, now_ms, ahead=goes_first is not None)

    def _flavors(self, workload_id: str) -> Sequence[str]:
        nomination = self._records.alive[workload_id].nomination
        return nomination.flavors if nomination is not None else ()

    def _lose(self, workload_id: str) -> None:
        """Quota will not be there: perhaps in another flavor, as if nothing had been promised."""
        self._lost.append(workload_id)
        promised_ms = self._heard.pop(workload_id, None)
        if promised_ms is not None:
            self._break(workload_id, promised_ms, BrokenCause.QUOTA)
        self.loosened += self._backfill.drop(workload_id)

    def _break(self, workload_id: str, promised_ms: int, cause: BrokenCause) -> None:
        self._broken[workload_id] = Broken(
            workload_id=workload_id, promised_ms=promised_ms, cause=cause
        )

    def _waiter(self, workload_id: str, flavors: Sequence[str], now_ms: int) -> Waiter:
        record = self._records.alive[workload_id]
        return Waiter(
            workload_id=workload_id,
            gang=gang_of(record.workload),
            flavors=tuple(flavors),
            length_ms=self._lengths.expected_ms(record),
            rooms=self.rooms_for(record, now_ms),
        )

    def quota_gone(self, workload_id: str) -> None:
        """It waits for quota from now on; a promise that it was told is not kept."""
        promised_ms = self._heard.get(workload_id)
        if promised_ms is not None:
            self._break(workload_id, promised_ms, BrokenCause.QUOTA)
        self.tried_anew(workload_id)

    def tried_anew(self, workload_id: str) -> None:
        """It is nominated again: what it was promised before is over, and told if it is broken."""
        broken = self._broken.get(workload_id)
        self.withdrawn(workload_id)
        if broken is not None:
            self._broken[workload_id] = broken

    def broken(self, workload_id: str) -> Broken | None:
        """The promise to it that is not kept; the same in all that this batch tells it.

        None as well if it is promised a start as early by now.
        """
        found, promise = self._broken.get(workload_id), self.of(workload_id)
        if found is None:
            return None
        self._told.append(workload_id)
        in_time = promise is not None and promise.promised_ms <= found.promised_ms + LATE_MS
        return None if in_time else found

    def begin(self) -> None:
        """A batch begins: what the one before told is told no more."""
        for workload_id in self._told:
            self._broken.pop(workload_id, None)
        self._told.clear()

    def take_lost(self) -> list[str]:
        """Heads that were promised a start, and are no more since the last call."""
        lost, self._lost = self._lost, []
        promised, heads = self._backfill.promises, self._heads
        return [name for name in lost if name in heads and name not in promised]

    def take_loosened(self) -> list[str]:
        """Nodes that others may use more freely since the last call."""
        loosened, self.loosened = self.loosened, []
        return loosened

    # ── time ──

    def next_due_ms(self) -> int | None:
        """When the first promise is broken, or room for short work is to be chosen anew."""
        return next_due_ms(self.standing, self._room.due_ms)

    def due(self, now_ms: int) -> Sequence[Received]:
        """A message for each promise that was not kept, and one for the room."""
        return due_messages(self.standing, self._room.due_ms, now_ms)


def _open(flavors: Sequence[str], standing: Counter[str]) -> list[str]:
    """Those of `flavors` in which one more may be promised a start."""
    return [one for one in flavors if standing[one] < PROMISES_MAX]
