"""The deadlines of one cell: one for the present state of each workload, and its time to live."""

from __future__ import annotations

import heapq
from typing import Final

from services.placement.state.records import Record, Records
from shared.events.deadlines import deadline_message
from shared.events.envelope import Received

TIME_TO_LIVE: Final = "time-to-live"
"""Kind of the deadline that stands whatever the state: it follows from the submission alone."""


class Deadlines:
    """A heap of (due in Unix ms, workload id, kind, version); stale entries are skipped."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._due: list[tuple[int, str, str, int]] = []

    @property
    def next_ms(self) -> int | None:
        """When the first is due; None without one."""
        return self._due[0][0] if self._due else None

    def watch(self, record: Record) -> None:
        """Its time to live ends at a time that never changes."""
        workload = record.workload
        seconds = workload.spec.time_to_live_seconds
        if seconds:
            expires_ms = workload.submitted_at_ms + seconds * 1000
            heapq.heappush(self._due, (expires_ms, workload.id, TIME_TO_LIVE, 0))

    def set(self, record: Record, kind: str, due_ms: int) -> None:
        """Set the one deadline of its present state; an empty kind clears it."""
        record.deadline_kind = kind
        record.deadline_ms = due_ms if kind else 0
        self._records.touch(record)
        if kind:
            heapq.heappush(self._due, (due_ms, record.workload.id, kind, record.version))

    def passed(self, now_ms: int) -> list[Received]:
        """Deadlines that are due and still stand, as messages."""
        messages = []
        while self._due and self._due[0][0] <= now_ms:
            due_ms, workload_id, kind, version = heapq.heappop(self._due)
            record = self._records.alive.get(workload_id)
            if record and (kind == TIME_TO_LIVE or record.stands(kind, due_ms)):
                messages.append(deadline_message(kind, workload_id, version, due_ms))
        return messages
