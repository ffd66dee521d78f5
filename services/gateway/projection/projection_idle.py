"""Idle work in the read model: a warning in its story, and a record when it was released (ADR 27).

The warning is an event of a running workload that changes no state; `why` and the lists show it
until it is over.
"""

from __future__ import annotations

from typing import Final

import msgspec

from services.gateway.projection.projection_rows import ProjectionBatch
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.wording import moment
from shared.events.envelope import Event
from shared.events.idleness import IdlenessEnded, IdlenessNoticed
from shared.events.plans import PlannedVictim
from shared.events.workloads import IdleRelease, WorkloadEvicted

IDLE: Final = Reason.IDLE.value
"""The rule in the record of a release."""
_json: Final = msgspec.json.Encoder()
_WORDS: Final = {
    Reason.USED: "its GPUs are in use again",
    Reason.UNSEEN: "nothing is known of the use of its GPUs for a while, so it counts as used",
    Reason.EXEMPT: "no policy speaks of its idleness any more",
}


def noticed(batch: ProjectionBatch, event: Event, fact: IdlenessNoticed) -> None:
    """The warning; when it is told again it is no other."""
    if fact.reminder:
        return
    message = (
        f"its GPUs have been used {fact.utilization_percent} % at most since"
        f" {moment(fact.since_ms)} (below {fact.percent_below} % is idle)"
    )
    next_step = "use its GPUs, or cancel it"
    if fact.release_at_ms:
        message += f"; it is released at about {moment(fact.release_at_ms)} if this goes on"
        next_step = "use its GPUs, or it is stopped and held"
    evidence = {
        "since_ms": fact.since_ms,
        "utilization_percent": fact.utilization_percent,
        "percent_below": fact.percent_below,
        "release_at_ms": fact.release_at_ms,
    }
    _tell(
        batch, event, fact, (Reason.IDLE, message), {"next_step": next_step, "evidence": evidence}
    )


def ended(batch: ProjectionBatch, event: Event, fact: IdlenessEnded) -> None:
    """It is over."""
    _tell(batch, event, fact, (Reason.NOT_IDLE, _WORDS.get(fact.reason, fact.reason.value)), {})


def released(
    batch: ProjectionBatch, event: Event, fact: WorkloadEvicted, idle: IdleRelease
) -> str:
    """The record among the preemptions, without a preemptor; the detail of the eviction."""
    victim = PlannedVictim(
        workload_id=fact.workload_id, version=fact.version, attempt=fact.attempt, rule=IDLE
    )
    batch.preemptions[idle.plan_id] = (
        idle.plan_id,
        "",
        fact.team,
        fact.queue,
        "",
        IDLE,
        event.time_ms,
        False,
        _json.encode((victim,)).decode(),
        "[]",
        0,
        "",
        None,
    )
    evidence = msgspec.structs.asdict(idle)
    return _json.encode({"idle": idle, "evidence": evidence}).decode()


def _tell(
    batch: ProjectionBatch,
    event: Event,
    fact: IdlenessNoticed | IdlenessEnded,
    words: tuple[Reason, str],
    detail: dict[str, object],
) -> None:
    """`words` are (reason, message)."""
    reason, message = words
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        0,
        State.RUNNING.value,
        reason=reason,
        message=message,
        detail=_json.encode(detail).decode() if detail else "",
    )
