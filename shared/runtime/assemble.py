"""Turns an outcome into the unit of work that makes it true: ids, numbers, headers, digests.

Pure: numbers come in through `Counters`, time as an argument.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shared.events.codec import MAX_VALUE_BYTES, encode_headers, encode_payload
from shared.events.envelope import Event, Received, event_id
from shared.events.registry import NAME_BY_TYPE
from shared.events.topics import DEAD_LETTER_SUFFIX, record_bytes_max
from shared.ports.errors import Rejected
from shared.ports.store import AuditRow, OutboxRow, Unit
from shared.runtime.handler import Change, Emit, Outcome

DEAD_VALUE_BYTES_MAX: Final = 1 << 20
"""A dead letter must fit the broker's bound with its headers, or the relay would never get past
it; the rest of a longer value is at its source coordinates."""
DEAD_HEADERS_BYTES_MAX: Final = 64 << 10
"""Headers of the sender beyond this are left out."""
DEAD_KEY_LENGTH_MAX: Final = 1_000
RECORD_OVERHEAD_BYTES: Final = 1 << 10
"""Of a record and its batch beside key, headers and value, and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What the next unit starts from."""

    next_seq: int
    next_unit: int
    next_audit: int
    last_digest: bytes

    def after(self, unit: Unit) -> Counters:
        """The counters once `unit` is committed."""
        return Counters(
            next_seq=unit.outbox[-1].seq + 1 if unit.outbox else self.next_seq,
            next_unit=self.next_unit + 1,
            next_audit=unit.audits[-1].seq + 1 if unit.audits else self.next_audit,
            last_digest=unit.audits[-1].digest if unit.audits else self.last_digest,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that can never be processed, as it was read, with the reason."""

    topic: str
    partition: int
    offset: int
    key: str
    headers: tuple[tuple[str, bytes], ...]
    value: bytes
    error: str


def assemble(
    source: str,
    counters: Counters,
    outcome: Outcome,
    *,
    consumed: Sequence[Received],
    dead: Sequence[DeadLetter],
    now_ms: int,
) -> Unit:
    """The unit for `outcome`; `skipped` and `acked_seq` are the session's to add.

    Raises:
        Rejected: a row is larger than its topic or its readers take; the relay would never get
            past it.
    """
    rows: list[OutboxRow] = []
    indexes: Counter[str] = Counter()
    seq = counters.next_seq
    for emit in outcome.emits:
        index = indexes[emit.cause.event.id]
        indexes[emit.cause.event.id] = index + 1
        rows.append(_outbox_row(source, seq, emit, index, now_ms))
        seq += 1
    for letter in dead:
        rows.append(_dead_row(source, seq, letter, now_ms))
        seq += 1
    return Unit(
        consumed=consumed,
        outbox=rows,
        audits=_audit_rows(source, counters, outcome.changes, now_ms),
        writes=outcome.writes,
        number=counters.next_unit,
        at_ms=now_ms,
    )


def _outbox_row(source: str, seq: int, emit: Emit, index: int, now_ms: int) -> OutboxRow:
    cause = emit.cause.event
    event = Event(
        id=event_id(cause.time_ms, cause.id, source, index),
        type=NAME_BY_TYPE[type(emit.payload)],
        source=source,
        subject=emit.subject,
        time_ms=now_ms,
        key=emit.subject,
        payload=emit.payload,
        sequence=seq,
        causation_id=cause.id,
        correlation_id=cause.correlation_id or cause.id,
        traceparent=cause.traceparent,
    )
    row = OutboxRow(
        seq=seq,
        event_id=event.id,
        topic=emit.topic.name,
        partition=emit.partition,
        key=event.key,
        headers=encode_headers(event),
        value=encode_payload(emit.payload),
    )
    _check_size(row, event.type)
    return row


def _check_size(row: OutboxRow, kind: str) -> None:
    beside = len(row.key.encode()) + sum(len(name) + len(text) for name, text in row.headers)
    room = record_bytes_max(row.topic) - RECORD_OVERHEAD_BYTES - beside
    if len(row.value) > min(room, MAX_VALUE_BYTES):
        raise Rejected(
            f"{kind} of {row.key}: {len(row.value)} bytes, {row.topic} takes"
            f" {min(room, MAX_VALUE_BYTES)}"
        )


def _dead_row(source: str, seq: int, letter: DeadLetter, now_ms: int) -> OutboxRow:
    place = f"{letter.topic}/{letter.partition}/{letter.offset}"
    value = letter.value[:DEAD_VALUE_BYTES_MAX]
    size = sum(len(name) + len(text) for name, text in letter.headers)
    headers = [
        *(letter.headers if size <= DEAD_HEADERS_BYTES_MAX else ()),
        ("source_topic", letter.topic.encode()),
        ("source_partition", b"%d" % letter.partition),
        ("source_offset", b"%d" % letter.offset),
        ("source_consumer", source.encode()),
        ("error_message", letter.error[:1_000].encode()),
    ]
    if len(value) < len(letter.value):
        headers.append(("source_value_bytes", b"%d" % len(letter.value)))
    return OutboxRow(
        seq=seq,
        event_id=event_id(now_ms, place, source, 0),
        topic=letter.topic + DEAD_LETTER_SUFFIX,
        partition=letter.partition,
        key=letter.key[:DEAD_KEY_LENGTH_MAX].replace("\x00", "\ufffd"),
        headers=headers,
        value=value,
    )


def _audit_rows(
    source: str, counters: Counters, changes: Sequence[Change], now_ms: int
) -> list[AuditRow]:
    rows = []
    digest = counters.last_digest
    for seq, change in enumerate(changes, counters.next_audit):
        kind = change.kind or source
        digest = audit_digest(digest, seq, change, kind, now_ms)
        rows.append(
            AuditRow(
                seq=seq,
                event_id=change.cause.event.id,
                subject=change.subject,
                version=change.version,
                kind=kind,
                before=change.before,
                after=change.after,
                actor=change.actor,
                at_ms=now_ms,
                digest=digest,
            )
        )
    return rows


def audit_digest(previous: bytes, seq: int, change: Change, kind: str, at_ms: int) -> bytes:
    """Hash chain over the audit rows: blake2b-128 of the one before and of this row's content.

    `muster-ops check` (I7) has its own copy of this rule.
    """
    text = (
        f"{seq}|{change.cause.event.id}|{change.subject}|{change.version}|{kind}|"
        f"{change.before}|{change.after}|{change.actor}|{at_ms}"
    )
    return hashlib.blake2b(previous + text.encode(), digest_size=16).digest()
