"""A week of teams, as it is read."""

from __future__ import annotations

from services.gateway.http.views import View
from services.gateway.usage.rightsize_views import RightsizeItem
from services.gateway.usage.usage_views import UsageSum


class FailureCount(View, frozen=True, kw_only=True):
    """Work that failed for one reason."""

    reason: str
    count: int
    """Workloads that were submitted in the week and failed."""


class TeamWeek(UsageSum, frozen=True, kw_only=True):
    """What a team held in a week, and how its work fared."""

    team: str
    cost_before_microdollars: int
    """Of the week before, in millionths of a dollar."""
    submitted: int
    """Workloads of the week; the next four are of these."""
    started: int
    """Those that have run."""
    failed: int
    """Those that ended in state failed."""
    wait_p50_ms: int | None
    """From submission to the first start, of half of what was never evicted; null: nothing was."""
    wait_p95_ms: int | None
    """The same, of 95 % of it."""
    preempted: int
    """Evictions in the week for other work."""
    idle_released: int
    """Evictions in the week of work that did not use its GPUs."""
    savings: tuple[RightsizeItem, ...]
    """At most three that would have done with less, the largest saving first."""


class WeekReport(View, frozen=True, kw_only=True):
    """A week, Monday to Sunday (UTC): the team that held most comes first."""

    since: str
    """Its Monday, such as 2026-11-16."""
    until: str
    """The Monday after it."""
    teams: tuple[TeamWeek, ...]
    """Those that held or submitted something, or lost work."""
    total: UsageSum
    """Of all these teams."""
    failures: tuple[FailureCount, ...]
    """Of all these teams, the most frequent first."""
