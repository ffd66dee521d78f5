"""Reads records of a team's own topic; their sender is not trusted.

The inbox id comes from the place in the log, the time from the broker, and the sender's `ce_id`
(the idempotency key) becomes `correlation_id`. What cannot be read becomes a message too, so that
admission answers it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from shared.core.model.decision import FieldError
from shared.events.codec import REQUIRED, Malformed, decode
from shared.events.envelope import Event, Received, event_id
from shared.events.idempotency import KEY_LENGTH_MAX, KEY_RULE, is_key
from shared.events.malformed import SubmissionMalformed
from shared.events.submission_reader import decode_submission
from shared.ports.publisher import RawMessage

_REQUIRED: Final = tuple(name for name in REQUIRED if name != "ce_time")
"""The broker's time counts, so the sender may leave out its own, as CloudEvents allows."""
_OTHER_MODES: Final = b"application/cloudevents"
"""How the content type of structured mode and of batched mode begins."""
_BINARY_MODE: Final = (
    "must be application/json: a submission is a CloudEvent in binary mode, with its attributes in"
    ' the headers ce_specversion, ce_id, ce_type and ce_source, and {"spec": ...} as its value'
)
_VALUE_LENGTH_MAX: Final = 100


def submission(message: RawMessage) -> Received:
    """What a team sent; raises Malformed with every broken rule of headers or value."""
    refuse_unreadable(message)
    _check_mode(message)
    received = decode(
        message.topic,
        message.partition,
        message.offset,
        message.headers,
        message.value,
        decode_submission,
        _REQUIRED,
    )
    key = received.event.id
    if not is_key(key):
        error = FieldError(field="ce_id", value=_printed(key)[:_VALUE_LENGTH_MAX], rule=KEY_RULE)
        raise Malformed(f"ce_id: {KEY_RULE}", (error,))
    event = msgspec.structs.replace(
        received.event,
        id=_id_from_place(message),
        time_ms=message.timestamp_ms,
        correlation_id=key,
    )
    return msgspec.structs.replace(received, event=event)


def malformed_submission(message: RawMessage, error: Malformed) -> Received:
    """What admission answers to a record that it cannot be shown."""
    key = dict(message.headers).get("ce_id") or message.key
    event = Event(
        id=_id_from_place(message),
        type="muster.submission.malformed.v1",
        source="runtime",
        subject="",
        time_ms=message.timestamp_ms,
        key="",
        payload=SubmissionMalformed(errors=error.errors or (_rule_of(str(error)),)),
        correlation_id=_printed(key.decode(errors="replace")[: KEY_LENGTH_MAX + 1]),
    )
    return Received(
        event=event, topic=message.topic, partition=message.partition, offset=message.offset
    )


def refuse_unreadable(message: RawMessage) -> None:
    """Raise Malformed where the log's client could not read the record."""
    if message.unreadable:
        raise Malformed(message.unreadable)


def _check_mode(message: RawMessage) -> None:
    for name, value in message.headers:
        if name.lower() == "content-type" and (value or b"").lower().startswith(_OTHER_MODES):
            given = _printed(value.decode(errors="replace"))[:_VALUE_LENGTH_MAX]
            error = FieldError(field="content-type", value=given, rule=_BINARY_MODE)
            raise Malformed(f"content-type: {_BINARY_MODE}", (error,))


def _printed(text: str) -> str:
    """`text` with U+FFFD for whatever could write to a terminal or poison a row."""
    return "".join(one if one.isprintable() else "\ufffd" for one in text)


def _rule_of(reason: str) -> FieldError:
    """`ce_time: is missing` in parts."""
    field, _, rule = reason.partition(": ")
    return FieldError(field=field, value="", rule=rule)


def _id_from_place(message: RawMessage) -> str:
    place = f"{message.topic}/{message.partition}/{message.offset}"
    return event_id(message.timestamp_ms, place, "broker", 0)
