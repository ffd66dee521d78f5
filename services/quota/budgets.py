"""Budgets of teams: what each has spent this month, exact from facts, and what follows from it.

Spending is kept for every team, so that a budget given in the middle of a month finds all of it.
An attempt costs the price that was in force when it began, as in the cost ledger of monitoring.
When a threshold will be reached is known ahead, so nothing is polled: `due_ms` names the moment.
How much is spent is told besides, once a minute at most, to those that look at quota.
A budget counts what runs in this cell.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from services.quota import budget_facts, metrics
from services.quota.history import TELL_INTERVAL_MS
from services.quota.untold import Untold
from shared.core.model.team_policy import Budget
from shared.core.queueing.nomination import Nominator, Pending, Phase
from shared.core.quota.budget import (
    FULL_PERCENT,
    THRESHOLDS,
    Restriction,
    Spending,
    month_of,
    restriction,
)
from shared.core.quota.prices import Price, price_at
from shared.events.organisation import FlavorApplied, TeamApplied
from shared.events.quotas import BudgetTold, BudgetWarned
from shared.ports.reader import Reader
from shared.ports.store import Write

_UPSERT_TEAMS: Final = (
    "INSERT INTO quota.team (name, version, budget, epoch) SELECT n, v, b, {epoch}"
    " FROM unnest({0}::text[], {1}::bigint[], {2}::text[]) AS r(n, v, b)"
    " ON CONFLICT (name) DO UPDATE SET version = excluded.version, budget = excluded.budget,"
    " epoch = excluded.epoch RETURNING 1"
)
_UPSERT_SPENDING: Final = (
    "INSERT INTO quota.team_spending (team, month, gpu_base, money_base, warned, epoch)"
    " SELECT t, m, g::numeric, c::numeric, w, {epoch} FROM unnest({0}::text[], {1}::int[],"
    " {2}::text[], {3}::text[], {4}::int[]) AS r(t, m, g, c, w)"
    " ON CONFLICT (team) DO UPDATE SET month = excluded.month, gpu_base = excluded.gpu_base,"
    " money_base = excluded.money_base, warned = excluded.warned, epoch = excluded.epoch"
    " RETURNING 1"
)
_INSERT_PRICES: Final = (
    "INSERT INTO quota.{table} (flavor, version, applied_at_ms, microdollars_per_gpu_hour,"
    " epoch) SELECT f, v, a, p, {{epoch}} FROM unnest({{0}}::text[], {{1}}::bigint[],"
    " {{2}}::bigint[], {{3}}::bigint[]) AS r(f, v, a, p) RETURNING 1"
)
_PRICES: Final = (
    "SELECT flavor, version, applied_at_ms, microdollars_per_gpu_hour FROM quota.flavor_price"
    " UNION ALL"
    " SELECT flavor, version, applied_at_ms, microdollars_per_gpu_hour FROM quota.dated_price"
)
_SPENDING: Final = (
    "SELECT team, month, gpu_base::text AS gpu_base, money_base::text AS money_base, warned"
    " FROM quota.team_spending"
)
_budget: Final = msgspec.json.Decoder(Budget | None)


class Budgets:
    """Teams, prices and what was spent of one cell."""

    def __init__(self, core: Nominator) -> None:
        self._core = core
        self._budgets: dict[str, tuple[int, Budget | None]] = {}
        self._prices: dict[str, list[Price]] = {}
        self._spending: dict[str, Spending] = {}
        self._touched: dict[str, None] = {}
        """Teams to look at before this unit ends."""
        self._due: list[tuple[int, str]] = []
        self._due_of: dict[str, int] = {}
        self._renewed: dict[str, None] = {}
        """Teams with another budget since the last review."""
        self._untold = Untold(TELL_INTERVAL_MS)
        """Teams that spent since it was told last; one that holds devices spends all the time."""
        self._fresh_teams: dict[str, None] = {}
        self._fresh_spending: dict[str, None] = {}
        self._fresh_prices: list[tuple[str, list[Price]]] = []
        """Of a version of a flavor, the earliest first."""

    async def load(self, reader: Reader, alive: Iterable[Pending]) -> None:
        """Rebuild from the rows and from what is placed; all are looked at in the next unit."""
        for row in await reader.fetch("SELECT name, version, budget FROM quota.team"):
            self._budgets[row["name"]] = (row["version"], _budget.decode(row["budget"]))
        for row in await reader.fetch(_PRICES):
            self._prices.setdefault(row["flavor"], []).append(
                Price(
                    version=row["version"],
                    applied_at_ms=row["applied_at_ms"],
                    microdollars_per_gpu_hour=row["microdollars_per_gpu_hour"],
                )
            )
        rows = {row["team"]: row for row in await reader.fetch(_SPENDING)}
        for pending in alive:
            if pending.phase is Phase.PLACED:
                self._restore_placed(pending, pending.team in rows)
        for team, row in rows.items():
            self._restore(team, row)
        self._touched = dict.fromkeys(self._spending)
        self._untold.add(self._budgets)

    def _restore_placed(self, pending: Pending, stored: bool) -> None:  # noqa: FBT001  # of a row
        """What it spends from now on; what it spent is in the row, if there is one."""
        spending = self._spending.setdefault(
            pending.team, Spending(month_of(pending.placed_at_ms))
        )
        gpu_milli = pending.charge[0]
        if not stored:
            spending.change(pending.placed_at_ms, gpu_milli, self._price(pending))
            return
        spending.gpu.rate += gpu_milli
        spending.money.rate += gpu_milli * self._price(pending)

    def _restore(self, team: str, row: Mapping[str, Any]) -> None:
        spending = self._spending.setdefault(team, Spending(row["month"]))
        spending.month, spending.warned = row["month"], row["warned"]
        spending.gpu.base, spending.money.base = int(row["gpu_base"]), int(row["money_base"])
        if spending.warned >= FULL_PERCENT:
            self._restrict(team, spending, FULL_PERCENT)

    # ── what came in ─────────────────────────────────────────────────────────────────────────

    def apply(self, team: TeamApplied) -> None:
        """A budget in force."""
        version, budget = self._budgets.get(team.name, (-1, None))
        if team.version > version:
            self._budgets[team.name] = (team.version, team.budget)
            self._fresh_teams[team.name] = self._touched[team.name] = None
            if team.budget != budget:
                self._renewed[team.name] = None

    def apply_price(self, flavor: FlavorApplied, at_ms: int, alive: Iterable[Pending]) -> None:
        """A price in force; what began before it is told keeps its own, unless that had none."""
        known = self._prices.setdefault(flavor.name, [])
        if any(one.version >= flavor.version for one in known):
            return
        placed = [
            (one, self._price(one))
            for one in alive
            if one.phase is Phase.PLACED and one.flavor == flavor.name
        ]
        prices = flavor.prices_from(at_ms)
        known += prices
        self._fresh_prices.append((flavor.name, prices))
        for one, before in placed:
            more = self._price(one) - before
            if more:
                self._spending[one.team].reprice(one.placed_at_ms, one.charge[0], more)
                self._fresh_spending[one.team] = self._touched[one.team] = None

    def change(self, pending: Pending, at_ms: int, sign: int) -> None:
        """From `at_ms` on it holds what it is charged, or with `sign` -1 no longer."""
        team, month = pending.team, month_of(at_ms)
        spending = self._spending.get(team)
        if spending is None:
            spending = self._spending[team] = Spending(month)
        elif month > spending.month:
            spending.turn(month)
        spending.change(at_ms, sign * pending.charge[0], self._price(pending))
        self._fresh_spending[team] = self._touched[team] = None
        self._untold.add((team,))

    def _price(self, pending: Pending) -> int:
        prices = self._prices.get(pending.flavor, ())
        return price_at(prices, pending.placed_at_ms).microdollars_per_gpu_hour

    # ── what follows ─────────────────────────────────────────────────────────────────────────

    def due_ms(self) -> int | None:
        """When a team reaches a threshold, or its month ends."""
        due = self._due
        while due and self._due_of.get(due[0][1]) != due[0][0]:
            heapq.heappop(due)
        return due[0][0] if due else None

    def review(self, now_ms: int, cell: int) -> list[BudgetWarned | BudgetTold]:
        """Look at the teams that something happened to, and at those that are due."""
        while (due_ms := self.due_ms()) is not None and due_ms <= now_ms:
            self._touched[heapq.heappop(self._due)[1]] = None
        touched, self._touched = self._touched, {}
        warned = [fact for team in touched for fact in self._look(team, now_ms, cell)]
        at_once, self._renewed = {**self._renewed, **{one.team: None for one in warned}}, {}
        return [*warned, *(self._told(team, now_ms, cell) for team in at_once)]

    def _look(self, team: str, now_ms: int, cell: int) -> list[BudgetWarned]:
        budget, spending = self._budget_of(team), self._current(team, now_ms)
        if budget is None:
            self._due_of.pop(team, None)
            self._core.restrict(team, None)
            return []
        percent = spending.percent(budget, now_ms)
        self._restrict(team, spending, percent)
        self._due_of[team] = spending.next_ms(budget, now_ms)
        heapq.heappush(self._due, (self._due_of[team], team))
        return self._warn(team, spending, budget, percent, now_ms, cell)

    def _current(self, team: str, now_ms: int) -> Spending:
        """What the team spends, in the month of `now_ms`."""
        spending = self._spending.get(team)
        if spending is None:
            spending = self._spending[team] = Spending(month_of(now_ms))
        elif month_of(now_ms) > spending.month:
            spending.turn(month_of(now_ms))
            self._fresh_spending[team] = None
            self._untold.add((team,))
        return spending

    def _warn(  # noqa: PLR0917  # what `_look` knows
        self, team: str, spending: Spending, budget: Budget, percent: int, now_ms: int, cell: int
    ) -> list[BudgetWarned]:
        """Thresholds that were not told yet; what another budget puts out of reach counts anew."""
        before, reached = spending.warned, [one for one in THRESHOLDS if one <= percent]
        if team in self._renewed:
            spending.warned = min(before, max(reached, default=0))
        fresh = [one for one in reached if one > spending.warned]
        spending.warned = max(fresh, default=spending.warned)
        if spending.warned != before:
            self._fresh_spending[team] = None
        return [budget_facts.warned(team, spending, budget, one, now_ms, cell) for one in fresh]

    def tell_due_ms(self) -> int | None:
        """When what was spent is to be told next."""
        return self._untold.due_ms()

    def tell(self, now_ms: int, cell: int) -> list[BudgetTold]:
        """What each team with a budget has spent, if that changed."""
        teams = self._untold.take(now_ms)
        self._untold.add(team for team in teams if self._current(team, now_ms).gpu.rate)
        budgeted = [team for team in teams if self._budget_of(team) is not None]
        return [self._told(team, now_ms, cell) for team in budgeted]

    def _told(self, team: str, now_ms: int, cell: int) -> BudgetTold:
        spending = self._current(team, now_ms)
        budget, spot = self._budget_of(team), self._core.spot_flavors()
        metrics.show_budget(team, spending, budget, now_ms)
        return budget_facts.told(team, spending, budget, spot, now_ms, cell)

    def _restrict(self, team: str, spending: Spending, percent: int) -> None:
        found: Restriction | None = restriction(team, self._budget_of(team), spending, percent)
        self._core.restrict(team, found)

    def _budget_of(self, team: str) -> Budget | None:
        _, budget = self._budgets.get(team, (0, None))
        return budget

    def writes(self) -> Sequence[Write]:
        """Rows of what is new since the last call."""
        writes = []
        if self._fresh_teams:
            teams, self._fresh_teams = list(self._fresh_teams), {}
            documents = [self._budgets[one] for one in teams]
            bodies = [msgspec.json.encode(budget).decode() for _, budget in documents]
            columns = (teams, [version for version, _ in documents], bodies)
            writes.append(Write(_UPSERT_TEAMS, columns, len(teams)))
        if self._fresh_spending:
            writes.append(self._spending_rows())
        writes += self._price_rows()
        return writes

    def _price_rows(self) -> list[Write]:
        """The first price of each version, and those of later times."""
        fresh, self._fresh_prices = self._fresh_prices, []
        firsts = [(flavor, prices[0]) for flavor, prices in fresh]
        dated = [(flavor, one) for flavor, prices in fresh for one in prices[1:]]
        return [
            _insert_prices(table, rows)
            for table, rows in (("flavor_price", firsts), ("dated_price", dated))
            if rows
        ]

    def _spending_rows(self) -> Write:
        teams, self._fresh_spending = list(self._fresh_spending), {}
        spent = [self._spending[one] for one in teams]
        columns = (
            teams,
            [one.month for one in spent],
            [str(one.gpu.base) for one in spent],
            [str(one.money.base) for one in spent],
            [one.warned for one in spent],
        )
        return Write(_UPSERT_SPENDING, columns, len(teams))


def _insert_prices(table: str, rows: Sequence[tuple[str, Price]]) -> Write:
    columns = (
        [flavor for flavor, _ in rows],
        [price.version for _, price in rows],
        [price.applied_at_ms for _, price in rows],
        [price.microdollars_per_gpu_hour for _, price in rows],
    )
    return Write(_INSERT_PRICES.format(table=table), columns, len(rows))
