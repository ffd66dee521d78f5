"""How many workloads of each team have ended, ever; told once a second and team at most.

Admission subtracts it from how many it accepted, so that `max_pending` costs nobody a message for
each workload. The number only grows: the newest says all, and one that is lost does no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.ports.reader import Reader
from shared.ports.store import Write

TELL_INTERVAL_MS: Final = 1_000
_UPSERT: Final = (
    "INSERT INTO quota.team_ended (team, ended, epoch) SELECT t, e, {epoch}"
    " FROM unnest({0}::text[], {1}::bigint[]) AS r(t, e) ON CONFLICT (team) DO UPDATE SET"
    " ended = excluded.ended, epoch = excluded.epoch RETURNING 1"
)


class Ended:
    """Totals by team, and who has to be told."""

    def __init__(self) -> None:
        self._totals: dict[str, int] = {}
        self._fresh: dict[str, None] = {}
        self._untold: dict[str, None] = {}
        self._told_at_ms = 0

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; all are told again, because nobody knows who was."""
        for row in await reader.fetch("SELECT team, ended FROM quota.team_ended ORDER BY team"):
            self._totals[row["team"]] = row["ended"]
            self._untold[row["team"]] = None

    def count(self, team: str) -> None:
        """One more has ended."""
        self._totals[team] = self._totals.get(team, 0) + 1
        self._fresh[team] = self._untold[team] = None

    def due_ms(self) -> int | None:
        """When the next totals are to be told."""
        return self._told_at_ms + TELL_INTERVAL_MS if self._untold else None

    def tell(self, now_ms: int) -> list[tuple[str, int]]:
        """Teams with totals that nobody was told yet."""
        untold, self._untold = self._untold, {}
        self._told_at_ms = now_ms
        return [(team, self._totals[team]) for team in untold]

    def writes(self) -> Sequence[Write]:
        """Rows of what has grown since the last call."""
        if not self._fresh:
            return ()
        teams, self._fresh = list(self._fresh), {}
        return (Write(_UPSERT, (teams, [self._totals[one] for one in teams]), len(teams)),)
