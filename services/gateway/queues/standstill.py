"""Whether nothing of a queue is started at all: it is held or drained, or its budget is spent.

Quota tells so the first of a queue only, and once; here it is worked out of the documents of now,
in quota's words (core.quota.reasons, core.quota.budget).
"""

from __future__ import annotations

from typing import Final

from services.gateway.app.context import GatewayContext
from services.gateway.queues.queue_standing import budgets
from services.gateway.queues.queue_views import BudgetSpent
from shared.core.model.decision import Refusal
from shared.core.model.team_policy import AtLimit, Budget
from shared.core.quota import reasons
from shared.core.quota.budget import WARN_PERCENT, Spending, month_named, restriction
from shared.core.quota.tree import QuotaNode

_MILLI: Final = 1_000


async def nearly_spent(gateway: GatewayContext, queue: QuotaNode) -> BudgetSpent | None:
    """The budget of the team of `queue`, once the team was warned of it."""
    team = queue.document.team if queue.document is not None else ""
    found = (await budgets(gateway)).get(team)
    return found if found is not None and found.percent >= WARN_PERCENT else None


def standstill(queue: QuotaNode, budget: BudgetSpent | None) -> Refusal | None:
    """Why nothing of `queue` is started, whatever is free; None where something may be."""
    document = queue.document
    if document is None:
        return None
    if document.held or document.draining:
        return reasons.queue_held(queue.name, draining=document.draining)
    return _spent(document.team, budget) if budget is not None else None


def _spent(team: str, told: BudgetSpent) -> Refusal | None:
    """That the budget is spent, where then nothing is started."""
    hours = told.limit_gpu_milli_hours
    budget = Budget(
        gpu_hours_per_month=None if hours is None else hours // _MILLI,
        microdollars_per_month=told.limit_microdollars,
        at_limit=AtLimit(told.at_limit),
    )
    found = restriction(team, budget, Spending(month_named(told.month)), told.percent)
    return found.refusal if found is not None and found.at_limit is AtLimit.STOP else None
