"""Reads the database once, in one read-only snapshot, by plain SQL.

Every service may have its own protocol tables; they are found, not assumed. What the checker
needs and does not find is an error (`CannotCheck`): silence must never look like health.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from operations.check.charges import CHARGED_SQL
from operations.check.ledger import LEDGER_QUERIES
from operations.check.model import CannotCheck, Row
from operations.check.quota_order import UNITS_SQL
from operations.check.quota_rows import NODES_SQL, ROWS_SQL
from operations.check.usage import USAGE_QUERIES

PROTOCOL: Final = (
    "outbox",
    "watermark",
    "lease",
    "lease_history",
    "audit",
    "consumer_offset",
    "inbox",
)
COLUMNS: Final[dict[str, str]] = {
    "outbox": "shard, seq, event_id::text AS event_id, topic, partition, key, epoch",
    "watermark": "shard, acked_seq",
    "audit": (
        "shard, seq, event_id::text AS event_id, subject, version, kind, before, after, actor,"
        " at_ms, epoch, digest"
    ),
    "consumer_offset": "shard, topic, partition, next_offset",
    "lease": "shard, expires_at < now() AS expired",
}
OTHER: Final = {
    "now": "SELECT (extract(epoch FROM now()) * 1000)::bigint AS now_ms",
    "accepted_request": "SELECT workload_id, team FROM gateway.accepted_request",
    "parked": "SELECT id FROM admission.parked",
    "verdict": "SELECT id, state FROM admission.workload",
    "placement_workload": (
        "SELECT id, team, queue, cell, state, version, attempt FROM placement.workload"
    ),
    "reservation": (
        "SELECT r.workload_id, r.plan_id, r.expires_at_ms, w.state,"
        " (extract(epoch FROM now()) * 1000)::bigint AS now_ms FROM placement.reservation r"
        " LEFT JOIN placement.workload w ON w.id = r.workload_id"
    ),
    "charged": CHARGED_SQL,
    "quota_rows": ROWS_SQL,
    "quota_nodes": NODES_SQL,
    "quota_units": UNITS_SQL,
    "evicting": (
        "SELECT id, reason, changed_at_ms, (extract(epoch FROM now()) * 1000)::bigint AS now_ms,"
        " coalesce((nullif(body, '')::json->'spec'->>'grace_seconds')::int, 30) AS grace_seconds"
        " FROM placement.workload WHERE state = 'evicting'"
    ),
}
WRITTEN: Final = {"outbox": "seq", "audit": "seq", "inbox": "unit * 100000 + ordinal"}
"""Tables with rows that carry the epoch of their writer, and their order of commit."""
AFTER: Final = {"outbox": ("seq", "next_seq"), "inbox": ("unit", "next_unit")}
"""What a lease noted when it was taken: rows from there on belong to it or a later one."""
SCHEMAS_SQL: Final = """
SELECT n.nspname AS schema FROM pg_namespace n
WHERE (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid
       AND c.relname = ANY($1::text[]) AND c.relkind IN ('r', 'p')) = cardinality($1::text[])
ORDER BY 1
"""
STATEMENT_TIMEOUT_SECONDS: Final = 300


async def read_rows(url: str) -> dict[str, Sequence[Row]]:
    """All rows of all queries, by the name of the query.

    Raises:
        CannotCheck: the database cannot be reached or lacks a table or column.
    """
    return await _in_snapshot(url, _read)


async def read_queries(url: str, queries: Mapping[str, str]) -> dict[str, Sequence[Row]]:
    """The rows of these queries alone, of one snapshot; raises `CannotCheck` as above."""

    async def read(connection: Any) -> dict[str, Sequence[Row]]:  # noqa: ANN401  # asyncpg is untyped
        return {name: await connection.fetch(sql) for name, sql in queries.items()}

    return await _in_snapshot(url, read)


async def _in_snapshot(
    url: str, read: Callable[[Any], Awaitable[dict[str, Sequence[Row]]]]
) -> dict[str, Sequence[Row]]:
    import asyncpg

    try:
        connection = await asyncpg.connect(
            url, timeout=10, command_timeout=STATEMENT_TIMEOUT_SECONDS
        )
    except (OSError, asyncpg.PostgresError, TimeoutError) as error:
        raise CannotCheck(f"database: {error}; is its address right?") from error
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.execute(
                f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'"
            )
            return await read(connection)
    except asyncpg.PostgresError as error:
        raise CannotCheck(f"database: {error}; is it migrated to this version?") from error
    finally:
        await connection.close()


async def _read(connection: Any) -> dict[str, Sequence[Row]]:  # noqa: ANN401  # asyncpg is untyped
    schemas = [row["schema"] for row in await connection.fetch(SCHEMAS_SQL, list(PROTOCOL))]
    if not schemas:
        raise CannotCheck("database: no schema has the protocol tables; is it migrated?")
    rows: dict[str, Sequence[Row]] = {}
    queries = {**_protocol_queries(schemas), **OTHER, **LEDGER_QUERIES, **USAGE_QUERIES}
    for name, sql in queries.items():
        rows[name] = await connection.fetch(sql)
    return rows


def _protocol_queries(schemas: Sequence[str]) -> dict[str, str]:
    queries = {
        table: _union(schemas, _SELECT.replace("COLUMNS", columns).replace("TABLE", table))
        for table, columns in COLUMNS.items()
    }
    queries["inbox_other"] = _union(
        schemas,
        "SELECT '{0}' AS schema, event_id::text AS event_id FROM {0}.inbox"
        " WHERE log_offset < 0 OR topic LIKE 'submission-%' OR topic LIKE 'usage.facts.%'"
        " OR topic LIKE 'node.facts.%'",  # of agents, which keep none: gone with a lost log
    )
    for name, template in (
        ("epoch_falls", _FALLS),
        ("epoch_unknown", _UNKNOWN),
        ("epoch_counts", _COUNT),
    ):
        written = (
            template.replace("TABLE", table).replace("PLACE", place)
            for table, place in WRITTEN.items()
        )
        queries[name] = _union(schemas, *written)
    for table, (place, begin) in AFTER.items():
        stale = _STALE.replace("TABLE", table).replace("PLACE", place).replace("BEGIN", begin)
        queries["epoch_falls"] += "\nUNION ALL\n" + _union(schemas, stale)
    queries["epoch_unknown"] += "\nUNION ALL\n" + _union(schemas, _LEASE)
    return queries


_SELECT: Final = "SELECT '{0}' AS schema, COLUMNS FROM {0}.TABLE"
_COUNT: Final = "SELECT count(*) AS rows FROM {0}.TABLE"
# Rows with an epoch lower than that of the row before, in order of commit.
_FALLS: Final = """
    SELECT '{0}' AS schema, shard, 'TABLE' AS what, place, epoch, before FROM (
        SELECT shard, PLACE AS place, epoch,
               lag(epoch) OVER (PARTITION BY shard ORDER BY PLACE) AS before
        FROM {0}.TABLE) AS rows
    WHERE epoch < before"""
# Rows of an earlier epoch behind the place at which a later lease was taken.
_STALE: Final = """
    SELECT '{0}' AS schema, t.shard, 'TABLE' AS what, t.PLACE AS place, t.epoch,
           max(h.epoch) AS before
    FROM {0}.TABLE AS t JOIN {0}.lease_history AS h
      ON h.shard = t.shard AND t.PLACE >= h.BEGIN AND t.epoch < h.epoch
    GROUP BY t.shard, t.PLACE, t.epoch"""
# Epochs of rows that no lease has given out.
_UNKNOWN: Final = """
    SELECT '{0}' AS schema, shard, 'TABLE' AS what, epoch, count(*) AS rows
    FROM {0}.TABLE AS t
    WHERE NOT EXISTS (SELECT 1 FROM {0}.lease_history AS h
                      WHERE h.shard = t.shard AND h.epoch = t.epoch)
    GROUP BY shard, epoch"""
_LEASE: Final = """
    SELECT '{0}' AS schema, l.shard, 'lease' AS what, l.epoch, 1::bigint AS rows
    FROM {0}.lease AS l
    WHERE l.epoch > 0 AND l.epoch IS DISTINCT FROM
        (SELECT max(h.epoch) FROM {0}.lease_history AS h WHERE h.shard = l.shard)"""


def _union(schemas: Sequence[str], *queries: str) -> str:
    return "\nUNION ALL\n".join(query.format(schema) for schema in schemas for query in queries)
