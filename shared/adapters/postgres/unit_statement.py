"""A whole unit of work as ONE SQL statement: one round trip, one implicit transaction.

Each part is a common table expression; the final SELECT checks the lease and the row counts, so
that a wrong one raises and nothing happens at all. At low rates the fixed cost of a unit rules
the latency, and this halves it (docs/adr/0002).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from shared.ports.store import AuditRow, OutboxRow, Unit, Write

_headers = msgspec.msgpack.Encoder()


class UnitStatement:
    """Collects parts and numbers their placeholders; the lease is always checked."""

    lease_check = "{schema}.hold_lease($1::text, $2::bigint)"

    def __init__(self, schema: str, shard: str, epoch: int) -> None:
        self.arguments: list[Any] = [shard, epoch]
        self._schema = schema
        self._parts: list[str] = []
        self._results = [self.lease_check.format(schema=schema)]

    def add(self, name: str, sql: str, arguments: Sequence[Any], expect: int | None) -> None:
        """A part with placeholders `{0}`, ...; `{shard}` and `{epoch}` stand for the lease."""
        first = len(self.arguments) + 1
        places = [f"${first + index}" for index in range(len(arguments))]
        self.arguments.extend(arguments)
        self._parts.append(f"{name} AS ({sql.format(*places, shard='$1', epoch='$2')})")
        count = f"(SELECT count(*) FROM {name})"
        if expect is None:
            self._results.append(count)
        else:
            place = len(self.arguments) + 1
            self.arguments.append(expect)
            self._results.append(f"{self._schema}.expect('{name}', ${place}::bigint, {count})")

    def text(self) -> str:
        """The SQL."""
        parts = f"WITH {', '.join(self._parts)} " if self._parts else ""
        return f"{parts}SELECT {', '.join(self._results)}"


def build(unit: Unit, schema: str, shard: str, epoch: int, next_seq: int) -> UnitStatement:
    """The statement for `unit`; `next_seq` is the first outbox number after it."""
    statement = UnitStatement(schema, shard, epoch)
    if unit.consumed:
        _add_inbox(statement, schema, unit)
    if unit.consumed or unit.skipped:
        _add_offsets(statement, schema, unit)
    if unit.outbox:
        _add_outbox(statement, schema, unit.outbox)
    if unit.audits:
        _add_audits(statement, schema, unit.audits)
    _add_watermark(statement, schema, unit, next_seq)
    for index, write in enumerate(unit.writes):
        _add_write(statement, index, write)
    return statement


def _add_inbox(statement: UnitStatement, schema: str, unit: Unit) -> None:
    consumed = unit.consumed
    statement.add(
        "inbox_rows",
        f"INSERT INTO {schema}.inbox (event_id, shard, unit, ordinal, topic, partition,"
        " log_offset, at_ms, epoch) SELECT e, {shard}, {0}::bigint, o, t, p, l, {1}::bigint,"
        " {epoch} FROM unnest({2}::uuid[], {3}::int[], {4}::text[], {5}::int[], {6}::bigint[])"
        " AS r(e, o, t, p, l) RETURNING 1",
        (
            unit.number,
            unit.at_ms,
            [one.event.id for one in consumed],
            list(range(len(consumed))),
            [one.topic for one in consumed],
            [one.partition for one in consumed],
            [one.offset for one in consumed],
        ),
        len(consumed),
    )


def next_offsets(unit: Unit) -> dict[tuple[str, int], int]:
    """Where to go on reading after `unit`, by (topic, partition); deadlines have no offset."""
    offsets: dict[tuple[str, int], int] = {}
    for one in unit.consumed:
        if one.offset >= 0:
            place = (one.topic, one.partition)
            offsets[place] = max(offsets.get(place, 0), one.offset + 1)
    for topic, partition, offset in unit.skipped:
        offsets[topic, partition] = max(offsets.get((topic, partition), 0), offset + 1)
    return offsets


def _add_offsets(statement: UnitStatement, schema: str, unit: Unit) -> None:
    offsets = next_offsets(unit)
    if not offsets:
        return
    statement.add(
        "offset_rows",
        f"INSERT INTO {schema}.consumer_offset AS c (shard, topic, partition, next_offset,"
        " topic_id) SELECT {shard}, t, p, o, i FROM unnest({0}::text[], {1}::int[], {2}::bigint[],"
        " {3}::text[]) AS r(t, p, o, i) ON CONFLICT (shard, topic, partition) DO UPDATE"
        # Offsets of two topics of one name are not compared (ADR 83).
        " SET next_offset = CASE WHEN c.topic_id <> excluded.topic_id THEN excluded.next_offset"
        " ELSE greatest(c.next_offset, excluded.next_offset) END,"
        " topic_id = coalesce(excluded.topic_id, c.topic_id) RETURNING 1",
        (
            [topic for topic, _ in offsets],
            [partition for _, partition in offsets],
            list(offsets.values()),
            [unit.topic_ids.get(topic) for topic, _ in offsets],
        ),
        None,
    )


def _add_outbox(statement: UnitStatement, schema: str, rows: Sequence[OutboxRow]) -> None:
    statement.add(
        "outbox_rows",
        f"INSERT INTO {schema}.outbox (shard, seq, event_id, topic, partition, key, headers,"
        " value, epoch) SELECT {shard}, s, e, t, p, k, h, v, {epoch} FROM unnest({0}::bigint[],"
        " {1}::uuid[], {2}::text[], {3}::int[], {4}::text[], {5}::bytea[], {6}::bytea[])"
        " AS r(s, e, t, p, k, h, v) RETURNING 1",
        (
            [row.seq for row in rows],
            [row.event_id for row in rows],
            [row.topic for row in rows],
            [row.partition for row in rows],
            [row.key for row in rows],
            [pack_headers(row.headers) for row in rows],
            [row.value for row in rows],
        ),
        len(rows),
    )


def pack_headers(headers: Sequence[tuple[str, bytes]]) -> bytes:
    """Headers as one value (MessagePack)."""
    return _headers.encode(headers)


def unpack_headers(packed: bytes) -> list[tuple[str, bytes]]:
    """Inverse of `pack_headers`."""
    return msgspec.msgpack.decode(packed, type=list[tuple[str, bytes]])


def _add_audits(statement: UnitStatement, schema: str, rows: Sequence[AuditRow]) -> None:
    statement.add(
        "audit_rows",
        f"INSERT INTO {schema}.audit (shard, seq, event_id, subject, version, kind, before,"
        " after, actor, at_ms, epoch, digest) SELECT {shard}, s, e, w, n, k, b, f, a, m, {epoch},"
        " d FROM unnest({0}::bigint[], {1}::uuid[], {2}::text[], {3}::bigint[], {4}::text[],"
        " {5}::text[], {6}::text[], {7}::text[], {8}::bigint[], {9}::bytea[])"
        " AS r(s, e, w, n, k, b, f, a, m, d) RETURNING 1",
        (
            [row.seq for row in rows],
            [row.event_id for row in rows],
            [row.subject for row in rows],
            [row.version for row in rows],
            [row.kind for row in rows],
            [row.before for row in rows],
            [row.after for row in rows],
            [row.actor for row in rows],
            [row.at_ms for row in rows],
            [row.digest for row in rows],
        ),
        len(rows),
    )


def _add_watermark(statement: UnitStatement, schema: str, unit: Unit, next_seq: int) -> None:
    statement.add(
        "watermark_row",
        f"UPDATE {schema}.watermark SET acked_seq = greatest(acked_seq, {{0}}::bigint),"
        " next_seq = {1}::bigint, next_unit = {2}::bigint WHERE shard = {shard} RETURNING 1",
        (unit.acked_seq, next_seq, unit.number + 1),
        1,
    )


def _add_write(statement: UnitStatement, index: int, write: Write) -> None:
    statement.add(f"write_{index}", write.sql, write.arguments, write.expect)
