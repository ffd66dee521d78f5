"""GET of why a workload stands where it stands, now or at a moment in the past.

The reason is what was recorded, and recorded only when it changed; so the past is told by the same
rows. What people ask next is read beside it: the place in the queue, the limits up the tree, the
next expected ends, the debt for which others go first (all `wait_context.py`), the preemptor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer, bad_parameter
from services.gateway.why.headline import (
    EVICTED,
    PROMISED,
    better,
    detail_of,
    evictions,
    last_eviction,
    preemptor,
    with_closed,
)
from services.gateway.why.lost import STOPPING, explained, lost_of
from services.gateway.why.wait_context import NOTHING_AROUND, around
from services.gateway.why.why_views import Why, WhyEntry
from services.gateway.workloads.workload_reads import row_of
from shared.core.admission import remedy
from shared.core.admission.recorded_reasons import recorded
from shared.core.admission.standing import OF_STATE
from shared.core.kubernetes.standing import OUT_OF_SERVICE
from shared.core.model.decision import FieldError, Reason, Refusal
from shared.core.model.lifecycle import State
from shared.core.model.wording import moment

HISTORY_MAX: Final = 50
REFUSAL_SLACK_MS: Final = 1_000
"""A refusal counts as of this wait even if clocks differ by so much (also in `REFUSAL`)."""
TIME_MAX: Final = 1 << 53
CLOCK_SLACK_MS: Final = 60_000
"""So much may the clock of the caller be ahead."""
_TOLD: Final = (
    "(SELECT json_agg(h) FROM (SELECT e.reason, e.message, e.pod_reason, e.detail, e.at_ms,"  # noqa: S608  # constants
    " e.version, e.state"
    " FROM gateway.event e WHERE e.workload_id = w.id AND e.reason <> '' AND e.at_ms <= $2"
    f" ORDER BY e.seq DESC LIMIT {HISTORY_MAX}) h)::text AS told"
)
_SPEC: Final = " LEFT JOIN gateway.workload_spec s ON s.id = w.id"
_CHANGES: Final = (
    "SELECT state, version, at_ms, reason, message, pod_reason FROM gateway.event"
    " WHERE workload_id = $1 AND version > 0 AND at_ms <= $2 ORDER BY version DESC LIMIT 50"
)
_RECEIVED: Final = {
    "state": State.RECEIVED.value,
    "version": 0,
    "reason": "",
    "message": "",
    "pod_reason": "",
}
_ON_LOST_NODE: Final = (
    "it queues again once its pods are known to have stopped: when the node is back, or is"
    f" deleted, or is fenced (muster admin nodes fence), or has the taint {OUT_OF_SERVICE}"
)
"""A node that is not heard may still run them, so their devices are not given away before."""


async def why(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """The recorded reason, in words with numbers, and what would unblock it."""
    at_ms = call.whole_number("at", 0, 1, TIME_MAX) or None
    if at_ms is not None and at_ms > gateway.clock.now_ms() + CLOCK_SLACK_MS:
        rule = f"must not be later than now, {moment(gateway.clock.now_ms())}"
        bad_parameter("at", str(at_ms), rule)
    row = await row_of(gateway, call, f"w.*, s.spec, {_TOLD}, {EVICTED}", _SPEC, at_ms or TIME_MAX)
    told, evicted = msgspec.json.decode(row["told"] or "[]"), evictions(row)
    stood = row if at_ms is None else await _stood(gateway, row, at_ms)
    history = tuple(_entry(one) for one in told)
    current = _current(stood, told, history)
    state = State(stood["state"] or State.RECEIVED.value)
    if at_ms is None and state in STOPPING and row["nodes"]:
        lost = await lost_of(gateway, row["nodes"])
        queues = state is State.EVICTING
        current = explained(current, lost, gateway.clock.now_ms(), queues=queues)
    waits = at_ms is None and state is State.QUEUED and row["priority"] is not None
    beside = await around(gateway, call, row, current.reason) if waits else NOTHING_AROUND
    promised = waits and beside.stopped is None
    promised_start_ms = current.evidence.get(PROMISED) if promised else None
    said = better(beside, current.reason, current.evidence)
    recorded = None
    if said is not None:
        other = current.reason not in {Reason.PENDING, said.reason}
        recorded = current if other else None
        current = _said(said, current.at_ms)
    shown = current.reason, current.evidence, beside.flavors
    message = await with_closed(gateway, current.message, *shown) if waits else current.message
    view = Why(
        id=row["id"],
        state=state,
        reason=current.reason,
        message=message,
        pod_reason=current.pod_reason,
        next_step=current.next_step,
        evidence=current.evidence,
        since=current.at_ms,
        state_since=stood["changed_at_ms"],
        recorded=recorded,
        history=history,
        at_ms=at_ms,
        place=beside.place,
        limits=beside.limits,
        spot_left_out=beside.spot_left_out,
        budget=beside.budget,
        frees_next=beside.frees_next,
        owed=beside.owed,
        no_eviction=beside.no_eviction,
        turn=beside.turn,
        promised_start_ms=promised_start_ms,
        last_eviction=last_eviction(evicted),
        preempted_by=preemptor(evicted),
    )
    return answer(view)


async def _stood(gateway: GatewayContext, row: Mapping[str, Any], at_ms: int) -> dict[str, Any]:
    """The columns that `_current` reads, as they were at `at_ms`."""
    if at_ms < row["submitted_at_ms"]:
        rule = f"must not be before the submission, {moment(row['submitted_at_ms'])}"
        bad_parameter("at", str(at_ms), rule)
    changes = await gateway.reader.fetch(_CHANGES, row["id"], at_ms)
    if not changes:
        return {**_RECEIVED, "changed_at_ms": row["submitted_at_ms"], "queued_at_ms": None}
    queued = (one["at_ms"] for one in changes if one["state"] == State.QUEUED.value)
    last = dict(changes[0])
    return {**last, "changed_at_ms": last["at_ms"], "queued_at_ms": next(queued, None)}


def _said(refusal: Refusal, at_ms: int) -> WhyEntry:
    """The reason with the numbers of now.

    Quota tells only the first ones that wait, and those once: they stand where others move.
    """
    return WhyEntry(
        reason=refusal.reason,
        message=refusal.message,
        pod_reason="",
        next_step=refusal.next_step,
        evidence=dict(refusal.evidence),
        at_ms=at_ms,
    )


def _entry(row: Mapping[str, Any]) -> WhyEntry:
    detail = detail_of(row)
    evidence = detail.get("evidence") or {
        one["field"]: f"{one['rule']} (got {one['value']})" for one in detail.get("errors", ())
    }
    reason, pod_reason = recorded(row["reason"], row["pod_reason"])
    return WhyEntry(
        reason=reason,
        message=row["message"],
        pod_reason=pod_reason,
        next_step=detail.get("next_step", "") or remedy.next_step(_errors(detail)),
        evidence=evidence,
        at_ms=row["at_ms"],
    )


def _errors(detail: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """The broken rules of a submission that was rejected."""
    return msgspec.convert(detail.get("errors", ()), tuple[FieldError, ...])


def _current(row: Mapping[str, Any], rows: Any, history: tuple[WhyEntry, ...]) -> WhyEntry:  # noqa: ANN401  # rows
    """The refusal of this wait, the reason of the last change, or what the state itself says.

    What was told without a state is of another submission with its key, and says nothing of it.
    """
    state = State(row["state"] or State.RECEIVED.value)
    reason, message, next_step = OF_STATE[state]
    if state is State.EVICTING and row["reason"] == Reason.NODE_LOST.value:
        next_step = _ON_LOST_NODE
    pairs = [(one, entry) for one, entry in zip(rows, history, strict=True) if one["state"]]
    if state is State.RUNNING:
        warning = _warning(pairs)
        if warning is not None:
            return warning
        message = _size(row) or message
    for one, entry in pairs:
        refusal = one["version"] == 0 and one["state"] == State.QUEUED.value
        if state is State.QUEUED and refusal:
            if entry.at_ms >= (row["queued_at_ms"] or 0) - REFUSAL_SLACK_MS:
                return entry
            break
        if state is not State.QUEUED and one["version"] == row["version"]:
            return WhyEntry(
                reason=entry.reason,
                message=entry.message or message,
                pod_reason=entry.pod_reason,
                next_step=entry.next_step or next_step,
                evidence=entry.evidence,
                at_ms=entry.at_ms,
            )
    known, pod_reason = recorded(row["reason"] or "", row["pod_reason"] or "")
    return WhyEntry(
        reason=known or reason,
        message=row["message"] or message,
        pod_reason=pod_reason,
        next_step=next_step,
        evidence={},
        at_ms=row["changed_at_ms"],
    )


def _size(row: Mapping[str, Any]) -> str:
    """Of an elastic gang that runs with fewer pods than it asked for; else nothing."""
    pods, placed = row.get("pods") or 0, row.get("placed_pods") or 0
    if not 0 < placed < pods:
        return ""
    return f"{placed} of its {pods} pods run, as it is elastic"


def _warning(pairs: Sequence[tuple[Any, WhyEntry]]) -> WhyEntry | None:
    """What was told last of a running workload's use of its GPUs, if that was a warning."""
    for one, entry in pairs:
        if one["state"] != State.RUNNING.value:
            break
        if one["version"] == 0:
            return entry if entry.reason is Reason.IDLE else None
    return None
