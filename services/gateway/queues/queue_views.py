"""Queues and cohorts as they are read: the document, what is in force, use and budget."""

from __future__ import annotations

from services.gateway.http.views import View
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.core.quota.queue_policy import QueuePolicy


class FlavorUse(View, frozen=True, kw_only=True):
    """Quota and use of a queue or cohort in one flavor; null is unlimited."""

    flavor: str
    nominal: Resources
    """What it owns."""
    borrowing_limit: Resources | None
    """What it may borrow above that at most; null: no limit."""
    lending_limit: Resources | None
    """What it lends of its own at most; null: no limit."""
    used: Resources
    """By a cohort's members: above what each of them owns and never lends."""
    borrowed: Resources
    """Of what is used, the part above its own quota."""
    lent: Resources
    """Of what it owns and does not use, the part that others of its cohort use."""
    available: Resources
    """What it may still take now, of its own and of the cohort's."""
    total_nominal: Resources
    """With all that is below it; of a queue its nominal quota."""
    total_used: Resources
    """With all that is below it, also what members use of what they never lend."""


class BudgetSpent(View, frozen=True, kw_only=True):
    """What the team has spent of its budget of the month; told once a minute."""

    month: str
    """Calendar month (UTC), such as 2026-11."""
    percent: int
    """Of two limits the fuller; above 100 where work went on."""
    at_limit: str
    """What new work may still use once the budget is spent."""
    spent_gpu_milli_hours: int
    limit_gpu_milli_hours: int | None
    spent_microdollars: int
    limit_microdollars: int | None
    told_at_ms: int
    """When it was told, Unix milliseconds."""
    forecast_gpu_milli_hours: int | None = None
    """Spent by the end of the month if no more and no less is held; null: not told."""
    forecast_microdollars: int | None = None
    """The same in money, in millionths of a dollar."""
    whole_spent_at_ms: int | None = None
    """When all is spent if no more and no less is held, Unix milliseconds; null: not in this
    month."""


class QueueView(View, frozen=True, kw_only=True):
    """A queue: the applied document, what is in force, and what is in it now."""

    name: str
    """Name of the queue."""
    version: int
    team: str
    cohort: str
    strict: bool
    held: bool
    draining: bool
    weight: int
    policy: QueuePolicy
    """What it may take from others, and others from it."""
    flavors: tuple[FlavorUse, ...]
    """Quota and use in each flavor, in order of preference."""
    waiting: int
    """Number of workloads that are queued."""
    waiting_gpu_milli: int
    """What they ask for together, in thousandths of a GPU."""
    workloads: dict[str, int]
    """Live workloads by state."""
    waiting_reasons: dict[Reason, int]
    """Number of queued workloads by the code of their reason; empty in a list."""
    limits_in_force: int
    """Version of the document by which quota decides now; 0 until it has taken one up."""
    share_millionths: int
    """Weighted dominant share of what its cohort owns, above its own; with `debt_millionths` it
    decides between those that borrow: the one with less goes first."""
    debt_millionths: int
    """What it had lately beyond its part, as a share that pays it back in two hours; below 0 that
    is due to it. Half of it is forgotten in a day."""
    debt_told_at_ms: int | None
    """As of when; null: nothing was told yet."""
    usage_gpu_seconds: int
    """Use over time, older use counting less; decides between equal shares."""
    usage_half_life_ms: int
    """0: nothing was told yet."""
    budget: BudgetSpent | None
    """What its team has spent of the month's budget; null: it has none."""


class QueuePage(View, frozen=True, kw_only=True):
    """All queues that the caller may see."""

    items: tuple[QueueView, ...]
    next_cursor: str


class CohortStanding(View, frozen=True, kw_only=True):
    """A cohort: the applied document, and what its members use of it now."""

    name: str
    """Name of the cohort."""
    version: int
    parent: str
    weight: int
    flavors: tuple[FlavorUse, ...]
    """Quota and use in each flavor."""
    share_millionths: int
    """As of a queue, among the members of its parent; 0 without one."""
    debt_millionths: int
    """As of a queue; a department owes for all that is below it."""
    debt_told_at_ms: int | None
    """When the debt was told, Unix milliseconds; null: never."""


class CohortPage(View, frozen=True, kw_only=True):
    """All cohorts."""

    items: tuple[CohortStanding, ...]
    next_cursor: str
