"""The scheduling cycle: tries the open nominations in order, each request class at its head only.

What frees a node or quota requeues the classes that it can help. A unit of work places at most
`PLACED_MAX`; the rest goes on in the next one, which a message of its own begins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from services.placement.backfill.promise_news import with_news
from services.placement.cycle.attempts import Attempts
from services.placement.cycle.freed_room import LackedRoom
from services.placement.cycle.inadmissible import Inadmissible
from services.placement.cycle.request_classes import RequestClasses
from services.placement.state.queue_order import OwnQuota
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from shared.core.backfill.promise import Promise
from shared.core.model.decision import Refusal
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received

PLACED_MAX: Final = 1_000


class SchedulingCycle:
    """What waits in one cell, and what a unit of work does about it."""

    def __init__(self, state: CellState) -> None:
        self.unfinished = False
        """Whether the last cycle was cut short."""
        self._state = state
        self._classes = RequestClasses(state)
        self._inadmissible = Inadmissible(state)
        self._attempts = Attempts(state, self._classes, self._inadmissible)
        self._placed = 0
        """By this cycle."""

    def load(self) -> None:
        """Everything that has an open nomination is to be tried."""
        self._classes.load()
        self.unfinished = len(self._state.waiting) > 0

    def run(self) -> None:
        """One cycle, over what the unit's messages changed.

        1. What was cut short is ordered anew, if ranks may have fallen since.
        2. Classes that the freed nodes and quota can help are requeued.
        3. Promised starts of which the nodes are complete by now come first.
        4. What is ready is tried in queue order, to the bound.
        5. Starts are promised to the heads that were refused; nodes that are kept no more are
           tried again.
        6. Quota is kept for the heads that wait for it, and tried again where it is kept no more.
        """
        state = self._state
        self._inadmissible.trim()
        self._order_anew()
        self.unfinished, self._placed = False, 0
        self._requeue(state.unit.freed_nodes, state.unit.freed_queues)
        self._start_promised()
        self._try_again(state.promises.take_loosened(), ())
        if not self.unfinished and (nodes := self._promise_starts()):
            self._try_again(nodes, ())
        if not self.unfinished and (queues := state.quota_heads.plan()):
            self._try_again((), queues)
        if not self.unfinished:
            self._inadmissible.all_were_tried()

    # ── the steps ──

    def _order_anew(self) -> None:
        turns = self._state.queue_order
        if self.unfinished and (turns.fell or self._state.unit.freed_queues):
            self._state.waiting.rewind()
        turns.fell = False

    def _requeue(self, nodes: Collection[str], queues: Collection[str]) -> None:
        if not nodes and not queues:
            return
        state, inadmissible = self._state, self._inadmissible
        inadmissible.freed(nodes)

        def can_help(workload_id: str) -> bool:
            record = state.records.alive[workload_id]
            return inadmissible.can_help(record, self._classes.of(record), queues)

        for request in inadmissible.look_again(queues):
            state.waiting.requeue_class(request)
        state.waiting.requeue(can_help, self)

    def _start_promised(self) -> None:
        """Before others take what became free.

        Each start makes room for another promise, which is planned before others are tried.
        """
        state, started = self._state, 1
        if not state.unit.freed_nodes:
            return
        while started and self._placed < PLACED_MAX:
            turns = state.queue_order
            due = state.promises.ahead(
                turns.arrears, turns.may_have(), state.unit.now_ms, self._goes_first
            )
            started = sum(self._start(name) for name in due)
            self._placed += started

    def _try_again(self, nodes: Collection[str], queues: Collection[str]) -> None:
        """Requeue what these nodes and queues can help, and try all that is ready."""
        self._requeue(nodes, queues)
        self._try_ready()
        while not self.unfinished and (patient := self._inadmissible.may_borrow_now()):
            for request in patient:
                self._state.waiting.requeue_class(request)
            self._try_ready()
        self._inadmissible.next_speak()

    def _try_ready(self) -> None:
        """In queue order."""
        while (workload_id := self._state.waiting.pop(self)) is not None:
            record = self._state.records.alive[workload_id]
            if self._placed == PLACED_MAX:
                self._classes.ready(record)
                self.unfinished = True
                break
            self._placed += self._attempts.run(record)

    def _promise_starts(self) -> Collection[str]:
        """Nodes that others are freer to use."""
        state, turns = self._state, self._state.queue_order
        news = state.promises.plan(turns.arrears, turns.may_have(), state.unit.now_ms)
        for promise in news:
            self._tell_again(promise.workload_id, promise)
        for workload_id in state.promises.take_lost():
            self._tell_again(workload_id, None)
        return state.promises.take_loosened()

    # ── promised starts ──

    def _start(self, workload_id: str) -> int:
        if not self._goes_first(workload_id):
            return 0
        self._state.waiting.remove(workload_id)
        return self._attempts.run(self._state.records.alive[workload_id])

    def _goes_first(self, workload_id: str) -> bool:
        """Whether it goes before all that are ready; never in a strict queue."""
        state = self._state
        record, first = state.records.alive[workload_id], state.waiting.first()
        assert record.nomination is not None
        if first is None or record.nomination.strict:
            return not record.nomination.strict
        other = state.records.alive[first]
        return state.promises.precedes(record, other, state.queue_order.rank, state.unit.now_ms)

    def _tell_again(self, workload_id: str, promise: Promise | None) -> None:
        """Another start than it was told, or none."""
        state, record = self._state, self._state.records.alive[workload_id]
        refusal = self._inadmissible.reason(self._classes.of(record))
        if refusal is not None and state.unit.last_cause is not None:
            told = with_news(refusal, promise, state.promises.broken(workload_id))
            state.unit.refuse(record, told, state.unit.last_cause, again=True)

    # ── what others ask of it ──

    def add(self, record: Record, cause: Received) -> None:
        """A new nomination; where its class is inadmissible, it is told the reason at once."""
        self._classes.ready(record)
        request = self._classes.of(record)
        if not self._state.waiting.is_inadmissible(request):
            self._inadmissible.forget(request)
        elif (reason := self._inadmissible.reason(request)) is not None:
            # There is none where the head waits for its reserved room, or is the next for what
            # its queue owns: neither was refused.
            self._state.unit.refuse(record, self._classes.behind(record, request, reason), cause)

    def reserve(self, record: Record) -> None:
        """Room is kept for it: it is not tried."""
        self._classes.reserve(record)

    def refused(self) -> Iterator[tuple[Record, Refusal]]:
        """The head of each inadmissible class, with what it was told."""
        for workload_id in self._state.waiting.inadmissible_heads():
            record = self._state.records.alive[workload_id]
            refusal = self._inadmissible.reason(self._classes.of(record))
            if refusal is not None and record.nomination is not None:
                yield record, refusal

    def rest(self, now_ms: int) -> list[Received]:
        """The message that lets a cycle go on that was cut short; its id is of the last cause."""
        if not self.unfinished:
            return []
        cause = self._state.unit.last_cause
        name = cause.event.id if cause is not None else f"epoch-{self._state.epoch}"
        return [deadline_message("trials", name, self._state.epoch, now_ms)]

    def is_free(self, lacks: LackedRoom | OwnQuota) -> bool:
        """Whether something is left of the room that a class lacks."""
        return self._inadmissible.is_free(lacks)

    def passes(self, workload_id: str) -> bool:
        """Of the freed nodes none can help it: it stays inadmissible, untried."""
        record = self._state.records.alive[workload_id]
        return self._inadmissible.passes(record, self._classes.of(record))
