"""Teams whose results topic tells what becomes of their work, and since when (ADR 64).

The time is that of the document that turned it on: what lay in the log before is not told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.events.organisation import TeamApplied
from shared.ports.reader import Reader
from shared.ports.store import Write

_INSERT: Final = (
    "INSERT INTO admission.told_team (team, since_ms, epoch) SELECT t, s, {epoch}"
    " FROM unnest({0}::text[], {1}::bigint[]) AS r(t, s)"
    " ON CONFLICT (team) DO UPDATE SET since_ms = excluded.since_ms, epoch = excluded.epoch"
    " RETURNING 1"
)
_DELETE: Final = "DELETE FROM admission.told_team WHERE team = ANY({0}::text[]) RETURNING 1"


class ToldTeams:
    """Since when each team is told, Unix milliseconds."""

    def __init__(self) -> None:
        self._since_ms: dict[str, int] = {}
        self._stored: dict[str, int] = {}

    def __len__(self) -> int:
        """Teams that are told."""
        return len(self._since_ms)

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; `self` must be new."""
        rows = await reader.fetch("SELECT team, since_ms FROM admission.told_team")
        self._since_ms = {row["team"]: row["since_ms"] for row in rows}
        self._stored = dict(self._since_ms)

    def apply(self, team: TeamApplied, at_ms: int) -> None:
        """The newest document of a team, applied at `at_ms`."""
        if team.kafka and team.kafka_events:
            self._since_ms.setdefault(team.name, at_ms)
        else:
            self._since_ms.pop(team.name, None)

    def tells(self, team: str, at_ms: int) -> bool:
        """Whether `team` is told of what happened at `at_ms`."""
        return at_ms >= self._since_ms.get(team, at_ms + 1)

    def first_ms(self) -> int:
        """Since when the first of them is told; 0 without one."""
        return min(self._since_ms.values(), default=0)

    def writes(self) -> Sequence[Write]:
        """Rows of what has changed since the last call."""
        if self._since_ms == self._stored:
            return ()
        news = {
            team: since
            for team, since in self._since_ms.items()
            if self._stored.get(team) != since
        }
        gone = [team for team in self._stored if team not in self._since_ms]
        self._stored = dict(self._since_ms)
        writes = [Write(_DELETE, (gone,), len(gone))] if gone else []
        if news:
            writes.append(Write(_INSERT, (list(news), list(news.values())), len(news)))
        return writes
