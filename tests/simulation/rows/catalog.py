"""The tables of the simulated services as PostgreSQL has them after all migrations: `tables.sql`.

tests/contract/test_simulated_rows.py compares the file with the catalog of a migrated database,
and with MUSTER_RECORD=1 writes it anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from shared.ports.reader import Reader

FILE: Final = Path(__file__).with_name("tables.sql")
SCHEMAS: Final = ("admission", "quota", "placement", "binder")
PROTOCOL: Final = (
    *("lease", "lease_history", "inbox", "outbox", "audit", "watermark", "consumer_offset"),
)
"""Tables that the fake of the store stands for (shared/adapters/memory.py)."""
_TABLES: Final = """
SELECT c.oid::bigint AS id, n.nspname || '.' || c.relname AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY($1::text[]) AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND c.relname <> ALL($2::text[])
ORDER BY 2
"""
_COLUMNS: Final = """
SELECT a.attrelid::bigint AS id,
    quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod)
    || CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS (' ELSE '' END
    || coalesce(CASE WHEN a.attgenerated = '' THEN ' DEFAULT ' ELSE '' END
                || pg_get_expr(d.adbin, d.adrelid), '')
    || CASE WHEN a.attgenerated <> '' THEN ') STORED' ELSE '' END
    || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END AS line
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
_CONSTRAINTS: Final = """
SELECT conrelid::bigint AS id, 'CONSTRAINT ' || quote_ident(conname) || ' '
    || pg_get_constraintdef(oid) AS line
FROM pg_constraint WHERE contype IN ('p', 'u', 'c') ORDER BY conrelid, contype DESC, conname
"""


async def read(reader: Reader) -> str:
    """`CREATE TABLE` of every table that a simulated service has of its own."""
    parts: dict[int, list[str]] = {}
    tables = await reader.fetch(_TABLES, list(SCHEMAS), list(PROTOCOL))
    for sql in (_COLUMNS, _CONSTRAINTS):
        for row in await reader.fetch(sql):
            parts.setdefault(row["id"], []).append(f"    {row['line']}")
    return (
        "\n".join(
            f"CREATE TABLE {row['name']} (\n" + ",\n".join(parts[row["id"]]) + "\n);"
            for row in tables
        )
        + "\n"
    )
