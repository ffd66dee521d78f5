"""Teams that have spent their budget of the month, as quota told: what their gangs may grow by.

A nomination says itself what a budget leaves of it; work that runs has none any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from shared.core.model.team_policy import AtLimit
from shared.core.quota.budget import in_force
from shared.events.quotas import BudgetTold
from shared.ports.reader import Reader
from shared.ports.store import Write

_UPSERT: Final = (
    "INSERT INTO placement.team_budget (team, at_ms, at_limit, spot_flavors, epoch)"
    " SELECT t, a, l, string_to_array(s, ','), {epoch} FROM unnest({0}::text[], {1}::bigint[],"
    " {2}::text[], {3}::text[]) AS r(t, a, l, s) ON CONFLICT (team) DO UPDATE SET"
    " at_ms = excluded.at_ms, at_limit = excluded.at_limit, spot_flavors = excluded.spot_flavors,"
    " epoch = excluded.epoch RETURNING 1"
)
_SELECT: Final = "SELECT team, at_ms, at_limit, spot_flavors FROM placement.team_budget"


class _Rule(NamedTuple):
    at_ms: int
    """When it was told."""
    at_limit: AtLimit
    """What holds now: `WARN` leaves everything."""
    spot_flavors: tuple[str, ...]


_FREE: Final = _Rule(0, AtLimit.WARN, ())


class SpentBudgets:
    """Of the teams of one cell."""

    def __init__(self) -> None:
        self._rules: dict[str, _Rule] = {}
        self._fresh: dict[str, None] = {}

    async def load(self, reader: Reader) -> None:
        """Rebuild from the rows."""
        for row in await reader.fetch(_SELECT):
            limit = AtLimit(row["at_limit"])
            self._rules[row["team"]] = _Rule(row["at_ms"], limit, tuple(row["spot_flavors"]))

    def told(self, fact: BudgetTold) -> None:
        """What a team has spent; old news changes nothing, and few facts change what holds."""
        known = self._rules.get(fact.team, _FREE)
        if fact.at_ms <= known.at_ms:
            return
        limit = in_force(fact.at_limit, fact.percent)
        flavors = fact.spot_flavors if limit is AtLimit.SPOT else ()
        self._rules[fact.team] = _Rule(fact.at_ms, limit, flavors)
        if (limit, flavors) != known[1:]:
            self._fresh[fact.team] = None

    def may_grow(self, team: str, flavor: str) -> bool:
        """Whether its gangs may take more of a flavor at all."""
        rule = self._rules.get(team, _FREE)
        return rule.at_limit is not AtLimit.STOP and (
            rule.at_limit is not AtLimit.SPOT or flavor in rule.spot_flavors
        )

    def owned_only(self, team: str) -> bool:
        """Whether it may not borrow."""
        return self._rules.get(team, _FREE).at_limit is AtLimit.NOMINAL

    def writes(self) -> Sequence[Write]:
        """Rows of what was told since the last call."""
        if not self._fresh:
            return ()
        teams, self._fresh = list(self._fresh), {}
        rules = [self._rules[one] for one in teams]
        columns = (
            teams,
            [one.at_ms for one in rules],
            [one.at_limit.value for one in rules],
            [",".join(one.spot_flavors) for one in rules],
        )
        return (Write(_UPSERT, columns, len(teams)),)
