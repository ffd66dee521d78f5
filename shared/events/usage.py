"""Facts of monitoring about where GPU-hours go (docs/adr/0091)."""

from __future__ import annotations

from shared.events.workloads import Wire


class AttemptUse(Wire, frozen=True, kw_only=True):
    """What an attempt holds at one size within one day: all of that day so far.

    Amounts are thousandths of a GPU times milliseconds. Used, unused and unmeasured sum to what
    is allocated: the price is that of the time when the attempt got this size.
    """

    workload_id: str
    attempt: int
    resizes: int = 0
    """How often the attempt had changed its size before."""
    team: str
    queue: str
    namespace: str = ""
    """Namespace of its pods; empty: unknown."""
    flavor: str
    day: int
    """Days since 1970-01-01, UTC."""
    used: int
    """Held times use."""
    unused: int
    """Held and measured, without use."""
    unmeasured: int
    """Held while no report counts."""
    price_microdollars_per_gpu_hour: int = 0
    """Price of a GPU-hour in millionths of a dollar."""
    ended: bool = False
    """Whether the attempt holds this no more: nothing is told of it again."""


class UsageTold(Wire, frozen=True, kw_only=True):
    """Where GPU-hours went, of some attempts; replaces what was told of each and its day."""

    attempts: tuple[AttemptUse, ...]
    """Each with its day."""
    at_ms: int
    """As of when, Unix milliseconds."""
    cell: int = 0
