"""What a site sets for a team beside its quota: a budget, and what becomes of idle work.

The budget is mission Q6, idle work R6. Values only; `core.quota.budget` says what a budget
permits.
"""

from __future__ import annotations

from enum import StrEnum

from shared.core.model.decision import FieldError
from shared.core.model.value import Value


class AtLimit(StrEnum):
    """What new work of a team may still use once its budget of the month is spent."""

    WARN = "warn"
    """Anything: the limit is only told."""
    SPOT = "spot"
    """Spot flavors only."""
    NOMINAL = "nominal"
    """What the queue owns, and nothing borrowed."""
    STOP = "stop"
    """Nothing."""


class Budget(Value, frozen=True, kw_only=True):
    """What a team may spend in a calendar month (UTC); a limit of None is no limit."""

    gpu_hours_per_month: int | None = None
    """Hours of whole GPUs; a share of a GPU counts as its share."""
    microdollars_per_month: int | None = None
    """By the price of the flavor that was used."""
    at_limit: AtLimit = AtLimit.WARN
    """What new work may still use once the budget is spent."""


class IdlePolicy(Value, frozen=True, kw_only=True):
    """When work that does not use its GPUs is warned of, and when it loses them."""

    utilisation_percent_below: int = 5
    """Idle is a GPU below this, 1 to 100."""
    warn_after_seconds: int = 1800
    """After how many seconds without use the owner is warned."""
    release_after_seconds: int = 0
    """0 is never."""


def budget_problems(budget: Budget) -> list[FieldError]:
    """Every broken rule of a budget, by its field below `budget`."""
    problems = []
    for name in ("gpu_hours_per_month", "microdollars_per_month"):
        limit = getattr(budget, name)
        if limit is not None and limit < 0:
            problems.append(_problem(f"budget.{name}", limit, "must be at least 0"))
    if budget.gpu_hours_per_month is None and budget.microdollars_per_month is None:
        rule = "must name gpu_hours_per_month or microdollars_per_month"
        problems.append(FieldError(field="budget", value="no limit", rule=rule))
    return problems


def idle_problems(policy: IdlePolicy) -> list[FieldError]:
    """Every broken rule of an idle policy, by its field below `idle`."""
    problems = []
    percent, warn = policy.utilisation_percent_below, policy.warn_after_seconds
    release = policy.release_after_seconds
    if not 1 <= percent <= 100:  # noqa: PLR2004  # per cent
        field = "idle.utilisation_percent_below"
        problems.append(_problem(field, percent, "must be 1 to 100"))
    if warn < 0:
        problems.append(_problem("idle.warn_after_seconds", warn, "must be at least 0"))
    if release and release < max(warn, 0):
        rule = f"must be 0 (never), or at least warn_after_seconds ({warn})"
        problems.append(_problem("idle.release_after_seconds", release, rule))
    return problems


def _problem(field: str, value: int, rule: str) -> FieldError:
    return FieldError(field=field, value=str(value), rule=rule)
