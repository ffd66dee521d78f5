"""Eviction plans in the read model: told in the preemptor's story, and one record for each.

The record names preemptor, rule, victims with what each would have to compute again, and what else
could have been done. The teams of the victims are read from the victims' own rows on request.
A reason for no eviction is an event that changes no state, and a row as long as it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from services.gateway.projection.projection_rows import ProjectionBatch
from shared.core.admission.recorded_reasons import recorded
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.wording import count, moment
from shared.core.preemption.eligibility.plan import Obstacle
from shared.events import plans
from shared.events.envelope import Event

_json: Final = msgspec.json.Encoder()
_AGAIN: Final = _json.encode({"next_step": "it is tried again while it waits"}).decode()


def accepted(batch: ProjectionBatch, event: Event, fact: plans.EvictionPlanAccepted) -> None:
    """The whole record of a preemption, if the plan has victims."""
    detail = {
        "rule": fact.rule,
        "victims": fact.victims,
        "alternatives": fact.alternatives,
        "next_step": f"starts when they have stopped; kept until {moment(fact.expires_at_ms)}",
    }
    batch.refusals[fact.workload_id] = None
    message = f"room in {fact.flavor} is reserved for it, {_who_goes(fact.victims)}"
    if fact.followers:
        message += f"; there will be room for {fact.followers} more of its queue"
    _tell(batch, event, fact, (recorded(fact.rule)[0], message, _json.encode(detail).decode()))
    if not fact.victims:
        return
    batch.preemptions[fact.plan_id] = (
        fact.plan_id,
        fact.workload_id,
        fact.team,
        fact.queue,
        fact.flavor,
        fact.rule,
        event.time_ms,
        fact.inline,
        _json.encode(fact.victims).decode(),
        _json.encode(fact.alternatives).decode(),
        fact.followers,
        "",
        None,
    )


def _who_goes(victims: Sequence[plans.PlannedVictim]) -> str:
    moved = sum(one.moves_to is not None for one in victims)
    smaller = sum(one.pods_kept > 0 for one in victims)
    gone = len(victims) - moved - smaller
    told = [("evicted", gone), ("made smaller", smaller), ("moved", moved)]
    parts = [f"{how} for it: {count(many, 'workload')}" for how, many in told if many]
    return ", ".join(parts) or "nothing is evicted"


def refused(batch: ProjectionBatch, event: Event, fact: plans.EvictionPlanRefused) -> None:
    """Nothing was done."""
    _tell(batch, event, fact, (fact.reason, fact.message, _AGAIN))


def expired(batch: ProjectionBatch, event: Event, fact: plans.ReservationExpired) -> None:
    """The refund: the reservation is released, and its capacity is open to all work again."""
    _tell(batch, event, fact, (fact.reason, fact.message, _AGAIN))
    known = batch.preemptions.get(fact.plan_id)
    if known is not None:  # a statement may not touch a row twice
        batch.preemptions[fact.plan_id] = (*known[:-2], fact.reason.value, fact.expired_at_ms)
    else:
        batch.expired[fact.plan_id] = (fact.plan_id, fact.reason.value, fact.expired_at_ms)


def none_possible(batch: ProjectionBatch, event: Event, fact: plans.PreemptionRefused) -> None:
    """Why no victim is evicted for it: beside the reason why it waits, which stays as it is."""
    over = fact.obstacle is Obstacle.FITS
    body = _json.encode(fact).decode()
    row = (fact.workload_id, fact.queue, fact.version, event.time_ms, body)
    batch.refusals[fact.workload_id] = None if over else row
    detail = {
        "next_step": fact.next_step,
        "evidence": fact.evidence,
        "retry_at_ms": fact.retry_at_ms,
    }
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        0,
        "",
        reason=Reason(fact.obstacle.value),
        message=fact.message,
        detail=_json.encode(detail).decode(),
    )


def forget(batch: ProjectionBatch, told: dict[str, int]) -> None:
    """What was told holds for one version: it goes when the workload starts, ends, is held.

    `told` are the versions by workload of which there is a row.
    """
    told.update({name: row[2] for name, row in batch.refusals.items() if row is not None})
    for name in batch.workloads.keys() & told.keys():
        if batch.workloads[name].version > told[name]:
            batch.refusals[name] = None
    for name, row in batch.refusals.items():
        if row is None:
            told.pop(name, None)


def _tell(
    batch: ProjectionBatch, event: Event, fact: plans.PlanFact, text: tuple[Reason, str, str]
) -> None:
    """An event that changes no state; `text` is (reason, message, detail)."""
    reason, message, detail = text
    batch.note(
        event,
        fact.workload_id,
        fact.team,
        0,
        State.QUEUED.value,
        reason=reason,
        message=message,
        detail=detail,
    )
