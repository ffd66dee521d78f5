"""CloudEvents 1.0 in binary mode on Kafka: attributes in `ce_` headers, value = JSON payload.

Decoding is strict about types and lenient about unknown fields. What PostgreSQL could not store
(NUL) is refused here, at the edge, so that it can never poison a transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from shared.core.model.decision import FieldError
from shared.events.envelope import Event, Received
from shared.events.older import upcast
from shared.events.registry import TYPE_BY_NAME
from shared.events.workloads import Wire

Headers = list[tuple[str, bytes]]
MAX_VALUE_BYTES: Final = 4 << 20
SEQUENCE_DIGITS_MAX: Final = 18
ATTRIBUTES: Final = frozenset(
    {
        "ce_type",
        "ce_id",
        "ce_source",
        "ce_subject",
        "ce_time",
        "ce_partitionkey",
        "ce_sequence",
        "ce_causationid",
        "ce_correlationid",
        "traceparent",
    }
)
"""Headers that are read; others belong to the producer and may hold any bytes."""
REQUIRED: Final = ("ce_type", "ce_id", "ce_source", "ce_time")

_encoder = msgspec.json.Encoder()
_decoders: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(type=payload) for name, payload in TYPE_BY_NAME.items()
}


class Malformed(Exception):  # noqa: N818  # the name says what the message is
    """The message can never be processed; it goes to the dead letters with this reason.

    `errors` names each broken rule where they are known.
    """

    def __init__(self, reason: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(reason)
        self.errors = tuple(errors)


def encode_payload(payload: Wire) -> bytes:
    """The JSON value of a payload, without fields that have their default."""
    return _encoder.encode(payload)


def encode_headers(event: Event) -> Headers:
    """The CloudEvents attributes of `event`."""
    headers = [
        *_fixed_headers(event.type, event.source),
        ("ce_id", event.id.encode()),
        ("ce_subject", event.subject.encode()),
        ("ce_time", _rfc3339(event.time_ms)),
        ("ce_partitionkey", event.key.encode()),
        ("ce_sequence", b"%d" % event.sequence),
    ]
    if event.causation_id:
        headers.append(("ce_causationid", event.causation_id.encode()))
    if event.correlation_id:
        headers.append(("ce_correlationid", event.correlation_id.encode()))
    if event.traceparent:
        headers.append(("traceparent", event.traceparent.encode()))
    return headers


@lru_cache(maxsize=256)
def _fixed_headers(type_name: str, source: str) -> tuple[tuple[str, bytes], ...]:
    """What all events of one type and producer share; `ce_type` first, for `type_of`."""
    return (
        ("ce_type", type_name.encode()),
        ("ce_specversion", b"1.0"),
        ("content-type", b"application/json"),
        ("ce_source", source.encode()),
    )


def decode(  # noqa: PLR0917  # a record of the log is just this wide
    topic: str,
    partition: int,
    offset: int,
    headers: Iterable[tuple[str, bytes]],
    value: bytes | None,
    payload_of: Callable[[str, bytes | None], Wire] | None = None,
    required: Sequence[str] = REQUIRED,
    logged_ms: int = 0,
) -> Received:
    """The event at one place of the log; `topic` without its prefix.

    `payload_of` reads the value by its type instead of `decode_payload`. An event without a time,
    where `required` does not name it, has time 0.

    Raises:
        Malformed: an attribute is missing, the type is unknown, or the payload breaks its schema.
    """
    try:
        text = {name: each.decode() for name, each in headers if name in ATTRIBUTES}
    except (UnicodeDecodeError, AttributeError) as error:
        raise Malformed("headers: must be UTF-8 text") from error
    if not all(map(text.get, required)):
        raise _incomplete(text, required)
    type_name = text["ce_type"]
    event = Event(
        id=text["ce_id"],
        type=type_name,
        source=text["ce_source"],
        subject=text.get("ce_subject", ""),
        time_ms=parse_time(text["ce_time"]) if "ce_time" in text else 0,
        key=text.get("ce_partitionkey", ""),
        payload=(payload_of or decode_payload)(type_name, value),
        sequence=_sequence(text.get("ce_sequence", "0")),
        causation_id=text.get("ce_causationid", ""),
        correlation_id=text.get("ce_correlationid", ""),
        traceparent=text.get("traceparent", ""),
    )
    return Received(
        event=event, topic=topic, partition=partition, offset=offset, logged_ms=logged_ms
    )


def type_of(headers: Iterable[tuple[str, bytes]]) -> bytes | None:
    """The `ce_type` among `headers`, without decoding anything."""
    for name, value in headers:
        if name == "ce_type":
            return value
    return None


def decode_payload(type_name: str, value: bytes | None) -> Wire:
    """The payload of a known type; raises Malformed as `decode` does."""
    decoder = _decoders.get(type_name)
    if decoder is None:
        raise Malformed(f"ce_type: {type_name!r} is not a known type")
    if value is None or len(value) > MAX_VALUE_BYTES:
        raise Malformed(f"value: must be present and at most {MAX_VALUE_BYTES} bytes")
    if b"\\u0000" in value or b"\x00" in value:
        raise Malformed("value: must not contain NUL")
    try:
        payload: Wire = _decoded(decoder, value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"value: {error}") from error
    return payload


def _decoded(decoder: msgspec.json.Decoder[Any], value: bytes) -> Wire:
    """As this version tells it, else as others do; what is raised speaks of this one."""
    try:
        payload: Wire = decoder.decode(value)
    except msgspec.ValidationError:
        with contextlib.suppress(msgspec.ValidationError):
            return upcast(decoder.type, value)
        raise
    return payload


def _incomplete(fields: dict[str, str], required: Sequence[str]) -> Malformed:
    missing = [name for name in required if not fields.get(name)]
    errors = [FieldError(field=name, value="", rule="header is missing") for name in missing]
    return Malformed(f"{', '.join(missing)}: header is missing", errors)


@lru_cache(maxsize=1024)
def parse_time(text: str) -> int:
    """Unix milliseconds of an RFC 3339 time; raises Malformed."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Malformed(f"ce_time: {text!r} is not an RFC 3339 time") from error
    if moment.tzinfo is None:
        raise Malformed(f"ce_time: {text!r} has no offset from UTC")
    time_ms = round(moment.timestamp() * 1000)
    if time_ms < 0:
        raise Malformed(f"ce_time: {text!r} is before 1970")
    return time_ms


def _sequence(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= SEQUENCE_DIGITS_MAX):
        raise Malformed(f"ce_sequence: {text[:80]!r} is not a number")
    return int(text)


@lru_cache(maxsize=64)
def _rfc3339(time_ms: int) -> bytes:
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z".encode()
