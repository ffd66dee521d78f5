"""Metrics of quota."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

from shared.core.model.team_policy import Budget
from shared.core.quota.budget import Spending, gpu_limit, money_limit

DECISIONS: Final = Counter("muster_quota_decisions_total", "Decisions by kind", ["kind"])
OPEN: Final = Gauge("muster_quota_open_nominations", "Nominations that are open")
ALIVE: Final = Gauge("muster_quota_workloads", "Workloads that wait, are tried or run")
REFUSED_DOCUMENTS: Final = Counter(
    "muster_quota_refused_documents_total", "Documents of the organisation that made no sense"
)
BUDGET_TEAMS_MAX: Final = 200
"""Of so many teams the budget is a metric; `muster quota` tells that of all."""
BUDGET_RATIO: Final = Gauge(
    "muster_team_budget_ratio",
    "Part of its budget of the month (UTC) that a team has spent, as of a minute ago at most;"
    " unit: gpu_hours or dollars.",
    ["team", "unit"],
)
BUDGET_FORECAST: Final = Gauge(
    "muster_team_budget_forecast_ratio",
    "The same at the end of the month, if the team holds no more and no less.",
    ["team", "unit"],
)
_shown: Final[dict[str, None]] = {}
"""Teams with a label."""


def show_budget(team: str, spending: Spending, budget: Budget | None, at_ms: int) -> None:
    """What a team has spent of each limit; nothing of a limit that is no more."""
    if team not in _shown and len(_shown) >= BUDGET_TEAMS_MAX:
        return
    _shown[team] = None
    if budget is None:
        del _shown[team]
        budget = Budget()
    for unit, integral, limit in (
        ("gpu_hours", spending.gpu, gpu_limit(budget)),
        ("dollars", spending.money, money_limit(budget)),
    ):
        for gauge, time_ms in ((BUDGET_RATIO, at_ms), (BUDGET_FORECAST, spending.month_end_ms)):
            if limit is None:
                gauge.remove(team, unit)
            else:
                gauge.labels(team, unit).set(_part(integral.at(time_ms), limit))


def _part(spent: int, limit: int) -> float:
    """A limit of nothing is spent."""
    return max(spent, 0) / limit if limit else 1.0
