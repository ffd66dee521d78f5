"""What became of each submission, told by the log alone. Pure: records in, counts out.

A workload is settled once it was rejected, has been placed, or waits with a recorded reason. It
can be placed after it waited; the end of a replay is therefore quiet, not a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from shared.core.model.lifecycle import TERMINAL
from shared.events import quotas, workloads
from shared.events.envelope import Received

_ENDED: Final = frozenset(TERMINAL)


@dataclass(slots=True)
class Fate:
    """What is known of one workload."""

    submitted_at_ms: int = 0
    queued_events: set[str] = field(default_factory=set)
    rejected: bool = False
    placed_events: dict[int, set[str]] = field(default_factory=dict)
    placed_at_ms: int = 0
    running: bool = False
    ended: bool = False
    reason: str = ""
    gpu_milli: int = 0

    @property
    def accepted(self) -> bool:
        """Whether admission said yes."""
        return bool(self.queued_events)

    @property
    def placed(self) -> bool:
        """Whether it was placed at least once."""
        return bool(self.placed_events)

    @property
    def settled(self) -> bool:
        """Whether a decision about it was made and told."""
        return self.rejected or self.placed or bool(self.reason)

    @property
    def duplicated(self) -> bool:
        """Whether one submission had the effect of two."""
        twice = any(len(events) > 1 for events in self.placed_events.values())
        return len(self.queued_events) > 1 or twice or (self.rejected and self.accepted)


class Tracker:
    """Follows the workloads with the given ids; facts of others are passed over."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.fates: dict[str, Fate] = {one: Fate() for one in ids}

    def expect(self, ids: Iterable[str]) -> None:
        """Follow these too; they are not submitted yet."""
        self.fates |= {one: Fate() for one in ids}

    def submitted(self, workload_id: str, at_ms: int) -> None:
        """The log took the submission at this time (a repeated one keeps the first)."""
        fate = self.fates[workload_id]
        fate.submitted_at_ms = fate.submitted_at_ms or at_ms

    def take(self, received: Received, at_ms: int) -> None:
        """One event of the log, appended at `at_ms`."""
        payload = received.event.payload
        identifier = _workload_of(payload)
        fate = self.fates.get(identifier)
        if fate is None:
            return
        match payload:
            case workloads.SubmitWorkload():
                fate.submitted_at_ms = fate.submitted_at_ms or at_ms
            case workloads.WorkloadQueued():
                fate.queued_events.add(received.event.id)
            case workloads.WorkloadRejected():
                fate.rejected = True
            case workloads.WorkloadPlaced():
                _place(fate, received.event.id, payload, at_ms)
            case workloads.PlacementRefused() | quotas.QuotaRefused():
                fate.reason = payload.reason.value
            case workloads.WorkloadFact():
                fate.running |= isinstance(payload, workloads.WorkloadRunning)
                fate.ended |= payload.state in _ENDED
            case _:
                pass

    def settled(self) -> int:
        """How many are decided about."""
        return sum(fate.settled for fate in self.fates.values())

    def counts(self) -> Counter[str]:
        """Numbers for a line of progress: accepted, rejected, placed, running, waiting."""
        counts: Counter[str] = Counter()
        for fate in self.fates.values():
            counts["accepted"] += fate.accepted
            counts["rejected"] += fate.rejected
            counts["placed"] += fate.placed
            counts["running"] += fate.running and not fate.ended
            counts["ended"] += fate.ended
            counts["waiting"] += fate.accepted and not fate.placed and not fate.ended
        return counts


def _workload_of(payload: object) -> str:
    if isinstance(payload, workloads.WorkloadQueued):
        return payload.workload.id
    identifier = getattr(payload, "workload_id", "")
    return identifier if isinstance(identifier, str) else ""


def _place(fate: Fate, event_id: str, payload: workloads.WorkloadPlaced, at_ms: int) -> None:
    fate.placed_events.setdefault(payload.attempt, set()).add(event_id)
    fate.placed_at_ms = fate.placed_at_ms or at_ms
    fate.gpu_milli = payload.placement.charge.gpu_milli
