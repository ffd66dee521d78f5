"""Facts of quota: which workloads may be tried now, and what the quota tree says."""

from __future__ import annotations

import msgspec

from shared.core.model.amounts import amount
from shared.core.model.decision import Reason
from shared.core.model.nouns import Workload
from shared.core.model.team_policy import AtLimit
from shared.core.model.units import UNBOUNDED, Resources
from shared.core.quota.document import FlavorLimits, QuotaDocument
from shared.core.quota.queue_policy import QueuePolicy
from shared.events.workloads import Wire


class PermittedFlavor(Wire, frozen=True, kw_only=True):
    """A flavor in which the workload may be tried, and how much it may borrow there."""

    flavor: str
    borrowable: Resources = Resources()
    """What it may borrow there at most."""
    needs_eviction: bool = False
    """It fits only once others have made room, which the policy of its queue allows."""


class WorkloadNominated(Wire, frozen=True, kw_only=True):
    """Permission to try, with an order key: smaller is earlier (ADR 22)."""

    workload: Workload
    """The workload that may be tried."""
    version: int
    """Version of the workload that it was told for."""
    nomination: int
    """Counts up for each workload; a withdrawal names it."""
    order_key: tuple[int, ...]
    """Place in the order of all: the smaller goes first, compared part by part."""
    flavors: tuple[PermittedFlavor, ...]
    """Flavors in which it may be tried, in order of preference."""
    within_nominal: bool = False
    """It may not borrow: its team has spent its budget."""
    strict: bool = False
    """In a strict FIFO queue nothing behind a refused workload is tried."""
    next_of_own: bool = False
    """It waits in quota's line as before, and is one of the next for what its queue owns: it may
    be placed within that, and is not answered otherwise."""


class NominationWithdrawn(Wire, frozen=True, kw_only=True):
    """The permission is taken back; loses against a placement already committed."""

    workload_id: str
    nomination: int


class EndedWorkloadsCounted(Wire, frozen=True, kw_only=True):
    """How many workloads of a team have ended, ever; only grows."""

    team: str
    ended: int
    """Workloads that have ended so far."""
    cell: int = 0


class BudgetWarned(Wire, frozen=True, kw_only=True):
    """A team has spent so much of its budget of a month (UTC); told once a threshold and budget.

    A limit of None is no limit. At 100 % `at_limit` holds for new work; what runs goes on. Another
    budget in the same month is warned of anew.
    """

    team: str
    month: str
    """2026-11."""
    threshold_percent: int
    """Threshold that was reached, in per cent."""
    at_limit: AtLimit
    """What new work may still use once the budget is spent."""
    spent_gpu_milli_hours: int
    limit_gpu_milli_hours: int | None
    spent_microdollars: int
    limit_microdollars: int | None
    cell: int = 0


class BudgetTold(Wire, frozen=True, kw_only=True):
    """How much of its budget a team has spent of a month (UTC); a limit of None is no limit.

    Told at once when the budget is another or a threshold is reached, else once a minute at most.
    Without both limits the team has no budget any more.
    """

    team: str
    month: str
    """2026-11."""
    percent: int
    """Rounded down, of two limits the fuller; above 100 where work went on."""
    at_limit: AtLimit
    """What new work may still use once the budget is spent."""
    spot_flavors: tuple[str, ...] = ()
    """All that there are, where `at_limit` leaves a team only these."""
    spent_gpu_milli_hours: int
    limit_gpu_milli_hours: int | None
    spent_microdollars: int
    limit_microdollars: int | None
    at_ms: int
    cell: int = 0
    forecast_gpu_milli_hours: int | None = None
    """Spent by the end of the month if no more and no less is held; None: not told."""
    forecast_microdollars: int | None = None
    """The same in money."""
    whole_spent_at_ms: int | None = None
    """When all is spent if no more and no less is held; None: not in this month."""


class QueueUsageTold(Wire, frozen=True, kw_only=True):
    """What a queue used over time, older use counting less; told once a minute at most.

    After `half_life_ms` without use, half of it is left.
    """

    queue: str
    gpu_seconds: int
    """Use over time in GPU-seconds, older use counting less."""
    at_ms: int
    half_life_ms: int
    cell: int = 0


class DebtsTold(Wire, frozen=True, kw_only=True):
    """What nodes of the quota tree had lately beyond their part, told once a minute at most.

    It counts as share beside what each borrows. Nodes that are not named are as told before.
    """

    debts: dict[str, int]
    """Parts per million of the cohort's quota, by weight; below 0 more is due to the node."""
    at_ms: int
    cell: int = 0


class QuotaRefused(Wire, frozen=True, kw_only=True):
    """Why quota does not nominate a queued workload; told again only when the reason changes."""

    workload_id: str
    team: str
    queue: str
    reason: Reason
    message: str
    next_step: str
    evidence: dict[str, int] = msgspec.field(default_factory=dict)
    cell: int = 0


class FlavorQuota(Wire, frozen=True, kw_only=True):
    """Limits of one node of the tree in one flavor; `None` of a limit means unlimited."""

    flavor: str
    nominal: Resources = UNBOUNDED
    """What it owns; a unit that is not named is unlimited."""
    borrowing_limit: Resources | None = None
    """What it may borrow above that at most; null: no limit."""
    lending_limit: Resources | None = None
    """What it lends of its own at most; null: no limit."""

    def limits(self) -> FlavorLimits:
        """The core's noun for it."""
        borrowing, lending = self.borrowing_limit, self.lending_limit
        return FlavorLimits(
            nominal=amount(self.nominal),
            borrowing_limit=None if borrowing is None else amount(borrowing),
            lending_limit=None if lending is None else amount(lending),
        )


class QuotaChanged(Wire, frozen=True, kw_only=True):
    """The document of one node of the quota tree, in force from now on.

    A cohort tells its own quota, not what its members own. `version` is a queue's own, and of a
    cohort counts how often it was told.
    """

    name: str
    """Name of the queue or cohort."""
    kind: str
    """queue | cohort."""
    parent: str = ""
    flavors: tuple[FlavorQuota, ...] = ()
    strict: bool = False
    held: bool = False
    weight: int = 1
    version: int = 1
    cell: int = 0
    draining: bool = False
    policy: QueuePolicy = QueuePolicy()
    """Of a cohort the default, without effect."""
    team: str = ""
    """Team that owns the queue; empty for a cohort."""

    def document(self) -> QuotaDocument:
        """The core's noun for it."""
        return QuotaDocument(
            name=self.name,
            kind=self.kind,
            version=self.version,
            parent=self.parent,
            team=self.team,
            flavors={one.flavor: one.limits() for one in self.flavors},
            strict=self.strict,
            held=self.held,
            draining=self.draining,
            weight=self.weight,
            policy=self.policy,
        )
