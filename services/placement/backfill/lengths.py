"""How long the work of a record takes and has waited; asked once, so that all answers agree."""

from __future__ import annotations

from services.placement.state.records import Record
from shared.core.backfill.estimates import Estimates
from shared.core.model.lifecycle import State
from shared.core.model.units import GPU_MILLI


class Lengths:
    """What is promised on, and what is likely (estimates.py); None for what never ends."""

    def __init__(self) -> None:
        self._estimates = Estimates()

    def expected_ms(self, record: Record) -> int | None:
        """What its user says, or a guess."""
        if record.expected_seconds < 0:
            seconds = self._estimates.seconds(record.workload)
            record.expected_seconds = 0 if seconds is None else seconds
        return record.expected_seconds * 1000 or None

    def likely_ms(self, record: Record) -> int | None:
        """What it will take by its team's history."""
        if record.likely_seconds < 0:
            seconds = self._estimates.likely_seconds(record.workload)
            record.likely_seconds = 0 if seconds is None else seconds
        return record.likely_seconds * 1000 or None

    def ended(self, record: Record, lasted_ms: int) -> None:
        """Learn from what ended well."""
        if record.state is State.SUCCEEDED:
            self._estimates.note(record.workload, max(lasted_ms // 1000, 1))


def waited_ms(record: Record, now_ms: int) -> int:
    """Since it was submitted."""
    return now_ms - record.workload.submitted_at_ms


def lost_its_nodes(record: Record) -> bool:
    """It ran before, and not only to fail: a node was lost or drained, or it was evicted."""
    return record.attempt > record.failures


def gpus_of(record: Record) -> int:
    """Of the least of it, rounded up to whole ones."""
    return -(-record.least[0] // GPU_MILLI)
