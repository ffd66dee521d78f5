"""Where GPU-hours went, as it is read."""

from __future__ import annotations

from services.gateway.http.views import View
from shared.core.quota.prices import Purchase


class UsageSum(View, frozen=True, kw_only=True):
    """GPU-milliseconds that were held, and what they cost: used, unused and unmeasured are all."""

    allocated_gpu_ms: int
    """All that was held: the sum of the next three."""
    used_gpu_ms: int
    """Held times use."""
    unused_gpu_ms: int
    """Held and measured, without use."""
    unmeasured_gpu_ms: int
    """Held while no report of use counted."""
    cost_microdollars: int
    """Of all that was held, in millionths of a dollar, at the prices when it began."""
    unused_microdollars: int
    """Of what was held and measured without use."""


class UsageItem(UsageSum, frozen=True, kw_only=True):
    """One team, queue, namespace, flavor, purchase, label, workload or day."""

    name: str
    """Name of the team, queue, namespace or flavor, way of buying, value of the label, id of the
    workload, or the day (UTC)."""
    team: str
    """Of a queue or workload; empty for others."""
    workload_name: str
    """Of a workload; empty for others."""


class UsageReport(View, frozen=True, kw_only=True):
    """Where GPU-hours went in some days: the largest items first, days in their order."""

    by: str
    """What the items are."""
    since: str
    """The first day (UTC), such as 2026-11-01."""
    until: str
    """The day after the last."""
    items: tuple[UsageItem, ...]
    left_out: int
    """How many more items there are than `limit`."""
    total: UsageSum
    """Of all items, also of those left out."""


class UsageCharge(UsageSum, frozen=True, kw_only=True):
    """What one workload held of a flavor in a day, at one price."""

    day: str
    """The day (UTC)."""
    workload_id: str
    """Id of the workload."""
    workload_name: str
    """Its name; empty: unknown."""
    team: str
    """Its team."""
    queue: str
    """Its queue."""
    namespace: str
    """Of its pods; empty: unknown."""
    flavor: str
    """Of the GPUs that it held."""
    purchase: Purchase
    """How the GPUs were paid for."""
    price_microdollars_per_gpu_hour: int
    """Price of a GPU-hour in millionths of a dollar."""
    attempts: int
    """Of the workload that held something of it."""
    labels: dict[str, str]
    """Of the workload."""


class UsageChargePage(View, frozen=True, kw_only=True):
    """Charges in the order of days."""

    items: tuple[UsageCharge, ...]
    """Charges of this page."""
    next_cursor: str
    """Empty: there are no more."""
