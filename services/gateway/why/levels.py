"""What each level of the quota tree says to one that waits: a queue, and the cohorts above it."""

from __future__ import annotations

from services.gateway.queues.queue_standing import resources
from services.gateway.queues.queue_views import BudgetSpent
from services.gateway.why.why_views import LimitLevel
from shared.core.model.amounts import FIELDS, Amount, short_units
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.team_policy import AtLimit
from shared.core.model.units import UNLIMITED
from shared.core.quota.budget import in_force
from shared.core.quota.fair_share import may_borrow
from shared.core.quota.totals import Totals
from shared.core.quota.tree import QuotaNode


def level_of(
    totals: Totals,
    node: QuotaNode,
    flavor: str,
    blocked: tuple[QuotaNode, Amount] | None,
    *,
    owned_only: bool,
) -> LimitLevel:
    """One level; `blocked` is where quota is short, and what it would have to count there."""
    total = totals.of(node, flavor)
    blocks = blocked is not None and node is blocked[0]
    limit, taken = node.limits_in(flavor).ceiling, node.taken(flavor)
    short = short_units(blocked[1], taken, limit) if blocked and blocks else ()
    return LimitLevel(
        name=node.name,
        kind="queue" if node.is_queue else "cohort",
        flavor=flavor,
        nominal=resources(node.nominal(flavor)),
        used=resources(node.charged(flavor)),
        available=resources(_available(node, flavor, owned_only=owned_only)),
        borrowed=resources(node.borrowed(flavor)),
        lent=resources(node.lent(flavor)),
        total_nominal=resources(total.nominal),
        total_used=resources(total.used),
        blocks=blocks,
        lacks=tuple(FIELDS[index] for index in short),
    )


def owned_only(budget: BudgetSpent | None, queue: QuotaNode, spec: WorkloadSpec | None) -> bool:
    """Whether the queue may not borrow for it: a spent budget, or it is not preemptible."""
    if spec is not None and not may_borrow(queue, evictable=spec.preemptible):
        return True
    if budget is None:
        return False
    return in_force(AtLimit(budget.at_limit), budget.percent) is AtLimit.NOMINAL


def _available(node: QuotaNode, flavor: str, *, owned_only: bool) -> Amount:
    """What may be taken there; of a queue that may not borrow no more than it owns."""
    found = node.available(flavor)
    if not owned_only or not node.is_queue:
        return found
    gpu, cpu, memory = (
        left if owned >= UNLIMITED else min(left, spare)
        for left, owned, spare in zip(found, node.owned(flavor), node.spare(flavor), strict=True)
    )
    return gpu, cpu, memory
