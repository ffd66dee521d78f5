"""Which request class a nomination is in, and the classes that wait: ready, or inadmissible.

Requests of one class get the same answer, so only the head of a class is tried.
"""

from __future__ import annotations

from collections.abc import Hashable

from services.placement.state.records import Record
from services.placement.unit.cell_state import CellState
from services.placement.workloads import transitions
from shared.core.model.decision import Refusal
from shared.core.model.lifecycle import State
from shared.core.quota.reasons import behind_head


class RequestClasses:
    """The open nominations of one cell in its waiting index."""

    def __init__(self, state: CellState) -> None:
        self._state = state

    def load(self) -> None:
        """Let every workload wait that has an open nomination."""
        for record in self._state.records.alive.values():
            waits = record.nomination is not None and record.state is State.QUEUED
            if waits and record.deadline_kind != transitions.BACKOFF:
                self.ready(record)
                if self.reserved(record):
                    self.reserve(record)

    def of(self, record: Record) -> Hashable:
        """The class of a nominated workload. Of a strict queue all are one class."""
        nomination = record.nomination
        assert nomination is not None
        kind: tuple[Hashable, ...] = ("strict", record.workload.queue)
        if not nomination.strict:
            waiting = self._state.promises.waiting_class(record)
            asked = (nomination.flavors, nomination.within_nominal, record.request_class)
            kind = (record.workload.queue, *asked, waiting)
        return (*kind, "next") if nomination.next_of_own else kind

    def ready(self, record: Record) -> None:
        """It is to be tried in its turn, unless its class is inadmissible."""
        assert record.nomination is not None
        self._state.waiting.add(
            record.workload.id,
            self.of(record),
            record.nomination.order_key,
            alike=not record.nomination.strict,
        )

    def reserved(self, record: Record) -> bool:
        """Whether room is kept for it."""
        return self._state.reservations.of(record.workload.id) is not None

    def reserve(self, record: Record) -> None:
        """Room is kept for it: it is not tried, but in a strict queue nothing goes before it.

        What moves ran already, and holds up nothing.
        """
        assert record.nomination is not None
        self._state.promises.tried_anew(record.workload.id)
        moves = self._state.reservations.moves_until_ms(record.workload.id)
        if moves or not record.nomination.strict:
            self._state.waiting.remove(record.workload.id)

    def behind(self, record: Record, request: Hashable, refusal: Refusal) -> Refusal:
        """What `record` is told when its class is refused: in a strict queue, the head was."""
        if record.nomination is None or not record.nomination.strict:
            return refusal
        head = self._state.waiting.inadmissible_head(request)
        if head is None or head == record.workload.id:
            return refusal
        return behind_head(record.workload.queue, head)
