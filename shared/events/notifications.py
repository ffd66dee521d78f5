"""What is asked of the notifications service, and what it tells of its destinations (ADR 93)."""

from __future__ import annotations

from shared.events.workloads import Wire


class TryDestination(Wire, frozen=True, kw_only=True):
    """Send a notice of kind `test` to a destination now, whatever it waits for."""

    name: str
    """Name of the destination."""
    actor: str = ""
    by: str = ""
    """Role of the key by which it was asked for, in words."""
    cell: int = 0


class TellWeek(Wire, frozen=True, kw_only=True):
    """Tell destinations what a week of a team or of the fleet came to (ADR 110).

    Amounts are GPU-milliseconds and millionths of a dollar, as in `GET /v1/report`.
    """

    team: str = ""
    """Empty: of the fleet."""
    since: str
    """Its Monday (UTC), such as 2026-11-16."""
    until: str
    """The Monday after it."""
    allocated_gpu_ms: int
    """All that was held: the sum of the next three."""
    used_gpu_ms: int
    """Held and measured with use."""
    unused_gpu_ms: int
    """Held and measured without use."""
    unmeasured_gpu_ms: int
    """Held without a measurement."""
    cost_microdollars: int
    """Of all that was held, at the prices of its days."""
    unused_microdollars: int
    """Of what was held and measured without use."""
    cost_before_microdollars: int = 0
    """Of the week before."""
    submitted: int = 0
    """Workloads of the week."""
    failed: int = 0
    """Those of them that failed."""
    preempted: int = 0
    """Evictions for other work."""
    idle_released: int = 0
    """Evictions of work that did not use its GPUs."""
    wait_p50_ms: int | None = None
    """From submission to the first start; null: nothing started, or it is of the fleet."""
    wait_p95_ms: int | None = None
    """The same, of 95 % of it."""
    remarks: tuple[str, ...] = ()
    """The largest savings, and why work failed most, in sentences."""
    cell: int = 0


class DestinationTold(Wire, frozen=True, kw_only=True):
    """How a destination stands; told when that changes, or when a test was answered."""

    name: str
    """Name of the destination."""
    at_ms: int
    waiting: int
    """Notices that were not delivered yet."""
    dropped: int = 0
    """Notices that were given up: too many waited, or they waited too long."""
    delivered_at_ms: int = 0
    """When it took something last, Unix milliseconds; 0: never."""
    failing_since_ms: int = 0
    """Since when it takes nothing, Unix milliseconds; 0: it does."""
    dead: bool = False
    """Whether that is longer than notices are kept."""
    problem: str = ""
    """What went wrong last; empty: nothing."""
    cell: int = 0
