"""What is told of budgets: thresholds that are reached, and how much is spent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from shared.core.model.team_policy import AtLimit, Budget
from shared.core.quota.budget import Spending, gpu_limit, money_limit, month_name
from shared.core.quota.cost import GPU_HOUR_MILLI_MS, rounded
from shared.events.quotas import BudgetTold, BudgetWarned

NO_BUDGET = Budget()


class _Figures(TypedDict):
    team: str
    month: str
    spent_gpu_milli_hours: int
    limit_gpu_milli_hours: int | None
    spent_microdollars: int
    limit_microdollars: int | None


def warned(  # noqa: PLR0917  # the fact's fields
    team: str, spending: Spending, budget: Budget, threshold: int, now_ms: int, cell: int
) -> BudgetWarned:
    """The team has spent `threshold` percent."""
    return BudgetWarned(
        threshold_percent=threshold,
        at_limit=budget.at_limit,
        cell=cell,
        **_figures(team, spending, budget, now_ms),
    )


def told(  # noqa: PLR0917  # the fact's fields
    team: str,
    spending: Spending,
    budget: Budget | None,
    spot_flavors: Iterable[str],
    now_ms: int,
    cell: int,
) -> BudgetTold:
    """What the team has spent; without a budget no limit is named."""
    budget = NO_BUDGET if budget is None else budget
    return BudgetTold(
        percent=spending.percent(budget, now_ms),
        at_limit=budget.at_limit,
        spot_flavors=tuple(spot_flavors) if budget.at_limit is AtLimit.SPOT else (),
        at_ms=now_ms,
        cell=cell,
        forecast_gpu_milli_hours=_milli_hours(spending.gpu.at(spending.month_end_ms)),
        forecast_microdollars=rounded(spending.money.at(spending.month_end_ms)),
        whole_spent_at_ms=spending.whole_spent_ms(budget, now_ms),
        **_figures(team, spending, budget, now_ms),
    )


def _milli_hours(gpu_milli_ms: int) -> int:
    return gpu_milli_ms * 1000 // GPU_HOUR_MILLI_MS


def _figures(team: str, spending: Spending, budget: Budget, now_ms: int) -> _Figures:
    gpu, money = gpu_limit(budget), money_limit(budget)
    return {
        "team": team,
        "month": month_name(spending.month),
        "spent_gpu_milli_hours": _milli_hours(spending.gpu.at(now_ms)),
        "limit_gpu_milli_hours": None if gpu is None else _milli_hours(gpu),
        "spent_microdollars": rounded(spending.money.at(now_ms)),
        "limit_microdollars": None if money is None else money // GPU_HOUR_MILLI_MS,
    }
