"""Where queues and cohorts stand: use, borrowing, lending, shares, debts and budgets.

The numbers are those of core.quota.tree and core.quota.fair_share over the read model's tree, so a
reader is told the share and the debt by which together the order of queues is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from services.gateway.app.context import GatewayContext
from services.gateway.queues.queue_views import BudgetSpent, FlavorUse
from services.gateway.queues.quota_tree import quota_tree
from shared.core.model.amounts import Amount
from shared.core.model.units import Resources
from shared.core.quota.fair_share import borrowed_share
from shared.core.quota.totals import Totals
from shared.core.quota.tree import NOTHING, QuotaNode
from shared.core.quota.usage_history import decayed
from shared.events.organisation import CohortApplied, QueueApplied
from shared.events.quotas import BudgetTold, FlavorQuota

_told: Final = msgspec.json.Decoder(BudgetTold)


@dataclass(slots=True, kw_only=True)
class QueueStanding:
    """What is known of all queues at one moment."""

    totals: Totals
    now_ms: int
    versions: dict[str, int]
    """Version of the document in force, by queue."""
    told: dict[str, tuple[int, int, int]]
    """(GPU-seconds, when, half-life in ms) of use over time, by queue."""
    debts: dict[str, tuple[int, int]]
    """(millionths of a share, when it was told), by node."""
    budgets: dict[str, BudgetSpent]
    """By team that has one."""
    _lent: dict[tuple[str, str], dict[str, Amount]] = field(default_factory=dict)

    def share(self, name: str) -> int:
        """The weighted dominant share above its own, in millionths."""
        return borrowed_share(self.totals.tree.node(name))

    def debt(self, name: str) -> tuple[int, int | None]:
        """What counts as share beside it, in millionths, and when that was told; None: never."""
        return self.debts.get(name, (0, None))

    def usage(self, queue: str) -> tuple[int, int]:
        """GPU-seconds used over time as they count now, and their half-life in ms."""
        gpu_seconds, at_ms, half_life_ms = self.told.get(queue, (0, 0, 0))
        if not half_life_ms:
            return 0, 0
        return decayed(gpu_seconds, max(0, self.now_ms - at_ms), half_life_ms), half_life_ms

    def flavors(self, applied: QueueApplied | CohortApplied) -> tuple[FlavorUse, ...]:
        """Quota with use; also flavors that members own, or that have only use."""
        node = self.totals.tree.node(applied.name)
        named = [one.flavor for one in applied.flavors]
        members = {flavor for one in node.children.values() for flavor in one.limits}
        used = {flavor for flavor, amount in node.used.items() if any(amount)}
        left = sorted((members | used) - {*named})
        gone = [
            FlavorQuota(
                flavor=one,
                nominal=Resources(),
                borrowing_limit=Resources(),
                lending_limit=Resources(),
            )
            for one in left
        ]
        return tuple(self._flavor(node, one) for one in (*applied.flavors, *gone))

    def _flavor(self, node: QuotaNode, quota: FlavorQuota) -> FlavorUse:
        total = self.totals.of(node, quota.flavor)
        return FlavorUse(
            flavor=quota.flavor,
            nominal=quota.nominal,
            borrowing_limit=quota.borrowing_limit,
            lending_limit=quota.lending_limit,
            used=resources(node.charged(quota.flavor)),
            borrowed=resources(node.borrowed(quota.flavor)),
            lent=resources(self._lends(node, quota.flavor)),
            available=resources(node.available(quota.flavor)),
            total_nominal=resources(total.nominal),
            total_used=resources(total.used),
        )

    def _lends(self, node: QuotaNode, flavor: str) -> Amount:
        """Worked out once for all members of a cohort."""
        if node.parent is None:
            return NOTHING
        place = (node.parent.name, flavor)
        if place not in self._lent:
            self._lent[place] = node.parent.lent_by_members(flavor)
        return self._lent[place][node.name]


async def standing_of(gateway: GatewayContext) -> QueueStanding:
    """All that is known now."""
    limits = await gateway.reader.fetch("SELECT name, version FROM gateway.quota_limit")
    usage = await gateway.reader.fetch(
        "SELECT queue, gpu_seconds, at_ms, half_life_ms FROM gateway.queue_usage"
    )
    debts = await gateway.reader.fetch(
        "SELECT node, debt_millionths, at_ms FROM gateway.node_debt"
    )
    return QueueStanding(
        totals=Totals(await quota_tree(gateway)),
        now_ms=gateway.clock.now_ms(),
        versions={row["name"]: row["version"] for row in limits},
        told={
            row["queue"]: (row["gpu_seconds"], row["at_ms"], row["half_life_ms"]) for row in usage
        },
        debts={row["node"]: (row["debt_millionths"], row["at_ms"]) for row in debts},
        budgets=await budgets(gateway),
    )


async def budgets(gateway: GatewayContext) -> dict[str, BudgetSpent]:
    """What was told last of the budget of each team that has one."""
    rows = await gateway.reader.fetch("SELECT body FROM gateway.budget")
    return {
        one.team: BudgetSpent(
            month=one.month,
            percent=one.percent,
            at_limit=str(one.at_limit),
            spent_gpu_milli_hours=one.spent_gpu_milli_hours,
            limit_gpu_milli_hours=one.limit_gpu_milli_hours,
            spent_microdollars=one.spent_microdollars,
            limit_microdollars=one.limit_microdollars,
            told_at_ms=one.at_ms,
            forecast_gpu_milli_hours=one.forecast_gpu_milli_hours,
            forecast_microdollars=one.forecast_microdollars,
            whole_spent_at_ms=one.whole_spent_at_ms,
        )
        for one in (_told.decode(row["body"]) for row in rows)
        if one.limit_gpu_milli_hours is not None or one.limit_microdollars is not None
    }


def resources(one: Amount) -> Resources:
    """An amount of the core as people read it."""
    return Resources(gpu_milli=one[0], cpu_milli=one[1], memory_mib=one[2])
