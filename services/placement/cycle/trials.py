"""Tries the open nominations in order, each request class at its head only.

What frees a node or quota wakes the classes that it can help. A unit of work places at most
`PLACED_MAX`; the rest goes on in the next one, which a message of its own begins.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import replace as replaced
from itertools import islice
from typing import Final

from services.placement.backfill.promise_news import with_broken, with_promise
from services.placement.cycle.avoided import closed
from services.placement.cycle.freed_room import Room
from services.placement.cycle.resting import Resting
from services.placement.state.records import Record
from services.placement.state.turns import OwnQuota
from services.placement.unit.desk import Desk
from services.placement.workloads import transitions
from shared.core.backfill.promise import Promise
from shared.core.model.decision import Refusal
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Placement
from shared.core.placement.place import PlacementRequest, place
from shared.core.quota.reasons import behind_head
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received

PLACED_MAX: Final = 1_000
TOLD_MAX: Final = 200
"""Workloads of one class that hear of a new reason in one unit; others when they are tried."""


class Trials:
    """The waiting index of one cell and the reasons of the classes that rest."""

    def __init__(self, desk: Desk) -> None:
        self.unfinished = False
        self._desk, self.resting = desk, Resting(desk)

    def load(self) -> None:
        """Let every workload wait that has an open nomination."""
        for record in self._desk.records.alive.values():
            waits = record.nomination is not None and record.state is State.QUEUED
            if waits and record.deadline_kind != transitions.BACKOFF:
                self._wait(record)
                if self._reserved(record):
                    self.reserve(record)
        self.unfinished = len(self._desk.waiting) > 0

    def add(self, record: Record, cause: Received) -> None:
        """A new nomination; a class that rests tells its reason at once."""
        self._wait(record)
        request = self._class(record)
        if not self._desk.waiting.resting(request):
            self.resting.forget(request)
        elif (reason := self.resting.reason(request)) is not None:
            # There is none where the head rests for its reserved room, or is the next for what
            # its queue owns: neither was refused.
            self._desk.refuse(record, self._behind(record, request, reason), cause)

    def reserve(self, record: Record) -> None:
        """Room is kept for it: it is not tried, but in a strict queue nobody goes before it.

        Who moves ran already, and holds up nobody.
        """
        assert record.nomination is not None
        self._desk.promises.tried_anew(record.workload.id)
        moves = self._desk.reservations.moves_until_ms(record.workload.id)
        if moves or not record.nomination.strict:
            self._desk.waiting.remove(record.workload.id)

    def _reserved(self, record: Record) -> bool:
        return self._desk.reservations.of(record.workload.id) is not None

    def _wait(self, record: Record) -> None:
        assert record.nomination is not None
        self._desk.waiting.add(
            record.workload.id,
            self._class(record),
            record.nomination.order_key,
            alike=not record.nomination.strict,
        )

    def _class(self, record: Record) -> Hashable:
        nomination = record.nomination
        assert nomination is not None
        kind: tuple[Hashable, ...] = ("strict", record.workload.queue)
        if not nomination.strict:
            waiting = self._desk.promises.waiting_class(record)
            asked = (nomination.flavors, nomination.within_nominal, record.request_class)
            kind = (record.workload.queue, *asked, waiting)
        return (*kind, "next") if nomination.next_of_own else kind

    def run(self) -> None:
        """Wake what this batch can help, then place in order until nothing fits or the bound."""
        self.resting.trim()
        self._rewind()
        self.unfinished = False
        desk = self._desk
        self._wake(desk.freed_nodes, desk.freed_queues)
        placed = self._heads()
        placed = self._round(placed, desk.promises.take_loosened(), ())
        if not self.unfinished and (looser := self._promise()):
            placed = self._round(placed, looser, ())
        if not self.unfinished and (queues := desk.quota_heads.plan()):
            self._round(placed, (), queues)
        if not self.unfinished:
            self.resting.all_were_tried()

    def _heads(self) -> int:
        """What became free may complete the nodes of a head: it starts before others take them.

        Each start makes room for another promise, which is planned before others are tried.
        """
        desk, placed = self._desk, 0
        if not desk.freed_nodes:
            return 0
        while placed < PLACED_MAX:
            turns = desk.turns
            due = desk.promises.ahead(
                turns.arrears, turns.may_have(), desk.now_ms, self._goes_first
            )
            started = sum(self._try_head(name) for name in due)
            if not started:
                break
            placed += started
        return placed

    def _try_head(self, workload_id: str) -> int:
        if not self._goes_first(workload_id):
            return 0
        self._desk.waiting.remove(workload_id)
        return self._try(self._desk.records.alive[workload_id])

    def _goes_first(self, workload_id: str) -> bool:
        """Whether it goes before all who are ready; never in a strict queue."""
        desk = self._desk
        record, first = desk.records.alive[workload_id], desk.waiting.first()
        assert record.nomination is not None
        if first is None or record.nomination.strict:
            return not record.nomination.strict
        other = desk.records.alive[first]
        return desk.promises.precedes(record, other, desk.turns.rank, desk.now_ms)

    def _round(self, placed: int, nodes: Collection[str], queues: Collection[str]) -> int:
        """Wake whom these nodes and queues can help, and try; how many this unit has placed."""
        self._wake(nodes, queues)
        placed = self._try_all(placed)
        while not self.unfinished and (patient := self.resting.may_borrow_now()):
            for request in patient:
                self._desk.waiting.wake_class(request)
            placed = self._try_all(placed)
        self.resting.next_speak()
        return placed

    def _try_all(self, placed: int) -> int:
        """Those who are ready, in order."""
        while (workload_id := self._desk.waiting.pop(self)) is not None:
            record = self._desk.records.alive[workload_id]
            if placed == PLACED_MAX:
                self._wait(record)
                self.unfinished = True
                break
            placed += self._try(record)
        return placed

    def _promise(self) -> Collection[str]:
        """Promise starts to the heads that were refused; nodes that others are freer to use."""
        desk, turns = self._desk, self._desk.turns
        news = desk.promises.plan(turns.arrears, turns.may_have(), desk.now_ms)
        for promise in news:
            self._tell_again(promise.workload_id, promise)
        for workload_id in desk.promises.take_lost():
            self._tell_again(workload_id, None)
        return desk.promises.take_loosened()

    def _tell_again(self, workload_id: str, promise: Promise | None) -> None:
        """Another start than it was told, or none."""
        desk, record = self._desk, self._desk.records.alive[workload_id]
        refusal = self.resting.reason(self._class(record))
        if refusal is not None and desk.last_cause is not None:
            told = with_promise(refusal, promise) if promise is not None else refusal
            broken = desk.promises.broken(workload_id)
            told = with_broken(told, broken) if broken is not None else told
            desk.refuse(record, told, desk.last_cause, again=True)

    def _rewind(self) -> None:
        """What is ready from before is ranked anew, if ranks may have fallen since."""
        turns = self._desk.turns
        if self.unfinished and (turns.fell or self._desk.freed_queues):
            self._desk.waiting.rewind()
        turns.fell = False

    def _wake(self, nodes: Collection[str], queues: Collection[str]) -> None:
        if not nodes and not queues:
            return
        desk, resting = self._desk, self.resting
        resting.freed(nodes)

        def can_help(workload_id: str) -> bool:
            record = desk.records.alive[workload_id]
            return resting.can_help(record, self._class(record), queues)

        for request in resting.look_again(queues):
            desk.waiting.wake_class(request)
        desk.waiting.wake(can_help, self)

    def _try(self, record: Record) -> int:
        """Place it, or let its class rest with the reason; how many were placed."""
        if self._reserved(record):
            self._rest(record)
            return 0
        if _is_next(record) and self._desk.turns.borrows(record.workload.id):
            self.resting.until_owned(record, self._class(record))
            self._desk.quota_heads.tried(record)
            self._rest(record)
            return 0
        answer = self._place(record)
        if isinstance(answer, Refusal):
            self._refused(record, answer)
            return 0
        request = self._class(record)
        transitions.place(self._desk, record, answer, self._cause(record))
        self._desk.kept_quota.took(record, answer.flavor, answer.charge)
        self.resting.started(request)
        self.resting.taken(answer.flavor, {pod.node for pod in answer.pods})
        return 1

    def _cause(self, record: Record) -> Received:
        cause = self._desk.nominated.get(record.workload.id, self._desk.last_cause)
        assert cause is not None
        return cause

    def is_free(self, lacks: Room | OwnQuota) -> bool:
        """Whether something is left of the room that a class lacks."""
        return self.resting.is_free(lacks)

    def passes(self, workload_id: str) -> bool:
        """Of the freed nodes none can help it: it rests again, untried."""
        record = self._desk.records.alive[workload_id]
        return self.resting.passes(record, self._class(record))

    def _place(self, record: Record) -> Placement | Refusal:
        """What is owed takes the nodes that are kept for borrowers, if no others will do.

        Before it borrows elsewhere: that would be taken back, and these nodes it owns.
        """
        desk, headroom = self._desk, self._desk.headroom.of(record)
        pins = desk.promises.pins_for(record, desk.now_ms)
        request = PlacementRequest(
            workload=record.sized,
            flavors=tuple(headroom),
            headroom=headroom,
            pins=pins,
            asked_before=bool(record.refused_as),
        )
        if record.avoids:
            with closed(desk.cluster, record.avoids):
                answer = place(desk.cluster, request)
            if isinstance(answer, Placement):
                return answer
        if not desk.promises.standing:
            return place(desk.cluster, request)
        tries = self._tries(record, request)
        answer = place(desk.cluster, next(tries))
        while isinstance(answer, Refusal) and (tried := next(tries, None)) is not None:
            answer = place(desk.cluster, tried)
        return answer

    def _tries(self, record: Record, request: PlacementRequest) -> Iterator[PlacementRequest]:
        """Without, then with what is kept for borrowers; first where it borrows nothing itself."""
        owned = self._desk.headroom.owned_of(record, request.flavors)
        mixed = 0 < len(owned) < len(request.flavors)
        if mixed and (more := self._desk.pins_for(record)) != request.pins:
            yield replaced(request, flavors=owned)
            yield replaced(request, flavors=owned, pins=more)
        yield request
        if (more := self._desk.pins_for(record)) != request.pins:
            yield replaced(request, pins=more)

    def _refused(self, record: Record, refusal: Refusal) -> None:
        if _is_next(record):  # its queue owns room for it: quota waits for an answer by now
            assert record.nomination is not None
            record.nomination = replaced(record.nomination, next_of_own=False)
        request = self._class(record)
        self._desk.quota_heads.tried(record)
        refusal = self._desk.kept_quota.told(record, refusal)
        known = self.resting.refused(record, request, refusal)
        self._rest(record)
        self._tell(record, request, refusal)
        if known is None or known.reason is not refusal.reason:
            self._tell_class(request, refusal, self._cause(record))

    def _tell(self, record: Record, request: Hashable, refusal: Refusal) -> None:
        """It hears why it waits, and may be promised a start."""
        desk = self._desk
        desk.promises.refused(record, request, refusal, desk.now_ms)
        promise = desk.promises.of(record.workload.id)
        told = with_promise(refusal, promise) if promise is not None else refusal
        broken = desk.promises.broken(record.workload.id)
        told = with_broken(told, broken) if broken is not None else told
        desk.refuse(record, told, self._cause(record), again=broken is not None)

    def _rest(self, record: Record) -> None:
        """Let its class wait until something frees up that can help it."""
        nomination, request = record.nomination, self._class(record)
        assert nomination is not None
        self._desk.waiting.rest(
            record.workload.id,
            request,
            nomination.order_key,
            alike=not nomination.strict,
            lacks=self.resting.lacks(request),
        )

    def _tell_class(self, request: Hashable, refusal: Refusal, cause: Received) -> None:
        for workload_id in islice(self._desk.waiting.behind(request), TOLD_MAX):
            record = self._desk.records.alive[workload_id]
            self._desk.refuse(record, self._behind(record, request, refusal), cause)

    def _behind(self, record: Record, request: Hashable, refusal: Refusal) -> Refusal:
        """What `record` hears where its class rests: in a strict queue it was not meant itself."""
        if record.nomination is None or not record.nomination.strict:
            return refusal
        head = self._desk.waiting.head_at_rest(request)
        if head is None or head == record.workload.id:
            return refusal
        return behind_head(record.workload.queue, head)

    def refused(self) -> Iterator[tuple[Record, Refusal]]:
        """The head of each class that rests, with what it was told."""
        for workload_id in self._desk.waiting.resting_heads():
            record = self._desk.records.alive[workload_id]
            refusal = self.resting.reason(self._class(record))
            if refusal is not None and record.nomination is not None:
                yield record, refusal

    def rest(self, now_ms: int) -> list[Received]:
        """The message that lets cut-short trials go on; its id follows from the last cause."""
        if not self.unfinished:
            return []
        cause = self._desk.last_cause
        name = cause.event.id if cause is not None else f"epoch-{self._desk.epoch}"
        return [deadline_message("trials", name, self._desk.epoch, now_ms)]


def _is_next(record: Record) -> bool:
    """Whether it may be placed within what its queue owns, and is not answered otherwise."""
    return record.nomination is not None and record.nomination.next_of_own
