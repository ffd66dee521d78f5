"""GET of preemptions: victims, preemptor, rule, cost, and the alternatives.

A team sees the plans made for its work and those that took its work; of other teams' victims it
learns how many there were. The teams of victims are those of their rows now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.existing import check_names
from services.gateway.why.why_views import (
    AlternativeView,
    PreemptionPage,
    PreemptionView,
    VictimView,
)
from services.gateway.workloads.workload_queries import cursor_at, place_of
from shared.events.plans import PlannedVictim, RefusedAlternative

TIME_MAX: Final = 1 << 53
_victims: Final = msgspec.json.Decoder(tuple[PlannedVictim, ...])
_alternatives: Final = msgspec.json.Decoder(tuple[RefusedAlternative, ...])
_OURS: Final = (
    "($1::text IS NULL OR p.team = $1 OR EXISTS (SELECT"
    " FROM json_array_elements(p.victims::json) v"
    " JOIN gateway.workload w ON w.id = v->>'workload_id' WHERE w.team = $1))"
)
_PAGE: Final = (
    "SELECT p.*, w.placed_at_ms, (SELECT json_object_agg(o.id, o.team) FROM gateway.workload o"  # noqa: S608  # constants
    " WHERE o.id IN (SELECT v->>'workload_id' FROM json_array_elements(p.victims::json) v))::text"
    " AS teams FROM gateway.preemption p LEFT JOIN gateway.workload w ON w.id = p.workload_id"
    f" WHERE {_OURS} AND p.at_ms >= $2 AND (p.at_ms, p.plan_id) < ($3, $4)"
    " ORDER BY p.at_ms DESC, p.plan_id DESC LIMIT $5"
)


async def list_preemptions(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """A page, the newest first."""
    limit = call.limit()
    team = call.team_filter()
    since_ms = call.whole_number("since", 0, 0, TIME_MAX)
    cursor = call.query.get("cursor", "")
    before = place_of(cursor) if cursor else (TIME_MAX, "")
    rows = await gateway.reader.fetch(_PAGE, team, since_ms, *before, limit + 1)
    if not rows:
        await check_names(gateway, call, team=call.query.get("team", ""))
    items = tuple(_view(row, team) for row in rows[:limit])
    last = rows[limit - 1] if len(rows) > limit else None
    following = cursor_at(last["at_ms"], last["plan_id"]) if last is not None else ""
    return answer(PreemptionPage(items=items, next_cursor=following))


def _view(row: Mapping[str, Any], team: str | None) -> PreemptionView:
    victims = _victims.decode(row["victims"])
    teams: dict[str, str] = msgspec.json.decode(row["teams"]) if row["teams"] else {}
    return PreemptionView(
        plan_id=row["plan_id"],
        at_ms=row["at_ms"],
        rule=row["rule"],
        flavor=row["flavor"],
        workload_id=row["workload_id"],
        team=row["team"],
        queue=row["queue"],
        inline=row["inline"],
        victims=_seen(victims, teams, team),
        victims_count=len(victims),
        moved_count=sum(one.moves_to is not None for one in victims),
        lost_gpu_ms=sum(one.lost_gpu_ms for one in victims),
        alternatives=tuple(
            AlternativeView(
                why=one.why, victims_count=len(one.victims), lost_gpu_ms=one.lost_gpu_ms
            )
            for one in _alternatives.decode(row["alternatives"])
        ),
        followers=row["followers"],
        outcome=_outcome(row),
    )


def _seen(
    victims: Sequence[PlannedVictim], teams: Mapping[str, str], team: str | None
) -> tuple[VictimView, ...]:
    """Victims that the caller may see; an operator that asks for no team sees all."""
    return tuple(
        VictimView(
            workload_id=one.workload_id,
            team=teams.get(one.workload_id, ""),
            rule=one.rule,
            lost_gpu_ms=one.lost_gpu_ms,
            moves_to=_nodes_of(one),
        )
        for one in victims
        if team is None or teams.get(one.workload_id) == team
    )


def _nodes_of(one: PlannedVictim) -> tuple[str, ...]:
    pods = one.moves_to.pods if one.moves_to is not None else ()
    return tuple(sorted({pod.node for pod in pods}))


def _outcome(row: Mapping[str, Any]) -> str:
    if row["expired_reason"]:
        return f"expired: {row['expired_reason']}"
    if not row["workload_id"]:
        return "released"
    placed = (row["placed_at_ms"] or 0) >= row["at_ms"]
    return "placed" if placed else "reserved"
