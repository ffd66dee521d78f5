"""Cancel, hold, release, reprioritise, resize, evict: of one workload, or of all selected.

A command is accepted when it is durable; admission forwards it behind `WorkloadQueued`, and
placement decides what it comes to. A workload that has ended takes no more commands (409).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.committer import Order
from services.gateway.app.context import GatewayContext, RequestContext, answer, href_of
from services.gateway.app.existing import check_names
from services.gateway.app.other_gateways import published_elsewhere
from services.gateway.app.submission_rows import cause_of
from services.gateway.http.problems import Problem, invalid, not_found
from services.gateway.workloads.classes import check_class
from services.gateway.workloads.command_views import BulkCommanded, Commanded
from services.gateway.workloads.sizes import check_sizes
from shared.core.model.decision import FieldError
from shared.core.model.lifecycle import TERMINAL
from shared.events.topics import SUBMISSION_COMMANDS
from shared.events.workloads import (
    CancelWorkload,
    HoldWorkload,
    ReleaseWorkload,
    ReprioritiseWorkload,
    RequestEviction,
    ResizeWorkload,
    Wire,
)
from shared.runtime.handler import Change, Emit

BULK_MAX: Final = 1_000
_PLACE: Final = (
    "SELECT submitted_at_ms, id FROM gateway.workload"
    " WHERE id = $1 AND ($2::text = '' OR team = $2)"
)
_ENDED: Final = tuple(sorted(state.value for state in TERMINAL))


async def command(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """One command to one workload."""
    verb = call.route.name.removeprefix("command_")
    identifier = call.part("id")
    rows = await gateway.reader.fetch(
        "SELECT id, team, state, cell FROM gateway.workload WHERE id = $1", identifier
    )
    if not rows:
        raise not_found(f"workload {identifier}")
    row = rows[0]
    call.require(row["team"], f"workload {identifier}")
    if row["state"] in _ENDED:
        raise Problem(409, "has-ended", f"workload {identifier} is already {row['state']}")
    await _check(gateway, verb, call.body, rows)
    await published_elsewhere(gateway, [identifier])
    await gateway.commit(_order(gateway, call, verb, rows))
    view = Commanded(id=identifier, command=verb, state=row["state"], href=href_of(identifier))
    return answer(view, 202, {"Location": view.href})


async def bulk(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """One command to up to `BULK_MAX` live workloads, the oldest first.

    An operator has no team, and names one where labels or a state would select in all.
    """
    verb = call.route.name.removeprefix("bulk_")
    selection = call.body
    if not (selection.labels or selection.ids or selection.queue or selection.state):
        rule = "give at least one of labels, ids, queue, state"
        raise invalid([FieldError(field="", value="{}", rule=rule)])
    if verb == "reprioritise" and not selection.priority_class:
        raise invalid([FieldError(field="priority_class", value="", rule="is required")])
    if verb == "resize" and not selection.pods:
        raise invalid([FieldError(field="pods", value="", rule="is required")])
    team = selection.team or call.subject.team
    if not (team or selection.queue or selection.ids):
        rule = "is required of a key without a team, unless queue or ids are given"
        raise invalid([FieldError(field="team", value="", rule=rule)])
    call.require(team)
    rows = await _selected(gateway, team, selection)
    if not rows and not selection.after:
        await check_names(gateway, call, team=selection.team, queue=selection.queue)
    more = len(rows) > BULK_MAX
    rows = rows[:BULK_MAX]
    await _check(gateway, verb, selection, rows)
    if rows:
        await published_elsewhere(gateway, [row["id"] for row in rows])
        await gateway.commit(_order(gateway, call, verb, rows))
    view = BulkCommanded(command=verb, ids=tuple(row["id"] for row in rows), more=more)
    return answer(view, 202)


async def _selected(gateway: GatewayContext, team: str, selection: Any) -> Sequence[Any]:  # noqa: ANN401  # Selection
    submitted_at_ms, last = await _place(gateway, team, selection.after)
    return await gateway.reader.fetch(
        "SELECT id, team, state, cell FROM gateway.workload WHERE live"
        " AND ($1::text = '' OR team = $1)"
        " AND ($2::text = '' OR queue = $2) AND ($3::text = '' OR state = $3)"
        " AND ($4::jsonb = '{}' OR labels @> $4) AND (cardinality($5::text[]) = 0 OR id = ANY($5))"
        " AND (submitted_at_ms, id) > ($6::bigint, $7::text)"
        " ORDER BY submitted_at_ms, id LIMIT $8",
        team,
        selection.queue,
        selection.state.value if selection.state else "",
        msgspec.json.encode(selection.labels).decode(),
        list(selection.ids),
        submitted_at_ms,
        last,
        BULK_MAX + 1,
    )


async def _place(gateway: GatewayContext, team: str, after: str) -> tuple[int, str]:
    """Where a selection goes on: behind the last of the answer before, else at the begin."""
    if not after:
        return 0, ""
    rows = await gateway.reader.fetch(_PLACE, after, team)
    if not rows:
        rule = "must be the last id of the answer before"
        raise invalid([FieldError(field="after", value=after, rule=rule)])
    return rows[0]["submitted_at_ms"], rows[0]["id"]


async def _check(gateway: GatewayContext, verb: str, asked: Any, rows: Sequence[Any]) -> None:  # noqa: ANN401  # a request
    """Whether all of `rows` can be what is asked for."""
    if verb == "reprioritise":
        await check_class(gateway, asked.priority_class, rows)
    elif verb == "resize":
        await check_sizes(gateway, [row["id"] for row in rows], asked.pods)


def _order(gateway: GatewayContext, call: RequestContext, verb: str, rows: Sequence[Any]) -> Order:
    distinct = verb + gateway.random_bytes(10).hex()
    at_ms = gateway.clock.now_ms()
    emits, changes = [], []
    for row in rows:
        payload = _payload(verb, row["id"], row["team"], call)
        cause = cause_of(payload, row["id"], distinct, at_ms)
        emits.append(
            Emit(
                payload=payload,
                topic=SUBMISSION_COMMANDS,
                subject=row["id"],
                cause=cause,
                partition=row["cell"] or 0,
            )
        )
        changes.append(
            Change(
                subject=row["id"],
                version=0,
                before=row["state"],
                after=row["state"],
                cause=cause,
                actor=call.subject.name,
                kind=verb,
            )
        )
    return Order(emits=emits, changes=changes)


def _payload(verb: str, identifier: str, team: str, call: RequestContext) -> Wire:
    actor, by = call.subject.name, call.subject.described
    match verb:
        case "cancel":
            return CancelWorkload(workload_id=identifier, team=team, actor=actor, by=by)
        case "hold":
            return HoldWorkload(workload_id=identifier, team=team, actor=actor, by=by)
        case "release":
            return ReleaseWorkload(workload_id=identifier, team=team, actor=actor, by=by)
        case "reprioritise":
            return ReprioritiseWorkload(
                workload_id=identifier,
                team=team,
                priority_class=call.body.priority_class,
                actor=actor,
                by=by,
            )
        case "resize":
            return ResizeWorkload(
                workload_id=identifier, team=team, pods=call.body.pods, actor=actor, by=by
            )
        case _:
            note = call.body.note
            return RequestEviction(
                workload_id=identifier, team=team, note=note, actor=actor, by=by
            )
