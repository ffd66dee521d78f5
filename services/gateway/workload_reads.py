"""GET of workloads: one, a page of them, and why one stands where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.door import Call, Door, answer, bad_parameter
from services.gateway.problems import not_found
from services.gateway.views import (
    Why,
    WhyEntry,
    WorkloadPage,
    WorkloadSummary,
    WorkloadView,
)
from services.gateway.workload_queries import cursor_of, page_query
from shared.core.lifecycle import State
from shared.core.model import WorkloadSpec
from shared.core.units import Resources

HISTORY_MAX: Final = 50
REFUSAL_SLACK_MS: Final = 1_000
"""A refusal counts as of this wait even if clocks differ by so much (also in `REFUSAL`)."""
_STATES: Final = frozenset(State)
_specs: Final = msgspec.json.Decoder(WorkloadSpec)
REFUSAL: Final = (
    " LEFT JOIN LATERAL (SELECT e.reason, e.message, e.detail, e.at_ms FROM gateway.event e"
    " WHERE e.workload_id = w.id AND e.version = 0 AND e.state = 'queued'"
    " AND e.at_ms >= w.queued_at_ms - 1000 ORDER BY e.seq DESC LIMIT 1)"
    " r ON w.state = 'queued'"
)
SUMMARY_COLUMNS: Final = (
    "w.*, w.labels::text AS labels_text, r.reason AS refusal, r.message AS refusal_message"
)
_ANSWERS: Final = {
    State.RECEIVED: ("Received", "it is durable and waits for admission", "wait a moment"),
    State.QUEUED: ("Pending", "it is queued and was not tried yet", "wait for its turn"),
    State.HELD: ("Held", "it is on hold", "release it"),
    State.PLACED: ("Placed", "its devices are charged and its pods are being made", ""),
    State.BOUND: ("Bound", "its pods are written to the cluster and start", ""),
    State.RUNNING: ("Running", "all of its pods run", ""),
    State.EVICTING: ("Evicting", "its pods are being stopped", "it queues again by itself"),
    State.CANCELLING: ("Cancelling", "its pods are being stopped", ""),
    State.SUCCEEDED: ("Succeeded", "all of its pods ended well", ""),
    State.FAILED: ("Failed", "it failed", "look at its pods and submit it again"),
    State.CANCELLED: ("Cancelled", "it was cancelled", ""),
    State.REJECTED: ("Rejected", "it can never run as it is", "mend it and submit it again"),
}


async def list_workloads(door: Door, call: Call) -> web.Response:
    """A page, the newest first."""
    limit = call.limit()
    filters = _filters(call)
    where, arguments = page_query(call.team_filter(), filters, call.query.get("cursor", ""))
    rows = await door.reader.fetch(
        f"SELECT {SUMMARY_COLUMNS} FROM gateway.workload w{REFUSAL} WHERE {where}"  # noqa: S608  # constants; values are bound
        f" ORDER BY w.submitted_at_ms DESC, w.id DESC LIMIT {limit + 1}",
        *arguments,
    )
    items = tuple(WorkloadSummary(**summary_fields(row)) for row in rows[:limit])
    cursor = cursor_of(rows[limit - 1]) if len(rows) > limit else ""
    return answer(WorkloadPage(items=items, next_cursor=cursor))


def _filters(call: Call) -> dict[str, str]:
    filters = {
        name: call.query[name]
        for name in ("queue", "state", "kind", "name", "label")
        if call.query.get(name)
    }
    for state in filters.get("state", "").split(","):
        if state and state not in _STATES:
            bad_parameter("state", state, f"must be of {', '.join(State)}")
    return filters


async def row_of(door: Door, call: Call, columns: str, joins: str = "") -> Mapping[str, Any]:
    """The row of the workload in the path, if the caller may see it."""
    identifier = call.part("id")
    rows = await door.reader.fetch(
        f"SELECT {columns} FROM gateway.workload w{joins} WHERE w.id = $1",  # noqa: S608  # constants
        identifier,
    )
    what = f"workload {identifier}"
    if not rows:
        raise not_found(what)
    call.require(rows[0]["team"], what)
    return rows[0]


async def get_workload(door: Door, call: Call) -> web.Response:
    """Everything about one workload."""
    row = await row_of(
        door,
        call,
        f"{SUMMARY_COLUMNS}, s.spec AS spec_queued, a.spec AS spec_sent",
        f"{REFUSAL} LEFT JOIN gateway.workload_spec s ON s.id = w.id"
        " LEFT JOIN gateway.accepted_request a ON a.workload_id = w.id",
    )
    charge = None
    if row["charge_gpu_milli"] is not None and row["placement"]:
        charge = Resources(
            gpu_milli=row["charge_gpu_milli"],
            cpu_milli=row["charge_cpu_milli"],
            memory_mib=row["charge_memory_mib"],
        )
    view = WorkloadView(
        **summary_fields(row),
        cell=row["cell"] or 0,
        charge=charge,
        spec=_spec(row["spec_queued"] or row["spec_sent"]),
        placement=raw(row["placement"]),
    )
    return answer(view, 200, {"ETag": f'"{row["version"]}"'})


def _spec(text: str | None) -> WorkloadSpec | None:
    return _specs.decode(text) if text else None


def raw(text: str | None) -> msgspec.Raw:
    """Stored JSON as it is; null for none."""
    return msgspec.Raw(text.encode()) if text else msgspec.Raw(b"null")


def summary_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """What `WorkloadSummary` is made of; the reason of a queued one is its last refusal."""
    queued = row["state"] == State.QUEUED.value
    return {
        "id": row["id"],
        "team": row["team"],
        "queue": row["queue"] or "",
        "name": row["name"] or "",
        "kind": row["kind"] or "",
        "state": State(row["state"] or State.RECEIVED.value),
        "version": max(row["version"], 0),
        "priority": row["priority"],
        "pods": row["pods"],
        "gpu_milli": row["gpu_milli"],
        "labels": msgspec.json.decode(row["labels_text"]) if row["labels_text"] else {},
        "attempt": row["attempt"] or 0,
        "flavor": row["flavor"] or "",
        "nodes": tuple(row["nodes"] or ()),
        "reason": (row["refusal"] if queued else row["reason"]) or "",
        "message": (row["refusal_message"] if queued else row["message"]) or "",
        "submitted_at_ms": row["submitted_at_ms"],
        "queued_at_ms": row["queued_at_ms"],
        "placed_at_ms": row["placed_at_ms"],
        "running_at_ms": row["running_at_ms"],
        "ended_at_ms": row["ended_at_ms"],
    }


async def why(door: Door, call: Call) -> web.Response:
    """The recorded reason, in words with numbers, and what would unblock it."""
    row = await row_of(door, call, "w.*")
    rows = await door.reader.fetch(
        "SELECT reason, message, detail, at_ms, version, state FROM gateway.event"
        " WHERE workload_id = $1 AND reason <> '' ORDER BY seq DESC LIMIT $2",
        row["id"],
        HISTORY_MAX,
    )
    history = tuple(_entry(one) for one in rows)
    current = _current(row, rows, history)
    state = State(row["state"] or State.RECEIVED.value)
    view = Why(
        id=row["id"],
        state=state,
        reason=current.reason,
        message=current.message,
        next_step=current.next_step,
        evidence=current.evidence,
        since=current.at_ms,
        history=history,
    )
    return answer(view)


def _entry(row: Mapping[str, Any]) -> WhyEntry:
    detail = msgspec.json.decode(row["detail"]) if row["detail"] else {}
    evidence = detail.get("evidence") or {
        one["field"]: f"{one['rule']} (got {one['value']})" for one in detail.get("errors", ())
    }
    return WhyEntry(
        reason=row["reason"],
        message=row["message"],
        next_step=detail.get("next_step", ""),
        evidence=evidence,
        at_ms=row["at_ms"],
    )


def _current(row: Mapping[str, Any], rows: Any, history: tuple[WhyEntry, ...]) -> WhyEntry:  # noqa: ANN401  # rows
    """The refusal of this wait, the reason of the last change, or what the state itself says."""
    state = State(row["state"] or State.RECEIVED.value)
    reason, message, next_step = _ANSWERS[state]
    for one, entry in zip(rows, history, strict=True):
        refusal = one["version"] == 0 and one["state"] == State.QUEUED.value
        if state is State.QUEUED and refusal:
            if entry.at_ms >= (row["queued_at_ms"] or 0) - REFUSAL_SLACK_MS:
                return entry
            break
        if state is not State.QUEUED and one["version"] == row["version"]:
            return WhyEntry(
                reason=entry.reason,
                message=entry.message or message,
                next_step=entry.next_step or next_step,
                evidence=entry.evidence,
                at_ms=entry.at_ms,
            )
    return WhyEntry(
        reason=row["reason"] or reason,
        message=row["message"] or message,
        next_step=next_step,
        evidence={},
        at_ms=row["changed_at_ms"],
    )
