"""How good what users were told of starts is: each basis is scored against the first start.

The first that a workload was told on each basis counts, in `eta` or as a promise in its reason.
It is kept in a table until the workload starts or is over. The gateway that deletes a row counts
it, so of several gateways one does. What `eta` told in the last seconds is in memory only: a kill
loses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog

from services.gateway.http.metrics import ETA_ERROR_SECONDS, ETA_STARTS
from shared.core.backfill.eta import Range, missed
from shared.ports.errors import MusterError
from shared.ports.reader import Reader

ROUND_SECONDS: Final = 5.0
WAITING_MAX: Final = 10_000
"""Told starts that wait in memory for their row; more are not scored."""
SCORED_MAX: Final = 1_000
"""Rows of one statement."""


class ToldStart(NamedTuple):
    """A row of gateway.told_start; times are Unix milliseconds."""

    workload_id: str
    basis: str
    p50_ms: int
    p90_ms: int
    at_ms: int


INSERT: Final = (
    "INSERT INTO gateway.told_start (workload_id, basis, p50_ms, p90_ms, at_ms) SELECT r.* FROM"
    " unnest({0}::text[], {1}::text[], {2}::bigint[], {3}::bigint[], {4}::bigint[]) AS r"
    " ON CONFLICT (workload_id, basis) DO NOTHING RETURNING 1"
)
_INSERT: Final = INSERT.format("$1", "$2", "$3", "$4", "$5")
_SCORE: Final = """
WITH done AS (
    SELECT t.workload_id, t.basis, w.attempt, w.placed_at_ms
    FROM gateway.told_start t LEFT JOIN gateway.workload w ON w.id = t.workload_id
    WHERE w.placed_at_ms IS NOT NULL OR NOT w.live
       OR (w.id IS NULL AND t.at_ms < 1000 * (extract(epoch FROM now()) - 3600)) LIMIT $1
), gone AS (
    DELETE FROM gateway.told_start t USING done d
    WHERE t.workload_id = d.workload_id AND t.basis = d.basis
    RETURNING t.basis, t.p50_ms, t.p90_ms, t.at_ms, d.attempt, d.placed_at_ms
)
SELECT basis, p50_ms, p90_ms, placed_at_ms,
       attempt = 1 AND placed_at_ms >= at_ms AS first_start FROM gone
"""
"""A later attempt is no first start, and what was told after it foretold nothing.

Facts of a workload that is not known yet may be on their way for a while.
"""


class ToldStarts:
    """What `eta` told since the last round, the first of each workload and basis."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], ToldStart] = {}

    def note(self, row: Mapping[str, Any], told: Range | None, now_ms: int) -> None:
        """A user is told so of a workload that never started."""
        full = len(self._waiting) >= WAITING_MAX
        if told is None or row["placed_at_ms"] is not None or full:
            return
        times = (now_ms + told.p50_ms, now_ms + told.p90_ms, now_ms)
        self._waiting.setdefault((row["id"], told.basis), ToldStart(row["id"], told.basis, *times))

    async def keep(self, reader: Reader) -> None:
        """Write them down.

        Raises:
            Transient: the database cannot be reached; they wait for the next time.
        """
        rows = list(self._waiting.values())
        if rows:
            await reader.fetch(_INSERT, *map(list, zip(*rows, strict=True)))
            for one in rows:
                del self._waiting[one.workload_id, one.basis]


async def score(reader: Reader) -> int:
    """Count the starts that came, and forget what is over; how many rows went.

    Raises:
        Transient: the database cannot be reached.
    """
    gone: Sequence[Mapping[str, Any]] = await reader.fetch(_SCORE, SCORED_MAX)
    for row in gone:
        if row["first_start"]:
            error_ms, within = missed(row["p50_ms"], row["p90_ms"], row["placed_at_ms"])
            ETA_ERROR_SECONDS.labels(row["basis"]).observe(error_ms / 1000)
            ETA_STARTS.labels(row["basis"], within).inc()
    return len(gone)


async def score_forever(
    told: ToldStarts, reader: Reader, log: structlog.stdlib.BoundLogger
) -> None:
    """Keep and score until cancelled; then keep what is left."""
    try:
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            try:
                await told.keep(reader)
                full = True
                while full:
                    full = await score(reader) == SCORED_MAX
            except MusterError as error:
                log.warning("starts are not scored", error=str(error))
    finally:
        await _keep_the_last(told, reader, log)


async def _keep_the_last(
    told: ToldStarts, reader: Reader, log: structlog.stdlib.BoundLogger
) -> None:
    try:
        await told.keep(reader)
    except MusterError as error:
        log.warning("the last told starts are not kept", error=str(error))
