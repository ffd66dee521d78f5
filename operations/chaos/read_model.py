"""What chaos reads of the gateway's read model: real nodes with their label, and running work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from operations.chaos.cost import Work
from operations.chaos.places import Place
from operations.failures import Failure
from shared.core.model.nouns import Node, WorkloadSpec

TIMEOUT_SECONDS: Final = 20.0
PLACES_SQL: Final = (
    "SELECT name, cell, body FROM gateway.node WHERE name = ANY($1::text[]) AND NOT removed"
)
_WORK: Final = (
    "SELECT w.id, w.team, w.name, w.state, w.attempt, w.charge_gpu_milli, w.nodes,"
    " w.running_at_ms, s.spec FROM gateway.workload w"
    " LEFT JOIN gateway.workload_spec s ON s.id = w.id"
)
HOLDING_SQL: Final = (
    f"{_WORK} WHERE w.live AND w.state IN ('placed', 'bound', 'running') AND w.nodes <> '{{}}'"
)
WORK_SQL: Final = f"{_WORK} WHERE w.id = ANY($1::text[])"
_nodes: Final = msgspec.json.Decoder(Node)
_specs: Final = msgspec.json.Decoder(WorkloadSpec)


async def real_places(url: str, names: Sequence[str]) -> dict[str, Place]:
    """Those of `names` that agents or a cluster watcher have reported."""
    return {row["name"]: _place(row) for row in await _fetch(url, PLACES_SQL, list(names))}


async def work_that_holds(url: str) -> list[Work]:
    """All work that holds devices, or has been given some."""
    return [_work(row) for row in await _fetch(url, HOLDING_SQL)]


async def work_of(url: str, ids: Sequence[str]) -> dict[str, Work]:
    """Some workloads as they are now, by id."""
    return {row["id"]: _work(row) for row in await _fetch(url, WORK_SQL, list(ids))}


def _place(row: Any) -> Place:  # noqa: ANN401  # asyncpg is untyped
    node = _nodes.decode(row["body"])
    by_index = {gpu.index: gpu.uuid for gpu in node.gpus}
    return Place(
        name=node.name,
        gpus=len(node.gpus),
        flavor=node.flavor,
        ready=node.ready,
        simulated=False,
        allowed=node.chaos,
        cell=row["cell"],
        uuids=tuple(by_index.get(index, "") for index in range(len(node.gpus))),
    )


def _work(row: Any) -> Work:  # noqa: ANN401  # asyncpg is untyped
    spec = _specs.decode(row["spec"]) if row["spec"] else None
    return Work(
        id=row["id"],
        team=row["team"],
        name=row["name"] or "",
        state=row["state"],
        attempt=row["attempt"] or 0,
        gpu_milli=row["charge_gpu_milli"] or 0,
        nodes=frozenset(row["nodes"] or ()),
        running_at_ms=row["running_at_ms"] or 0,
        checkpoint_ms=1000 * ((spec.checkpoint_interval_seconds or 0) if spec else 0),
        restart_ms=1000 * (spec.restart_seconds if spec else 0),
    )


async def _fetch(url: str, sql: str, *values: object) -> list[Any]:
    import asyncpg

    try:
        connection = await asyncpg.connect(
            url, timeout=TIMEOUT_SECONDS, command_timeout=TIMEOUT_SECONDS
        )
    except (OSError, asyncpg.PostgresError, TimeoutError) as error:
        raise Failure(f"database: {error}; is its address right?") from error
    try:
        return list(await connection.fetch(sql, *values))
    finally:
        await connection.close()
