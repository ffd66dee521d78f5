"""What a workload was told when it had to leave its nodes the last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.gateway.why_views import LastEviction, Preemptor
from shared.core.lifecycle import State

Row = Mapping[str, Any]


def last_eviction(told: Sequence[Row]) -> LastEviction | None:
    """The newest of its evictions, of what was told, the newest first."""
    for one in told:
        if one["state"] == State.EVICTING.value and one["version"]:
            return LastEviction(
                reason=one["reason"],
                message=one["message"],
                note=detail_of(one).get("note", ""),
                at_ms=one["at_ms"],
            )
    return None


def preemptor(told: Sequence[Row]) -> Preemptor | None:
    """Who took its room the last time, of what its evictions recorded."""
    for one in told:
        detail = detail_of(one)
        preemption = detail.get("preemption")
        if preemption and one["state"] == State.EVICTING.value:
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
