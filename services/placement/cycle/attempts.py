"""One try of one nomination: it is placed, or its class becomes inadmissible with the reason."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace as replaced
from itertools import islice
from typing import Final

from services.placement.backfill.promise_news import with_news
from services.placement.cycle.avoided import closed
from services.placement.cycle.inadmissible import Inadmissible
from services.placement.cycle.request_classes import RequestClasses
from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from shared.core.model.decision import Refusal
from shared.core.model.nouns import Placement
from shared.core.placement.place import PlacementRequest, place
from shared.events.envelope import Received

TOLD_MAX: Final = 200
"""Workloads of one class that hear of a new reason in one unit; others when they are tried."""


class Attempts:
    """Tries nominations of one cell."""

    def __init__(
        self, state: CellState, classes: RequestClasses, inadmissible: Inadmissible
    ) -> None:
        self._state, self._classes, self._inadmissible = state, classes, inadmissible

    def run(self, record: Record) -> int:
        """How many were placed: 1 or 0."""
        if self._classes.reserved(record):
            self._becomes_inadmissible(record)
            return 0
        if _is_next(record) and self._state.queue_order.borrows(record.workload.id):
            self._inadmissible.until_owned(record, self._classes.of(record))
            self._state.quota_heads.tried(record)
            self._becomes_inadmissible(record)
            return 0
        answer = self._place(record)
        if isinstance(answer, Refusal):
            self._refused(record, answer)
            return 0
        self._placed(record, answer)
        return 1

    def _place(self, record: Record) -> Placement | Refusal:
        """What is owed takes the nodes that are kept for borrowers, if no others will do.

        Before it borrows elsewhere: that would be taken back, and these nodes it owns.
        """
        state, headroom = self._state, self._state.headroom.of(record)
        pins = state.promises.pins_for(record, state.unit.now_ms)
        request = PlacementRequest(
            workload=record.sized,
            flavors=tuple(headroom),
            headroom=headroom,
            pins=pins,
            asked_before=bool(record.refused_as),
        )
        if record.avoids:
            with closed(state.cluster, record.avoids):
                answer = place(state.cluster, request)
            if isinstance(answer, Placement):
                return answer
        if not state.promises.standing:
            return place(state.cluster, request)
        tries = self._with_kept_nodes(record, request)
        answer = place(state.cluster, next(tries))
        while isinstance(answer, Refusal) and (tried := next(tries, None)) is not None:
            answer = place(state.cluster, tried)
        return answer

    def _with_kept_nodes(
        self, record: Record, request: PlacementRequest
    ) -> Iterator[PlacementRequest]:
        """Without, then with what is kept for borrowers; first where it borrows nothing itself."""
        owned = self._state.headroom.owned_of(record, request.flavors)
        mixed = 0 < len(owned) < len(request.flavors)
        if mixed and (more := self._state.pins_for(record)) != request.pins:
            yield replaced(request, flavors=owned)
            yield replaced(request, flavors=owned, pins=more)
        yield request
        if (more := self._state.pins_for(record)) != request.pins:
            yield replaced(request, pins=more)

    def _placed(self, record: Record, answer: Placement) -> None:
        request = self._classes.of(record)
        transitions.place(self._state, record, answer, self._cause(record))
        self._state.kept_quota.took(record, answer.flavor, answer.charge)
        self._inadmissible.started(request)
        self._inadmissible.taken(answer.flavor, {pod.node for pod in answer.pods})

    def _refused(self, record: Record, refusal: Refusal) -> None:
        if _is_next(record):  # its queue owns room for it: quota waits for an answer by now
            assert record.nomination is not None
            record.nomination = replaced(record.nomination, next_of_own=False)
        request = self._classes.of(record)
        self._state.quota_heads.tried(record)
        refusal = self._state.kept_quota.told(record, refusal)
        known = self._inadmissible.refused(record, request, refusal)
        self._becomes_inadmissible(record)
        self._tell(record, request, refusal)
        if known is None or known.reason is not refusal.reason:
            self._tell_class(request, refusal, self._cause(record))

    def _becomes_inadmissible(self, record: Record) -> None:
        """Until something is released that can help its class."""
        nomination, request = record.nomination, self._classes.of(record)
        assert nomination is not None
        self._state.waiting.make_inadmissible(
            record.workload.id,
            request,
            nomination.order_key,
            alike=not nomination.strict,
            lacks=self._inadmissible.lacks(request),
        )

    def _tell(self, record: Record, request: Hashable, refusal: Refusal) -> None:
        """Why it waits; it may be promised a start."""
        state = self._state
        state.promises.refused(record, request, refusal, state.unit.now_ms)
        broken = state.promises.broken(record.workload.id)
        told = with_news(refusal, state.promises.of(record.workload.id), broken)
        state.unit.refuse(record, told, self._cause(record), again=broken is not None)

    def _tell_class(self, request: Hashable, refusal: Refusal, cause: Received) -> None:
        for workload_id in islice(self._state.waiting.behind(request), TOLD_MAX):
            record = self._state.records.alive[workload_id]
            self._state.unit.refuse(record, self._classes.behind(record, request, refusal), cause)

    def _cause(self, record: Record) -> Received:
        cause = self._state.unit.nominated.get(record.workload.id, self._state.unit.last_cause)
        assert cause is not None
        return cause


def _is_next(record: Record) -> bool:
    """Whether it may be placed within what its queue owns, and is not answered otherwise."""
    return record.nomination is not None and record.nomination.next_of_own
