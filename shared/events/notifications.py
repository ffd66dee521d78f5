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
