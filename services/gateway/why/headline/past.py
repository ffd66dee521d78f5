"""What a workload was told when it had to leave its nodes the last time.

It is read apart from the reasons that `why` lists, as any number of them may have come after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from services.gateway.why.why_views import LastEviction, Preemptor
from shared.core.admission.recorded_reasons import recorded

Row = Mapping[str, Any]
_EVICTIONS: Final = (
    "SELECT e.seq, e.reason, e.message, e.pod_reason, e.detail, e.at_ms, e.version, e.state"
    " FROM gateway.event e WHERE e.workload_id = w.id AND e.state = 'evicting'"
    " AND e.version > 0 AND e.at_ms <= $2"
)
_NEWEST: Final = " ORDER BY e.seq DESC LIMIT 1)"
_FOR_ANOTHER: Final = " AND starts_with(e.detail, '{\"preemption\":')"
EVICTED: Final = (
    f"(SELECT json_agg(h ORDER BY h.seq DESC) FROM (({_EVICTIONS}{_NEWEST}"  # noqa: S608  # constants
    f" UNION ({_EVICTIONS}{_FOR_ANOTHER}{_NEWEST}) h)::text AS evicted"
)
"""Of workload `w` until `$2`: its newest eviction, and the newest one that was for another."""


def evictions(row: Row) -> list[Row]:
    """What `EVICTED` found, the newest first."""
    return msgspec.json.decode(row["evicted"], type=list[dict[str, Any]]) if row["evicted"] else []


def last_eviction(evicted: Sequence[Row]) -> LastEviction | None:
    """The newest of its evictions."""
    for one in evicted:
        reason, pod_reason = recorded(one["reason"], one["pod_reason"])
        return LastEviction(
            reason=reason,
            message=one["message"],
            pod_reason=pod_reason,
            note=detail_of(one).get("note", ""),
            at_ms=one["at_ms"],
        )
    return None


def preemptor(evicted: Sequence[Row]) -> Preemptor | None:
    """The preemptor of its last preemption."""
    for one in evicted:
        detail = detail_of(one)
        preemption = detail.get("preemption")
        if preemption:
            return Preemptor(
                plan_id=preemption["plan_id"],
                rule=preemption["rule"],
                workload_id=preemption["workload_id"],
                team=preemption["team"],
                queue=preemption["queue"],
                message=one["message"],
                at_ms=one["at_ms"],
                back_at_ms=detail.get("back_at_ms") or None,
            )
    return None


def detail_of(row: Row) -> dict[str, Any]:
    """What the event holds beside its columns; empty for nothing."""
    return msgspec.json.decode(row["detail"], type=dict) if row["detail"] else {}
