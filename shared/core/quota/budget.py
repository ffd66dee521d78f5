"""What a team has spent in a month, when it reaches its budget, and what it may still use then.

Spending is the integral of what is held: milli-GPU, and milli-GPU times the price of the flavor,
over the milliseconds of a calendar month (UTC). A rate r that begins at t adds r (T - t) until T,
so two sums say everything: of the rates, and of rate x time. Facts cost O(1), the moment at which
a limit is reached is known ahead, and nothing is sampled or rounded (mission Q6).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final, NamedTuple

from shared.core.model.decision import Reason, Refusal
from shared.core.model.team_policy import AtLimit, Budget
from shared.core.quota.cost import GPU_HOUR_MILLI_MS

DAY_MS: Final = 86_400_000
WARN_PERCENT: Final = 80
FULL_PERCENT: Final = 100
THRESHOLDS: Final = (WARN_PERCENT, FULL_PERCENT)
_EPOCH: Final = date(1970, 1, 1).toordinal()


def month_of(at_ms: int) -> int:
    """Calendar month (UTC), counted from January of year 0."""
    day = date.fromordinal(_EPOCH + at_ms // DAY_MS)
    return day.year * 12 + day.month - 1


def month_start_ms(month: int) -> int:
    """When the month begins, in Unix milliseconds."""
    return (date(month // 12, month % 12 + 1, 1).toordinal() - _EPOCH) * DAY_MS


def month_name(month: int) -> str:
    """As people write it: 2026-11."""
    return f"{month // 12:04}-{month % 12 + 1:02}"


def month_named(name: str) -> int:
    """Inverse of `month_name`."""
    year, _, month = name.partition("-")
    return int(year) * 12 + int(month) - 1


@dataclass(slots=True, kw_only=True)
class Integral:
    """An amount that grows by `rate` each millisecond: `rate x now - base`."""

    rate: int = 0
    base: int = 0

    def change(self, at_ms: int, rate: int) -> None:
        """From `at_ms` on it grows by `rate` more (or less)."""
        self.rate += rate
        self.base += rate * at_ms

    def at(self, at_ms: int) -> int:
        """The amount at `at_ms`, which is not before the last change."""
        return self.rate * at_ms - self.base

    def restart(self, at_ms: int) -> None:
        """Count from nothing again, with what runs."""
        self.base = self.rate * at_ms

    def reaches(self, amount: int) -> int | None:
        """The first millisecond at which it is `amount` or more; None while it does not grow."""
        return None if self.rate <= 0 else -(-(amount + self.base) // self.rate)


class Spending:
    """One team in one month; `warned` is the highest threshold that was told in it."""

    __slots__ = ("gpu", "money", "month", "warned")

    def __init__(self, month: int) -> None:
        self.month = month
        self.gpu = Integral()
        """Milli-GPU milliseconds."""
        self.money = Integral()
        """Milli-GPU milliseconds times micro-dollars for an hour."""
        self.warned = 0

    def change(self, at_ms: int, gpu_milli: int, price: int) -> None:
        """From `at_ms` on the team holds more (or less) at that price.

        What began before this month counts from its start.
        """
        at_ms = max(at_ms, month_start_ms(self.month))
        self.gpu.change(at_ms, gpu_milli)
        self.money.change(at_ms, gpu_milli * price)

    def reprice(self, at_ms: int, gpu_milli: int, more: int) -> None:
        """What the team holds of a flavor costs `more` (or less) from `at_ms` on."""
        self.money.change(max(at_ms, month_start_ms(self.month)), gpu_milli * more)

    def turn(self, month: int) -> None:
        """A later month begins: nothing is spent of it."""
        self.month, self.warned = month, 0
        start_ms = month_start_ms(month)
        self.gpu.restart(start_ms)
        self.money.restart(start_ms)

    def percent(self, budget: Budget, at_ms: int) -> int:
        """How much of the budget is spent, rounded down; of two limits the fuller. >= 0."""
        parts = (
            _percent(self.gpu.at(at_ms), gpu_limit(budget)),
            _percent(self.money.at(at_ms), money_limit(budget)),
        )
        return max(parts)

    def next_ms(self, budget: Budget, at_ms: int) -> int:
        """When the next threshold is reached at the present rates, or the month ends."""
        times = [self.month_end_ms]
        reached = self.percent(budget, at_ms)
        for threshold in THRESHOLDS:
            if reached < threshold:
                times += self._reach_times(budget, threshold)
        return min(times)

    def whole_spent_ms(self, budget: Budget, at_ms: int) -> int | None:
        """When all of the budget is spent at the present rates; `at_ms` if it is so by then.

        None: not in this month.
        """
        if self.percent(budget, at_ms) >= FULL_PERCENT:
            return at_ms
        first = min(self._reach_times(budget, FULL_PERCENT), default=self.month_end_ms)
        return first if first < self.month_end_ms else None

    @property
    def month_end_ms(self) -> int:
        """When the next month begins."""
        return month_start_ms(self.month + 1)

    def _reach_times(self, budget: Budget, threshold: int) -> list[int]:
        """When each limit is reached that is reached at the present rates."""
        limits = ((self.gpu, gpu_limit(budget)), (self.money, money_limit(budget)))
        times = [
            integral.reaches(-(-limit * threshold // 100))
            for integral, limit in limits
            if limit is not None
        ]
        return [one for one in times if one is not None]


def gpu_limit(budget: Budget) -> int | None:
    """The limit in milli-GPU milliseconds."""
    hours = budget.gpu_hours_per_month
    return None if hours is None else hours * GPU_HOUR_MILLI_MS


def money_limit(budget: Budget) -> int | None:
    """The limit in milli-GPU milliseconds times micro-dollars for an hour."""
    money = budget.microdollars_per_month
    return None if money is None else money * GPU_HOUR_MILLI_MS


def _percent(spent: int, limit: int | None) -> int:
    if limit is None:
        return 0
    return 100 * max(spent, 0) // limit if limit else FULL_PERCENT


class Restriction(NamedTuple):
    """What holds for new work of a team, and why."""

    at_limit: AtLimit
    refusal: Refusal


def in_force(at_limit: AtLimit, percent: int) -> AtLimit:
    """What holds for new work at `percent` of a budget: anything goes until all is spent."""
    return at_limit if percent >= FULL_PERCENT else AtLimit.WARN


def restriction(
    team: str, budget: Budget | None, spending: Spending, percent: int
) -> Restriction | None:
    """What holds for new work at `percent` of the budget; None while it may use anything."""
    if budget is None or in_force(budget.at_limit, percent) is AtLimit.WARN:
        return None
    hours, money = budget.gpu_hours_per_month, budget.microdollars_per_month
    limits = [f"{hours} GPU-hours"] if hours is not None else []
    limits += [f"${money / 1_000_000:.2f}"] if money is not None else []
    month, next_month = month_name(spending.month), month_name(spending.month + 1)
    return Restriction(
        budget.at_limit,
        Refusal(
            reason=Reason.BUDGET_SPENT,
            message=(
                f"budget of team {team} for {month} is spent ({' or '.join(limits)}): "
                f"until {next_month}-01 00:00 UTC {_PERMITTED[budget.at_limit]}"
            ),
            next_step=f"wait for {next_month}, or ask for a larger budget",
            evidence={"month_ends_at_ms": month_start_ms(spending.month + 1)},
        ),
    )


_PERMITTED: Final = {
    AtLimit.SPOT: "only spot flavors may be used",
    AtLimit.NOMINAL: "nothing may be borrowed",
    AtLimit.STOP: "nothing is started",
}
