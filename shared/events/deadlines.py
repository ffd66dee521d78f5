"""A deadline that passed, as a message: never on a topic, but in the inbox like any other.

Its id is derived from (row, kind, version), and its `topic` spells them out, so that a recorded
order of inputs can be replayed from the inbox alone (ADR 7).
"""

from __future__ import annotations

from shared.events.envelope import Event, Received, event_id
from shared.events.workloads import Wire


class DeadlinePassed(Wire, frozen=True, kw_only=True):
    """`kind` of `subject` was due; `version` is that of the row when it was set."""

    subject: str
    kind: str
    version: int


def deadline_message(kind: str, subject: str, version: int, due_ms: int) -> Received:
    """The message of a deadline that was due at `due_ms`."""
    place = f"deadline/{kind}/{subject}/{version}"
    event = Event(
        id=event_id(due_ms, place, "deadline", 0),
        type="muster.deadline.passed.v1",
        source="deadline",
        subject=subject,
        time_ms=due_ms,
        key=subject,
        payload=DeadlinePassed(subject=subject, kind=kind, version=version),
    )
    return Received(event=event, topic=place, partition=0, offset=-1)
