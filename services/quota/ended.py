"""How many workloads of each team have ended, ever; told once a second and team at most.

Admission subtracts it from how many it accepted, so that `max_pending` costs nothing a message for
each workload. The number only grows: the newest says all, and one that is lost does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from services.quota.untold import Untold
from shared.ports.reader import Reader
from shared.ports.store import Write

TELL_INTERVAL_MS: Final = 1_000
_UPSERT: Final = (
    "INSERT INTO quota.team_ended (team, ended, epoch) SELECT t, e, {epoch}"
    " FROM unnest({0}::text[], {1}::bigint[]) AS r(t, e) ON CONFLICT (team) DO UPDATE SET"
    " ended = excluded.ended, epoch = excluded.epoch RETURNING 1"
)


class EndedTotals:
    """Totals by team, and what has to be told."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        self._fresh: dict[str, None] = {}
        self._untold = Untold(TELL_INTERVAL_MS)

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; all are told again, because it is not known what was."""
        for row in await reader.fetch("SELECT team, ended FROM quota.team_ended ORDER BY team"):
            self._totals[row["team"]] = row["ended"]
        self._untold.add(self._totals)

    def count(self, team: str) -> None:
        """One more has ended."""
        self._totals[team] = self._totals.get(team, 0) + 1
        self._fresh[team] = None
        self._untold.add((team,))

    def due_ms(self) -> int | None:
        """When the next totals are to be told."""
        return self._untold.due_ms()

    def tell(self, now_ms: int) -> list[tuple[str, int]]:
        """Teams of which the totals were not told yet."""
        return [(team, self._totals[team]) for team in self._untold.take(now_ms)]

    def writes(self) -> Sequence[Write]:
        """Rows of what has grown since the last call."""
        if not self._fresh:
            return ()
        teams, self._fresh = list(self._fresh), {}
        return (Write(_UPSERT, (teams, [self._totals[one] for one in teams]), len(teams)),)
