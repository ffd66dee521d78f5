"""`placement.change_ledger` and its triggers on SQLite (migrations 0004, 0010 and 0020).

Where PostgreSQL's triggers sum up the rows of a statement, one function does here, for what was
charged and, the other way round, for what was released.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from services.placement.unit.agreement import HELD_SQL
from services.placement.unit.ledger import LEDGER
from shared.ports.errors import Stale
from tests.simulation.rows import usage

Row = Mapping[str, Any]
_NODE: Final = """
INSERT INTO placement.node AS n (name, generation, present, ready, cpu_milli, memory_mib, body)
VALUES (:name, :generation, :present, :ready, :cpu_milli, :memory_mib, :body)
ON CONFLICT (name) DO UPDATE SET generation = excluded.generation, present = excluded.present,
    ready = excluded.ready, cpu_milli = max(excluded.cpu_milli, n.cpu_milli_used),
    memory_mib = max(excluded.memory_mib, n.memory_mib_used), body = excluded.body
"""
_GPU: Final = """
INSERT INTO placement.gpu AS g (node, gpu, memory_mib, healthy) VALUES (?, ?, ?, ?)
ON CONFLICT (node, gpu) DO UPDATE SET healthy = excluded.healthy,
    memory_mib = max(excluded.memory_mib, g.memory_mib_used)
"""
_CHARGE_GPU: Final = """
UPDATE placement.gpu SET mask = mask | :mask, slices_used = slices_used + :slices,
    milli_used = milli_used + :milli, memory_mib_used = memory_mib_used + :memory,
    shares = shares + :shares,
    share_team = CASE WHEN :shares = 0 OR :teams = share_team THEN share_team
        WHEN share_team = '' THEN :teams ELSE share_team || ',' || :teams END
WHERE node = :node AND gpu = :gpu
"""
_RELEASE_GPU: Final = """
UPDATE placement.gpu SET mask = mask & ~:mask, slices_used = slices_used - :slices,
    milli_used = milli_used - :milli, memory_mib_used = memory_mib_used - :memory,
    shares = shares - :shares,
    share_team = CASE WHEN shares - :shares = 0 THEN '' ELSE share_team END
WHERE node = :node AND gpu = :gpu
"""
_USE_NODE: Final = """
UPDATE placement.node SET cpu_milli_used = cpu_milli_used + ?,
    memory_mib_used = memory_mib_used + ? WHERE name = ?
"""
_ROW: Final = (
    *("workload_id", "attempt", "rank", "node", "gpu", "team", "queue", "flavor", "mask"),
    *("milli", "gpu_memory_mib", "cpu_milli", "memory_mib", "epoch"),
)
_INSERT: Final = (
    f"INSERT INTO placement.allocation ({', '.join(_ROW)})"  # constants
    f" VALUES ({', '.join(f':{one}' for one in _ROW)})"
)


def change_ledger(  # noqa: PLR0917  # the arguments of the function in the database
    tables: sqlite3.Connection,
    epoch: int,
    nodes: Sequence[str],
    quotas: Sequence[str],
    released: Sequence[str],
    shrunk: Sequence[str],
    shrunk_to: Sequence[int],
    released_rows: int,
    *charged: Sequence[Any],
) -> None:
    """Nodes and quota first, then what is released, then what is charged."""
    for body in nodes:
        _put_node(tables, json.loads(body))
    for body in quotas:
        usage.put(tables, json.loads(body))
    if quotas:
        usage.recount(tables)
    gone = _taken(tables, "workload_id = ?", [(one,) for one in released])
    gone += _taken(tables, "workload_id = ? AND rank >= ?", zip(shrunk, shrunk_to, strict=True))
    if (released or shrunk) and len(gone) != released_rows:
        raise Stale(f"released allocations: {released_rows} rows expected, {len(gone)} changed")
    rows = [dict(zip(_ROW, (*row, epoch), strict=True)) for row in zip(*charged, strict=True)]
    tables.executemany(_INSERT, rows)
    _apply(tables, rows, 1)


def _put_node(tables: sqlite3.Connection, node: Row) -> None:
    tables.execute(_NODE, {key: value for key, value in node.items() if key != "gpus"})
    tables.executemany(_GPU, [(node["name"], *gpu) for gpu in node["gpus"]])


def _taken(
    tables: sqlite3.Connection, where: str, arguments: Iterable[Sequence[Any]]
) -> list[Row]:
    sql = f"DELETE FROM placement.allocation WHERE {where} RETURNING *"  # constants
    rows = [row for one in arguments for row in tables.execute(sql, one).fetchall()]
    _apply(tables, rows, -1)
    return rows


def _apply(tables: sqlite3.Connection, rows: Sequence[Row], sign: int) -> None:
    """What the triggers do with the rows of one statement; `sign` -1 releases them."""
    for (node, gpu), those in _grouped(rows, "node", "gpu"):
        if gpu >= 0:
            sql = _CHARGE_GPU if sign > 0 else _RELEASE_GPU
            done = tables.execute(sql, _on_gpu(those) | {"node": node, "gpu": gpu}).rowcount
            _expect(sign, done, f"allocation of GPU {gpu} of {node} that is not there")
    for (node,), those in _grouped(rows, "node"):
        cpu, memory = (sign * _sum(those, one) for one in ("cpu_milli", "memory_mib"))
        done = tables.execute(_USE_NODE, (cpu, memory, node)).rowcount
        _expect(sign, done, f"allocation on node {node} that is not there")
    moved = {
        place: [sign * _sum(those, one) for one in ("milli", "cpu_milli", "memory_mib")]
        for place, those in _grouped(rows, "queue", "flavor")
    }
    while moved:
        moved = usage.moved(tables, moved)


def _grouped(rows: Sequence[Row], *names: str) -> Iterable[tuple[tuple[Any, ...], list[Row]]]:
    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[one] for one in names)

    return [(place, [*those]) for place, those in groupby(sorted(rows, key=key), key)]


def _sum(rows: Sequence[Row], name: str) -> int:
    return sum(row[name] for row in rows)


def _expect(sign: int, done: int, text: str) -> None:
    if sign > 0 and not done:
        raise Stale(text)


def _on_gpu(rows: Sequence[Row]) -> dict[str, Any]:
    mask, shares = 0, [row for row in rows if row["mask"] == 0]
    for row in rows:
        mask |= row["mask"]
    return {
        "mask": mask,
        "slices": sum(row["mask"].bit_count() for row in rows),
        "milli": _sum(rows, "milli"),
        "memory": _sum(rows, "gpu_memory_mib"),
        "shares": len(shares),
        "teams": ",".join(sorted({row["team"] for row in shares})),
    }


_HELD_GPUS: Final = """
SELECT node || ':' || gpu || ':' || mask || ':' || milli_used || ':' || share_team AS line
FROM placement.gpu WHERE milli_used > 0 ORDER BY node, gpu
"""
_HELD_NODES: Final = """
SELECT coalesce(sum(cpu_milli_used), 0) AS cpu_milli,
    coalesce(sum(memory_mib_used), 0) AS memory_mib FROM placement.node
"""


def held(tables: sqlite3.Connection) -> list[Row]:
    """The answer to `HELD_SQL`; SQLite's aggregates have no order."""
    text = ",".join(row["line"] for row in tables.execute(_HELD_GPUS))
    digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return [dict(tables.execute(_HELD_NODES).fetchone()) | {"gpus": digest}]


WRITES: Final[Mapping[str, Callable[..., None]]] = {LEDGER: change_ledger}
"""Statements that SQLite cannot run, and what stands for them."""
READS: Final[Mapping[str, Callable[..., list[Row]]]] = {HELD_SQL: held}
