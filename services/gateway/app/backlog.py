"""How many workloads of a team have not ended, for `max_pending` at this door.

Counted in the read model when the number is old: after a second near the limit, after a minute
far from it. In between, what is accepted here is added and what ends is not seen, so that the
limit is met early rather than late. Admission decides in the end, also about what comes by Kafka.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from shared.ports.clock import Clock
from shared.ports.reader import Reader

NEAR_SECONDS: Final = 1.0
FAR_SECONDS: Final = 60.0
COUNT: Final = (
    "SELECT count(*) AS alive FROM (SELECT FROM gateway.workload WHERE live AND team = $1"
    " LIMIT $2) AS w"
)
EXISTING: Final = (
    "SELECT count(*) AS known FROM gateway.accepted_request WHERE workload_id = ANY($1)"
)


@dataclass(slots=True)
class _Count:
    alive: int
    read_at_seconds: float
    most: int


class Backlog:
    """Counts by team."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._counts: dict[str, _Count] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def take(self, team: str, count: int, most: int) -> int | None:
        """Make room for `count` more below `most`; what is alive already if there is none."""
        known = self._counts.get(team)
        if known is None or self._is_old(known, count, most):
            await asyncio.shield(self._reading.get(team) or self._begin(team, most))
            known = self._counts[team]
        if known.alive + count > most:
            return known.alive
        known.alive += count
        return None

    async def all_known(self, workload_ids: list[str]) -> bool:
        """Whether all of these were accepted before: a replay needs no room."""
        rows = await self._reader.fetch(EXISTING, workload_ids)
        return bool(rows[0]["known"] == len(set(workload_ids)))

    def _is_old(self, known: _Count, count: int, most: int) -> bool:
        if known.most != most:
            return True  # it may have stopped at another limit
        near = known.alive + count > most // 2
        age_seconds = self._clock.monotonic_seconds() - known.read_at_seconds
        return age_seconds > (NEAR_SECONDS if near else FAR_SECONDS)

    def _begin(self, team: str, most: int) -> asyncio.Task[None]:
        task = asyncio.create_task(self._read(team, most))
        self._reading[team] = task
        task.add_done_callback(lambda done: self._end(team, done))
        return task

    def _end(self, team: str, done: asyncio.Task[None]) -> None:
        self._reading.pop(team, None)
        if not done.cancelled():
            done.exception()  # seen: every waiting task gets it too; there may be none

    async def _read(self, team: str, most: int) -> None:
        asked_at = self._clock.monotonic_seconds()
        rows = await self._reader.fetch(COUNT, team, most)
        self._counts[team] = _Count(rows[0]["alive"], asked_at, most)
