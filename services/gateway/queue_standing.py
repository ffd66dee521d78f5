"""Where queues and cohorts stand: use, borrowing, lending, shares, debts and budgets.

The numbers are those of core.quota.tree and core.quota.fair_share over the read model's tree, so a
reader is told the share and the debt by which together the order of queues is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from services.gateway.door import Door
from services.gateway.queue_views import BudgetSpent, FlavorUse
from services.gateway.quota_tree import quota_tree
from shared.core.amounts import Amount
from shared.core.quota.fair_share import borrowed_share
from shared.core.quota.tree import NOTHING, QuotaNode, QuotaTree
from shared.core.quota.usage_history import decayed
from shared.core.units import Resources
from shared.events.organisation import CohortApplied, QueueApplied
from shared.events.quotas import BudgetWarned, FlavorQuota

_warnings: Final = msgspec.json.Decoder(BudgetWarned)


@dataclass(slots=True, kw_only=True)
class Standing:
    """What is known of all queues at one moment."""

    tree: QuotaTree
    now_ms: int
    versions: dict[str, int]
    """Version of the document in force, by queue."""
    told: dict[str, tuple[int, int, int]]
    """(GPU-seconds, when, half-life in ms) of use over time, by queue."""
    debts: dict[str, tuple[int, int]]
    """(millionths of a share, when it was told), by node."""
    budgets: dict[str, BudgetSpent]
    """By team."""
    _lent: dict[tuple[str, str], dict[str, Amount]] = field(default_factory=dict)

    def share(self, name: str) -> int:
        """The weighted dominant share above its own, in millionths."""
        return borrowed_share(self.tree.node(name))

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
        """Quota with use; also use in a flavor that it has no quota of its own for."""
        node = self.tree.node(applied.name)
        named = [one.flavor for one in applied.flavors]
        left = [one for one, used in sorted(node.used.items()) if one not in named and any(used)]
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
        used = node.used.get(quota.flavor, NOTHING)
        return FlavorUse(
            flavor=quota.flavor,
            nominal=quota.nominal,
            borrowing_limit=quota.borrowing_limit,
            lending_limit=quota.lending_limit,
            used=resources((used[0], used[1], used[2])),
            borrowed=resources(node.borrowed(quota.flavor)),
            lent=resources(self._lends(node, quota.flavor)),
            available=resources(node.available(quota.flavor)),
        )

    def _lends(self, node: QuotaNode, flavor: str) -> Amount:
        """Worked out once for all members of a cohort."""
        if node.parent is None:
            return NOTHING
        place = (node.parent.name, flavor)
        if place not in self._lent:
            self._lent[place] = node.parent.lent_by_members(flavor)
        return self._lent[place][node.name]


async def standing_of(door: Door) -> Standing:
    """All that is known now."""
    limits = await door.reader.fetch("SELECT name, version FROM gateway.quota_limit")
    usage = await door.reader.fetch(
        "SELECT queue, gpu_seconds, at_ms, half_life_ms FROM gateway.queue_usage"
    )
    debts = await door.reader.fetch("SELECT node, debt_millionths, at_ms FROM gateway.node_debt")
    warnings = await door.reader.fetch("SELECT team, body FROM gateway.budget_warning")
    return Standing(
        tree=await quota_tree(door),
        now_ms=door.clock.now_ms(),
        versions={row["name"]: row["version"] for row in limits},
        told={
            row["queue"]: (row["gpu_seconds"], row["at_ms"], row["half_life_ms"]) for row in usage
        },
        debts={row["node"]: (row["debt_millionths"], row["at_ms"]) for row in debts},
        budgets={row["team"]: _budget(_warnings.decode(row["body"])) for row in warnings},
    )


def _budget(warned: BudgetWarned) -> BudgetSpent:
    return BudgetSpent(
        month=warned.month,
        threshold_percent=warned.threshold_percent,
        at_limit=str(warned.at_limit),
        spent_gpu_milli_hours=warned.spent_gpu_milli_hours,
        limit_gpu_milli_hours=warned.limit_gpu_milli_hours,
        spent_microdollars=warned.spent_microdollars,
        limit_microdollars=warned.limit_microdollars,
    )


def resources(one: Amount) -> Resources:
    """An amount of the core as people read it."""
    return Resources(gpu_milli=one[0], cpu_milli=one[1], memory_mib=one[2])
