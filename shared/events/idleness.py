"""Facts of monitoring about work that does not use its GPUs (docs/adr/0027)."""

from __future__ import annotations

from shared.core.model.reason import Reason
from shared.events.workloads import Wire


class IdlenessNoticed(Wire, frozen=True, kw_only=True):
    """All GPUs of an attempt were seen idle from `since_ms` until `until_ms`: the warning.

    Told again, as a `reminder`, when it is to be released and every minute after that.
    """

    workload_id: str
    team: str
    queue: str
    attempt: int
    since_ms: int
    until_ms: int
    """Time of the last report; nothing is known of later."""
    utilization_percent: int
    """The most that one of its GPUs was used meanwhile."""
    percent_below: int
    """What counts as idle."""
    release_at_ms: int = 0
    """When it is released if this goes on; 0 is never."""
    reminder: bool = False
    """Whether it was told before."""
    cell: int = 0


class IdlenessEnded(Wire, frozen=True, kw_only=True):
    """What was noticed is over: used, unseen (no reports) or exempt (no policy)."""

    workload_id: str
    team: str
    queue: str
    attempt: int
    since_ms: int
    ended_at_ms: int
    """When it ended, Unix milliseconds."""
    reason: Reason
    cell: int = 0
