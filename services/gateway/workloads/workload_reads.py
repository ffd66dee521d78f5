"""GET of workloads: one, and a page of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer, bad_parameter
from services.gateway.app.encoding import encoded
from services.gateway.app.existing import check_names
from services.gateway.http.problems import not_found
from services.gateway.protocol import live_tag
from services.gateway.workloads.workload_queries import cursor_of, page_query
from services.gateway.workloads.workload_views import WorkloadSummary, WorkloadView
from shared.core.admission.recorded_reasons import recorded
from shared.core.model.lifecycle import State
from shared.core.model.nouns import WorkloadSpec
from shared.core.model.reason import Reason
from shared.core.model.units import Resources

_STATES: Final = frozenset(State)
_specs: Final = msgspec.json.Decoder(WorkloadSpec)
REFUSAL: Final = (
    " LEFT JOIN LATERAL (SELECT e.reason, e.message, e.detail, e.at_ms FROM gateway.event e"
    " WHERE e.workload_id = w.id AND e.version = 0 AND e.state = w.state AND e.at_ms >="
    " CASE w.state WHEN 'queued' THEN w.queued_at_ms - 1000 ELSE w.running_at_ms END"
    " ORDER BY e.seq DESC LIMIT 1) r ON w.state IN ('queued', 'running')"
)
NEWEST_FIRST: Final = " ORDER BY w.submitted_at_ms DESC, w.id DESC"
SUMMARY_COLUMNS: Final = (
    "w.*, w.labels::text AS labels_text, r.reason AS refusal, r.message AS refusal_message"
)


async def list_workloads(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """A page, the newest first."""
    limit = call.limit()
    filters = _filters(call)
    where, arguments = page_query(call.team_filter(), filters, call.query.get("cursor", ""))
    rows = await gateway.reader.fetch(
        f"SELECT {SUMMARY_COLUMNS} FROM (SELECT w.* FROM gateway.workload w WHERE {where}"  # noqa: S608  # constants; values are bound
        f"{NEWEST_FIRST} LIMIT {limit + 1}) w{REFUSAL}{NEWEST_FIRST}",
        *arguments,
    )
    if not rows:
        team, queue = call.query.get("team", ""), filters.get("queue", "")
        await check_names(gateway, call, team=team, queue=queue)
    items = await encoded(rows[:limit], lambda row: WorkloadSummary(**summary_fields(row)))
    cursor = cursor_of(rows[limit - 1]) if len(rows) > limit else ""
    return answer({"items": items, "next_cursor": cursor})


def _filters(call: RequestContext) -> dict[str, str]:
    names = ("queue", "state", "kind", "name", "label", "id")
    filters = {name: found for name in names if (found := call.query.get(name, ""))}
    for state in filters.get("state", "").split(","):
        if state and state not in _STATES:
            bad_parameter("state", state, f"must be of {', '.join(State)}")
    return filters


async def row_of(
    gateway: GatewayContext,
    call: RequestContext,
    columns: str,
    joins: str = "",
    *others: Any,  # noqa: ANN401  # any SQL values
) -> Mapping[str, Any]:
    """The row of the workload in the path ($1), if the caller may see it; `others` from $2."""
    identifier = call.part("id")
    rows = await gateway.reader.fetch(
        f"SELECT {columns} FROM gateway.workload w{joins} WHERE w.id = $1",  # noqa: S608  # constants
        identifier,
        *others,
    )
    what = f"workload {identifier}"
    if not rows:
        raise not_found(what)
    call.require(rows[0]["team"], what)
    return rows[0]


async def get_workload(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """Everything about one workload."""
    row = await row_of(
        gateway,
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
    return answer(view, 200, live_tag(view.version))


def _spec(text: str | None) -> WorkloadSpec | None:
    return _specs.decode(text) if text else None


def raw(text: str | None) -> msgspec.Raw:
    """Stored JSON as it is; null for none."""
    return msgspec.Raw(text.encode()) if text else msgspec.Raw(b"null")


def summary_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """What `WorkloadSummary` is made of.

    The reason of a queued one is its last refusal, of a running one that it is idle.
    """
    told = row["state"] == State.QUEUED.value or row["refusal"] == Reason.IDLE.value
    reason, pod_reason = recorded(row["reason"] or "", row["pod_reason"] or "")
    if told:
        reason, pod_reason = recorded(row["refusal"] or "")
    return {
        "id": row["id"],
        "team": row["team"],
        "queue": row["queue"] or "",
        "name": row["name"] or "",
        "kind": row["kind"] or "",
        "state": State(row["state"] or State.RECEIVED.value),
        "version": max(row["version"], 0),
        "priority": row["priority"],
        "priority_class": row["priority_class"] or "",
        "pods": row["pods"],
        "gpu_milli": row["gpu_milli"],
        "placed_pods": row["placed_pods"] or 0,
        "placed_gpu_milli": row["charge_gpu_milli"] or 0,
        "labels": msgspec.json.decode(row["labels_text"]) if row["labels_text"] else {},
        "attempt": row["attempt"] or 0,
        "flavor": row["flavor"] or "",
        "nodes": tuple(row["nodes"] or ()),
        "reason": reason,
        "message": (row["refusal_message"] if told else row["message"]) or "",
        "pod_reason": pod_reason,
        "exit_code": row["exit_code"] or 0,
        "submitted_at_ms": row["submitted_at_ms"],
        "queued_at_ms": row["queued_at_ms"],
        "placed_at_ms": row["placed_at_ms"],
        "running_at_ms": row["running_at_ms"],
        "ended_at_ms": row["ended_at_ms"],
    }
