"""What can be told to a destination, how serious it is, and which destination wants it."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final


class NoticeKind(StrEnum):
    """An event as documents of kind Notification name it."""

    STARTED = "started"
    """A workload runs."""
    SUCCEEDED = "succeeded"
    """A workload ended well."""
    FAILED = "failed"
    """A workload failed."""
    CANCELLED = "cancelled"
    """A workload was cancelled."""
    REJECTED = "rejected"
    """A submission breaks a rule."""
    PREEMPTED = "preempted"
    """A workload gave its room to another."""
    EVICTED = "evicted"
    """A workload was stopped for another reason."""
    GPU_DRAINED = "gpu-drained"
    """A workload was stopped because a GPU under it is out of service."""
    IDLE_WARNED = "idle-warned"
    """GPUs that are held are not used."""
    IDLE_RELEASED = "idle-released"
    """A workload was stopped because its GPUs were not used."""
    BUDGET = "budget"
    """A team has spent a part of its budget of the month."""
    GPU_HEALTH = "gpu-health"
    """A GPU takes another step of the ladder of health."""
    NODE_SILENT = "node-silent"
    """The agent of a node is not heard."""
    REPORT_WEEKLY = "report-weekly"
    """A week is over: what was held, used and paid."""
    TEST = "test"
    """An operator tries the destination."""


class Severity(StrEnum):
    """How serious an event is."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


KINDS: Final = frozenset(one.value for one in NoticeKind if one is not NoticeKind.TEST)
"""What a document may name."""
SEVERITIES: Final = tuple(one.value for one in Severity)
"""In order."""
FORMATS: Final = frozenset(("webhook", "slack"))


def wanted(
    kind: NoticeKind,
    severity: Severity,
    team: str,
    *,
    events: Collection[str],
    min_severity: str,
    of_team: str,
) -> bool:
    """Whether a destination is told of an event.

    `team` is the event's, empty for one of the fleet; `of_team` is the destination's, empty for
    one that is told of all teams and of the fleet. Without `events` it wants all kinds. The week
    of the fleet has the teams in it, so who is told of all teams is not told of each.
    """
    if kind is NoticeKind.REPORT_WEEKLY and of_team != team:
        return False
    return (
        (not events or kind.value in events)
        and SEVERITIES.index(severity.value) >= SEVERITIES.index(min_severity)
        and (not of_team or of_team == team)
    )
