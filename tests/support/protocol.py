"""Builders of what travels through the protocol: messages, rows, units."""

from __future__ import annotations

import time
from typing import Any

from shared.core.model.nouns import WorkloadKind, WorkloadSpec
from shared.events.codec import encode_headers, encode_payload
from shared.events.envelope import Event, Received, event_id
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import SUBMISSION_COMMANDS, Topic
from shared.events.workloads import CancelWorkload, SubmitWorkload, Wire
from shared.ports.publisher import RawMessage
from shared.ports.store import AuditRow, OutboxRow, Unit

FIRST_MS = 1_700_000_000_000


def an_event(number: int, payload: Wire | None = None, **more: Any) -> Event:
    """An event whose id follows from `number`."""
    payload = payload or CancelWorkload(workload_id=f"w{number}", team="t")
    subject = getattr(payload, "workload_id", "")
    fields: dict[str, Any] = {
        "id": event_id(FIRST_MS + number, f"cause-{number}", "test", 0),
        "type": NAME_BY_TYPE[type(payload)],
        "source": "test",
        "subject": subject,
        "time_ms": FIRST_MS + number,
        "key": subject,
        "payload": payload,
    }
    return Event(**(fields | more))


def a_submission(name: str = "train") -> SubmitWorkload:
    """What a team sends on its own topic."""
    return SubmitWorkload(spec=WorkloadSpec(name=name, kind=WorkloadKind.TRAINING))


def a_message(
    number: int, payload: Wire | None = None, topic: Topic = SUBMISSION_COMMANDS, **more: Any
) -> Received:
    """`an_event` at offset `number` of partition 0."""
    event = an_event(number, payload, **more)
    return Received(event=event, topic=topic.name, partition=0, offset=number)


def a_row(
    seq: int, *, topic: str = SUBMISSION_COMMANDS.name, partition: int = 0, size: int = 0
) -> OutboxRow:
    """An outbox row with a command for workload `w<seq>`."""
    event = an_event(seq)
    return OutboxRow(
        seq=seq,
        event_id=event.id,
        topic=topic,
        partition=partition,
        key=event.key,
        headers=encode_headers(event),
        value=encode_payload(event.payload) + b" " * size,
    )


def a_record(event: Event, offset: int, *, topic: str = SUBMISSION_COMMANDS.name) -> RawMessage:
    """`event` as it lies in the log."""
    return RawMessage(
        topic=topic,
        partition=0,
        offset=offset,
        headers=tuple(encode_headers(event)),
        key=event.key.encode(),
        value=encode_payload(event.payload),
        timestamp_ms=FIRST_MS,
    )


def an_audit(seq: int, digest: bytes = b"digest") -> AuditRow:
    """An audit row of workload `w<seq>`."""
    return AuditRow(
        seq=seq,
        event_id=an_event(seq).id,
        subject=f"w{seq}",
        version=1,
        kind="test",
        before="",
        after="queued",
        actor="",
        at_ms=FIRST_MS,
        digest=digest,
    )


def a_unit(number: int = 1, **parts: Any) -> Unit:
    """A unit of work of now with nothing in it but `parts`."""
    return Unit(**({"number": number, "at_ms": int(time.time() * 1000)} | parts))
