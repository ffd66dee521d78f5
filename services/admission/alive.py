"""How many workloads of each team were accepted and have not ended, against `max_pending`.

Two numbers that only grow: what was accepted is counted here, what has ended is told by quota.
Between two tellings the difference is too large, never too small, by what has ended meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shared.core.admission.admit import AdmissionRefusal
from shared.core.model.decision import FieldError
from shared.ports.reader import Reader
from shared.ports.store import Write

_UPSERT: Final = (
    "INSERT INTO admission.team_count (team, accepted, ended, epoch) SELECT t, a, e, {epoch}"
    " FROM unnest({0}::text[], {1}::bigint[], {2}::bigint[]) AS r(t, a, e)"
    " ON CONFLICT (team) DO UPDATE SET accepted = excluded.accepted, ended = excluded.ended,"
    " epoch = excluded.epoch RETURNING 1"
)


class Alive:
    """Accepted and ended workloads by team."""

    def __init__(self) -> None:
        self._accepted: dict[str, int] = {}
        self._ended: dict[str, int] = {}
        self._fresh: dict[str, None] = {}

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows; `self` must be new."""
        rows = await reader.fetch("SELECT team, accepted, ended FROM admission.team_count")
        for row in rows:
            self._accepted[row["team"]] = row["accepted"]
            self._ended[row["team"]] = row["ended"]

    def accept(self, team: str) -> None:
        """One more was accepted."""
        self._accepted[team] = self._accepted.get(team, 0) + 1
        self._fresh[team] = None

    def end(self, team: str, ended: int) -> None:
        """As many have ended, ever."""
        if ended > self._ended.get(team, 0):
            self._ended[team] = ended
            self._fresh[team] = None

    def refusal(self, team: str, most: int) -> AdmissionRefusal | None:
        """Why no more may come now, or None."""
        alive = self._accepted.get(team, 0) - self._ended.get(team, 0)
        if alive < most:
            return None
        rule = f"team {team} may have at most {most} workloads that have not ended"
        then = "send it again under a new key once some have ended"
        error = FieldError(field="max_pending", value=str(alive), rule=f"{rule}; {then}")
        return AdmissionRefusal(errors=(error,))

    def writes(self) -> Sequence[Write]:
        """Rows of what has grown since the last call."""
        if not self._fresh:
            return ()
        teams, self._fresh = list(self._fresh), {}
        accepted = [self._accepted.get(one, 0) for one in teams]
        ended = [self._ended.get(one, 0) for one in teams]
        return (Write(_UPSERT, (teams, accepted, ended), len(teams)),)
