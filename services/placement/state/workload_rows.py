"""The rows of placement.workload that one batch inserts and updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from services.placement.state.records import UNCHANGED, Record
from shared.ports.store import Write

_encode = msgspec.json.Encoder().encode

INSERT_WORKLOADS = (
    "INSERT INTO placement.workload (id, team, queue, cell, state, version, attempt, priority,"
    " failures, submitted_at_ms, changed_at_ms, deadline_kind, deadline_ms, then_held, reason,"
    " message, nomination, nominated, body, placement, resize, priority_class, pod_reason,"
    " setbacks, running_at_ms, epoch)"
    " SELECT r.*, {epoch} FROM unnest({0}::text[], {1}::text[], {2}::text[], {3}::int[],"
    " {4}::text[], {5}::bigint[], {6}::int[], {7}::bigint[], {8}::int[], {9}::bigint[],"
    " {10}::bigint[], {11}::text[], {12}::bigint[], {13}::boolean[], {14}::text[], {15}::text[],"
    " {16}::int[], {17}::text[], {18}::text[], {19}::text[], {20}::text[], {21}::text[],"
    " {22}::text[], {23}::int[], {24}::bigint[]) AS r"
    " RETURNING 1"
)
UPDATE_WORKLOADS = (
    "UPDATE placement.workload AS w SET state = r.state, version = r.version,"
    " attempt = r.attempt, priority = r.priority, failures = r.failures,"
    " changed_at_ms = r.changed, deadline_kind = r.dkind, deadline_ms = r.dms,"
    " then_held = r.then_held, reason = r.reason, message = r.message,"
    " nomination = r.nomination, nominated = r.nominated, placement = r.placement,"
    " resize = r.resize, priority_class = r.class, pod_reason = r.pod_reason,"
    " setbacks = r.setbacks, running_at_ms = r.running,"
    " epoch = {epoch} FROM unnest({0}::text[], {1}::text[], {2}::bigint[],"
    " {3}::int[], {4}::bigint[], {5}::int[], {6}::bigint[], {7}::text[], {8}::bigint[],"
    " {9}::boolean[], {10}::text[], {11}::text[], {12}::int[], {13}::text[], {14}::text[],"
    " {15}::text[], {16}::text[], {17}::text[], {18}::int[], {19}::bigint[], {20}::bigint[])"
    " AS r(id, state, version, attempt, priority, failures, changed, dkind, dms, then_held,"
    " reason, message, nomination, nominated, placement, resize, class, pod_reason, setbacks,"
    " running, seen)"
    " WHERE w.id = r.id AND w.version = r.seen RETURNING 1"
)


def workload_writes(records: Sequence[Record], now_ms: int) -> list[Write]:
    """Insert the rows of new workloads, update those that were seen; versions must match."""
    new = [record for record in records if record.stored_version < 0]
    old = [record for record in records if record.stored_version >= 0]
    writes = []
    if new:
        columns = zip(*(_new_row(record, now_ms) for record in new), strict=True)
        arguments = tuple(list(column) for column in columns)
        writes.append(Write(INSERT_WORKLOADS, arguments, len(new)))
    if old:
        columns = zip(*(_changed_row(record, now_ms) for record in old), strict=True)
        arguments = tuple(list(column) for column in columns)
        writes.append(Write(UPDATE_WORKLOADS, arguments, len(old)))
    for record in records:
        record.stored_version = record.version
    return writes


def _new_row(record: Record, now_ms: int) -> tuple[Any, ...]:
    workload = record.workload
    return (
        workload.id,
        workload.team,
        workload.queue,
        workload.cell,
        record.state.value,
        record.version,
        record.attempt,
        record.priority,
        record.failures,
        workload.submitted_at_ms,
        now_ms,
        record.deadline_kind,
        record.deadline_ms,
        record.then_held,
        record.reason.value,
        record.message,
        record.nomination.number if record.nomination else 0,
        _json(record.nomination),
        _json(workload),
        _json(record.placement),
        _resize(record),
        record.priority_class,
        record.pod_reason,
        record.setbacks,
        record.running_at_ms,
    )


def _changed_row(record: Record, now_ms: int) -> tuple[Any, ...]:
    return (
        record.workload.id,
        record.state.value,
        record.version,
        record.attempt,
        record.priority,
        record.failures,
        now_ms,
        record.deadline_kind,
        record.deadline_ms,
        record.then_held,
        record.reason.value,
        record.message,
        record.nomination.number if record.nomination else 0,
        _json(record.nomination),
        _json(record.placement),
        _resize(record),
        record.priority_class,
        record.pod_reason,
        record.setbacks,
        record.running_at_ms,
        record.stored_version,
    )


def _resize(record: Record) -> str:
    return "" if record.resize is UNCHANGED else _json(record.resize)


def _json(value: object) -> str:
    return "" if value is None else _encode(value).decode()
