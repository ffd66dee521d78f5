"""What couriers tell the service: local messages of the loop, never on a wire."""

from __future__ import annotations

from typing import Final

import msgspec

from shared.events.envelope import Event, Received, event_id
from shared.events.workloads import Wire

SERVICE: Final = "notifications"
OBSERVATION: Final = "observation"


class DeliveryReported(Wire, frozen=True, kw_only=True):
    """All notices of a destination up to a number are done; or an attempt failed."""

    destination: str
    version: int
    """Of the document that the courier has: of another it is no news."""
    at_ms: int
    through: int = 0
    """0: none was done."""
    delivered: int = 0
    given_up: int = 0
    failed: int = 0
    """Attempts."""
    failing_since_ms: int = 0
    problem: str = ""


def merged(first: DeliveryReported | None, second: DeliveryReported) -> DeliveryReported:
    """Both as one: the newer says how it stands, counts are added."""
    if first is None or first.version != second.version:
        return second
    return msgspec.structs.replace(
        second,
        through=max(first.through, second.through),
        delivered=first.delivered + second.delivered,
        given_up=first.given_up + second.given_up,
        failed=first.failed + second.failed,
    )


def as_message(report: DeliveryReported, now_ms: int, cell: int) -> Received:
    """A local message with an id of its own."""
    text = f"{report.destination}/{report.version}/{report.through}/{report.at_ms}"
    kind = type(report).__name__
    event = Event(
        id=event_id(now_ms, text, SERVICE, 0),
        type=kind,
        source=SERVICE,
        subject=report.destination,
        time_ms=now_ms,
        key=report.destination,
        payload=report,
    )
    return Received(event=event, topic=OBSERVATION, partition=cell, offset=-1)
