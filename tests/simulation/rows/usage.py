"""`placement.usage` on SQLite: limits, and use that goes up the quota tree (migration 0014)."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from shared.ports.errors import Stale

Place = tuple[Any, ...]
"""Node of the quota tree, and flavor."""
_QUOTA: Final = """
INSERT INTO placement.quota_node (name, kind, parent, version, body)
VALUES (:name, :kind, :parent, :version, :body)
ON CONFLICT (name) DO UPDATE SET kind = excluded.kind, parent = excluded.parent,
    version = excluded.version, body = excluded.body
"""
_LIMITS: Final = """
INSERT INTO placement.usage AS u (quota_node, flavor, gpu_milli_limit, cpu_milli_limit,
    memory_mib_limit, gpu_milli_ceiling, cpu_milli_ceiling, memory_mib_ceiling,
    gpu_milli_guaranteed, cpu_milli_guaranteed, memory_mib_guaranteed)
VALUES (?1, ?2, ?3, ?4, ?5, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (quota_node, flavor) DO UPDATE SET gpu_milli_limit = ?3, cpu_milli_limit = ?4,
    memory_mib_limit = ?5, gpu_milli_guaranteed = ?6, cpu_milli_guaranteed = ?7,
    memory_mib_guaranteed = ?8, gpu_milli_ceiling = max(?3, u.gpu_milli),
    cpu_milli_ceiling = max(?4, u.cpu_milli), memory_mib_ceiling = max(?5, u.memory_mib)
"""
_AMOUNTS: Final = ("gpu_milli", "cpu_milli", "memory_mib")
_MOVE: Final = "UPDATE placement.usage SET " + ", ".join(
    f"{one} = {one} + :{one}, {one}_ceiling = CASE WHEN :{one} >= 0 THEN {one}_ceiling"
    f" ELSE max({one}_limit, {one} + :{one}) END"
    for one in _AMOUNTS
) + " WHERE quota_node = :name AND flavor = :flavor RETURNING *"  # fmt: skip
_EXCESS: Final = "SELECT " + ", ".join(
    f"coalesce(sum(max(0, c.{one} - c.{one}_guaranteed)), 0) AS {one}" for one in _AMOUNTS
) + (
    " FROM placement.quota_node q JOIN placement.usage c ON c.quota_node = q.name"
    " WHERE q.parent = ? AND c.flavor = ?"
)  # fmt: skip
_RECOUNT: Final = "UPDATE placement.usage SET " + ", ".join(
    f"{one} = :{one}, {one}_ceiling = max({one}_limit, :{one})" for one in _AMOUNTS
) + " WHERE quota_node = :name AND flavor = :flavor"  # fmt: skip
_COHORTS: Final = """
WITH RECURSIVE below(name, depth) AS (
    SELECT name, 1 FROM placement.quota_node WHERE parent = ''
    UNION ALL
    SELECT q.name, b.depth + 1 FROM placement.quota_node q JOIN below b ON q.parent = b.name)
SELECT u.quota_node AS name, u.flavor FROM below b JOIN placement.usage u ON u.quota_node = b.name
JOIN placement.quota_node q ON q.name = b.name WHERE q.kind = 'cohort' ORDER BY b.depth DESC
"""


def put(tables: sqlite3.Connection, quota: Mapping[str, Any]) -> None:
    """A node of the tree with its limits."""
    tables.execute(_QUOTA, {key: value for key, value in quota.items() if key != "limits"})
    tables.executemany(_LIMITS, [(quota["name"], *one) for one in quota["limits"]])


def recount(tables: sqlite3.Connection) -> None:
    """Cohorts from those of their members, the deepest first."""
    for row in tables.execute(_COHORTS).fetchall():
        sums = tables.execute(_EXCESS, (row["name"], row["flavor"])).fetchone()
        tables.execute(_RECOUNT, dict(row) | dict(sums))


def moved(tables: sqlite3.Connection, moves: Mapping[Place, list[int]]) -> dict[Place, list[int]]:
    """One level of the quota tree; what exceeds the guaranteed part goes on to the parents."""
    above: dict[Place, list[int]] = defaultdict(lambda: [0, 0, 0])
    for (name, flavor), amounts in moves.items():
        values = {"name": name, "flavor": flavor} | dict(zip(_AMOUNTS, amounts, strict=True))
        rows = tables.execute(_MOVE, values).fetchall()
        if not rows:
            raise Stale(f"{name}/{flavor} charged without quota")
        sql = "SELECT parent FROM placement.quota_node WHERE name = ?"
        for found in tables.execute(sql, (name,)).fetchall():
            for at, one in enumerate(_AMOUNTS):
                after = rows[0][one] - rows[0][f"{one}_guaranteed"]
                above[found["parent"], flavor][at] += max(0, after) - max(0, after - amounts[at])
    return {place: one for place, one in above.items() if place[0] and any(one)}
