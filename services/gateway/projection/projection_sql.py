"""The statements of the projection: one upsert by table and batch, and only of what is newer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from services.gateway.app import told_starts
from services.gateway.projection.projection_rows import (
    COLUMNS,
    ONCE,
    TIMES,
    TOLD,
    LearnedRow,
    ProjectionBatch,
)
from shared.ports.store import Write

_AS_TEXT: Final = frozenset(("jsonb", "text[]", "bigint[]"))
"""Types that travel as text, because arrays of them cannot be unnested by row."""


def writes(batch: ProjectionBatch) -> list[Write]:
    """What makes the rows of a batch true; nothing for tables without a row."""
    result = []
    learned = _learned_alone(batch)
    if batch.workloads:
        rows = list(batch.workloads.values())
        columns = [[getattr(row, name) for row in rows] for name, _ in COLUMNS]
        result.append(Write(WORKLOADS, tuple(columns)))
    if batch.specs:
        result.append(Write(SPECS, (list(batch.specs), list(batch.specs.values()))))
    for sql, rows_of_table in (
        (EVENTS, batch.events),
        (NODES, batch.nodes.values()),
        (HEALTH, batch.health.values()),
        (CORDONS, batch.cordons.values()),
        (SHUNS, batch.shuns.values()),
        (DISPUTES, batch.disputes.values()),
        (DEVICES, batch.devices.values()),
        (TRENDS, batch.trends.values()),
        (LIMITS, batch.limits.values()),
        (USAGE, batch.usage.values()),
        (GPU_USAGE, batch.gpu_usage.values()),
        (WORK_CLASSES, batch.work_classes.values()),
        (DEBTS, batch.debts.values()),
        (BUDGETS, batch.budgets.values()),
        (DESTINATIONS, batch.destinations.values()),
        (LEARNED, learned),
        (PREEMPTIONS, batch.preemptions.values()),
        (EXPIRED, batch.expired.values()),
        (told_starts.INSERT, batch.told_starts.values()),
    ):
        if rows_of_table:
            result.append(Write(sql, _columns(list(rows_of_table))))
    refusals = [row for row in batch.refusals.values() if row is not None]
    if refusals:
        result.append(Write(REFUSALS, _columns(refusals)))
    over = [name for name, row in batch.refusals.items() if row is None]
    if over:
        result.append(Write(REFUSALS_OVER, (over,)))
    return result


def _learned_alone(batch: ProjectionBatch) -> list[LearnedRow]:
    """Those of workloads that have no row in this batch: a statement changes a row once.

    A row that knows a placement has it from a later fact.
    """
    alone = []
    for learned in batch.learned.values():
        row = batch.workloads.get(learned[0])
        if row is None:
            alone.append(learned)
        elif row.placement is None and row.attempt in (None, learned[1]):
            row.placement = learned[2]
    return alone


def _columns(rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple([list(column) for column in zip(*rows, strict=True)])


def _unnest(columns: Sequence[tuple[str, str]]) -> str:
    """`SELECT ... FROM unnest(...)` with one placeholder for each column."""
    arrays = ", ".join(
        f"{{{index}}}::{'text' if kind in _AS_TEXT else kind}[]"
        for index, (_, kind) in enumerate(columns)
    )
    names = ", ".join(name for name, _ in columns)
    picked = ", ".join(
        f"r.{name}::{kind}" if kind in _AS_TEXT else f"r.{name}" for name, kind in columns
    )
    return f"SELECT {picked} FROM unnest({arrays}) AS r({names})"  # noqa: S608  # built of the constants above


def _names(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(name for name, _ in columns)


def _assignment(name: str) -> str:
    """How one column of a known workload changes."""
    if name in ONCE:
        return f"{name} = coalesce(w.{name}, excluded.{name})"
    if name in TIMES:
        return f"{name} = greatest(w.{name}, excluded.{name})"
    if name == "submitted_at_ms":
        return f"{name} = least(w.{name}, excluded.{name})"
    newer, older = f"coalesce(excluded.{name}, w.{name})", f"w.{name}"
    if name in TOLD:
        older = f"coalesce(w.{name}, excluded.{name})"
    return f"{name} = CASE WHEN excluded.version > w.version THEN {newer} ELSE {older} END"


def _plain_upsert(
    table: str, columns: Sequence[tuple[str, str]], keys: Sequence[str], newer: str
) -> str:
    changes = ", ".join(f"{name} = excluded.{name}" for name, _ in columns if name not in keys)
    return (
        f"INSERT INTO gateway.{table} AS w ({_names(columns)}) {_unnest(columns)}"
        f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {changes} WHERE {newer} RETURNING 1"
    )


WORKLOADS: Final = (
    f"INSERT INTO gateway.workload AS w ({_names(COLUMNS)}) {_unnest(COLUMNS)}"
    " ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(_assignment(name) for name, _ in COLUMNS if name not in ("id", "team"))
    + " WHERE excluded.version > w.version OR (w.pods IS NULL AND excluded.pods IS NOT NULL)"
    " RETURNING 1"
)
LEARNED: Final = (
    "UPDATE gateway.workload AS w SET placement = r.placement"
    " FROM unnest({0}::text[], {1}::int[], {2}::text[]) AS r(id, attempt, placement)"
    " WHERE w.id = r.id AND w.attempt = r.attempt AND w.live RETURNING 1"
)
"""Other GPUs of the same nodes: nothing else of the workload changes."""
SPECS: Final = (
    "INSERT INTO gateway.workload_spec (id, spec) SELECT * FROM unnest({0}::text[], {1}::text[])"
    " ON CONFLICT (id) DO NOTHING RETURNING 1"
)
EVENTS: Final = (
    "INSERT INTO gateway.event (seq, workload_id, team, type, version, at_ms, state, reason,"
    " message, detail, pod_reason) SELECT * FROM unnest({0}::bigint[], {1}::text[], {2}::text[],"
    " {3}::text[], {4}::bigint[], {5}::bigint[], {6}::text[], {7}::text[], {8}::text[],"
    " {9}::text[], {10}::text[]) RETURNING 1"
)
_NODE_COLUMNS: Final = (
    ("name", "text"),
    ("cell", "integer"),
    ("generation", "bigint"),
    ("flavor", "text"),
    ("pool", "text"),
    ("gpus", "integer"),
    ("body", "text"),
    ("removed", "boolean"),
    ("changed_at_ms", "bigint"),
)
NODES: Final = _plain_upsert(
    "node", _NODE_COLUMNS, ("name",), "excluded.generation > w.generation"
)
_HEALTH_COLUMNS: Final = (
    ("node", "text"),
    ("gpu", "integer"),
    ("generation", "bigint"),
    ("healthy", "boolean"),
    ("reason", "text"),
    ("changed_at_ms", "bigint"),
)
HEALTH: Final = _plain_upsert(
    "gpu_health", _HEALTH_COLUMNS, ("node", "gpu"), "excluded.generation >= w.generation"
)
_CORDON_COLUMNS: Final = (
    ("node", "text"),
    ("reason", "text"),
    ("message", "text"),
    ("gone_at_ms", "bigint"),
    ("at_ms", "bigint"),
)
CORDONS: Final = _plain_upsert(
    "node_cordon", _CORDON_COLUMNS, ("node",), "excluded.at_ms >= w.at_ms"
)
_SHUN_COLUMNS: Final = (
    ("node", "text"),
    ("until_ms", "bigint"),
    ("message", "text"),
    ("at_ms", "bigint"),
)
SHUNS: Final = _plain_upsert("node_shun", _SHUN_COLUMNS, ("node",), "excluded.at_ms >= w.at_ms")
_DISPUTE_COLUMNS: Final = (
    ("node", "text"),
    ("gpus", "text"),
    ("message", "text"),
    ("at_ms", "bigint"),
)
DISPUTES: Final = _plain_upsert(
    "node_dispute", _DISPUTE_COLUMNS, ("node",), "excluded.at_ms >= w.at_ms"
)
_DEVICE_COLUMNS: Final = (
    ("node", "text"),
    ("gpu", "integer"),
    ("state", "text"),
    ("rule", "text"),
    ("message", "text"),
    ("until_ms", "bigint"),
    ("at_ms", "bigint"),
)
DEVICES: Final = _plain_upsert(
    "device_health", _DEVICE_COLUMNS, ("node", "gpu"), "excluded.at_ms >= w.at_ms"
)
_TREND_COLUMNS: Final = (
    ("node", "text"),
    ("gpu", "integer"),
    ("trend", "text"),
    ("is_open", "boolean"),
    ("value", "double precision"),
    ("limit_value", "double precision"),
    ("since_ms", "bigint"),
    ("message", "text"),
    ("at_ms", "bigint"),
)
TRENDS: Final = _plain_upsert(
    "device_trend", _TREND_COLUMNS, ("node", "gpu", "trend"), "excluded.at_ms >= w.at_ms"
)
_LIMIT_COLUMNS: Final = (
    ("name", "text"),
    ("kind", "text"),
    ("version", "bigint"),
    ("body", "text"),
    ("changed_at_ms", "bigint"),
)
LIMITS: Final = _plain_upsert(
    "quota_limit", _LIMIT_COLUMNS, ("name",), "excluded.version >= w.version"
)
_USAGE_COLUMNS: Final = (
    ("queue", "text"),
    ("gpu_seconds", "bigint"),
    ("at_ms", "bigint"),
    ("half_life_ms", "bigint"),
)
USAGE: Final = _plain_upsert(
    "queue_usage", _USAGE_COLUMNS, ("queue",), "excluded.at_ms >= w.at_ms"
)
_DEBT_COLUMNS: Final = (("node", "text"), ("debt_millionths", "bigint"), ("at_ms", "bigint"))
DEBTS: Final = _plain_upsert("node_debt", _DEBT_COLUMNS, ("node",), "excluded.at_ms >= w.at_ms")
_DESTINATION_COLUMNS: Final = (("name", "text"), ("at_ms", "bigint"), ("body", "text"))
DESTINATIONS: Final = _plain_upsert(
    "destination", _DESTINATION_COLUMNS, ("name",), "excluded.at_ms >= w.at_ms"
)
PREEMPTIONS: Final = (
    "INSERT INTO gateway.preemption (plan_id, workload_id, team, queue, flavor, rule, at_ms,"
    " inline, victims, alternatives, followers, expired_reason, expired_at_ms) SELECT r.*"
    " FROM unnest({0}::text[], {1}::text[], {2}::text[], {3}::text[], {4}::text[], {5}::text[],"
    " {6}::bigint[], {7}::boolean[], {8}::text[], {9}::text[], {10}::integer[],"
    " {11}::text[], {12}::bigint[]) AS r ON CONFLICT (plan_id) DO NOTHING RETURNING 1"
)
EXPIRED: Final = (
    "UPDATE gateway.preemption p SET expired_reason = r.reason, expired_at_ms = r.at_ms"
    " FROM unnest({0}::text[], {1}::text[], {2}::bigint[]) AS r(plan_id, reason, at_ms)"
    " WHERE p.plan_id = r.plan_id RETURNING 1"
)
_REFUSAL_COLUMNS: Final = (
    ("workload_id", "text"),
    ("queue", "text"),
    ("version", "bigint"),
    ("at_ms", "bigint"),
    ("body", "text"),
)
REFUSALS: Final = _plain_upsert(
    "preemption_refusal", _REFUSAL_COLUMNS, ("workload_id",), "excluded.at_ms >= w.at_ms"
)
REFUSALS_OVER: Final = (
    "DELETE FROM gateway.preemption_refusal r USING unnest({0}::text[]) AS o(id)"
    " WHERE r.workload_id = o.id RETURNING 1"
)
_BUDGET_COLUMNS: Final = (("team", "text"), ("body", "text"), ("at_ms", "bigint"))
BUDGETS: Final = _plain_upsert("budget", _BUDGET_COLUMNS, ("team",), "excluded.at_ms >= w.at_ms")
_WORK_CLASS_COLUMNS: Final = (
    ("week", "integer"),
    ("cell", "integer"),
    ("key", "text"),
    ("team", "text"),
    ("body", "text"),
    ("at_ms", "bigint"),
)
WORK_CLASSES: Final = _plain_upsert(
    "work_class", _WORK_CLASS_COLUMNS, ("week", "cell", "key"), "excluded.at_ms >= w.at_ms"
)
_GPU_USAGE_COLUMNS: Final = (
    ("day", "integer"),
    ("workload_id", "text"),
    ("attempt", "integer"),
    ("resizes", "integer"),
    ("team", "text"),
    ("queue", "text"),
    ("namespace", "text"),
    ("flavor", "text"),
    ("used", "bigint"),
    ("unused", "bigint"),
    ("unmeasured", "bigint"),
    ("price_microdollars_per_gpu_hour", "bigint"),
    ("ended", "boolean"),
    ("at_ms", "bigint"),
    ("purchase", "text"),
)
GPU_USAGE: Final = (
    f"INSERT INTO gateway.gpu_usage AS u ({_names(_GPU_USAGE_COLUMNS)}, name, labels)"  # noqa: S608  # built of the constants above
    f" SELECT t.*, coalesce(w.name, ''), coalesce(w.labels, '{{{{}}}}')"
    f" FROM ({_unnest(_GPU_USAGE_COLUMNS)}) t LEFT JOIN gateway.workload w ON w.id = t.workload_id"
    " ON CONFLICT (day, workload_id, attempt, resizes) DO UPDATE SET used = excluded.used,"
    " unused = excluded.unused, unmeasured = excluded.unmeasured,"
    " price_microdollars_per_gpu_hour = excluded.price_microdollars_per_gpu_hour,"
    " ended = excluded.ended, at_ms = excluded.at_ms, namespace = excluded.namespace,"
    " purchase = excluded.purchase,"
    " name = CASE WHEN excluded.name = '' THEN u.name ELSE excluded.name END,"
    " labels = CASE WHEN excluded.name = '' THEN u.labels ELSE excluded.labels END"
    " WHERE NOT u.ended AND (excluded.ended OR excluded.at_ms >= u.at_ms) RETURNING 1"
)
"""What is told of an end stands; before that the newest."""
