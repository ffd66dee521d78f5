"""GET of right-size: which work would have done with less, by what was seen of it (ADR 94).

Evidence is kept by week, so a question is about the weeks that end after `since`. What it takes
to answer is bounded by monitoring: 5,000 classes a week and cell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final

from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.existing import check_names
from services.gateway.http.route import Parameter
from services.gateway.usage.rightsize_report import boards_of, report_of
from services.gateway.usage.rightsize_views import RightsizeReport
from services.gateway.usage.usage_reads import DAY_SINCE, day_of
from services.gateway.usage.usage_sums import date_of, number_of
from shared.core.quota.cost import DAY_MS
from shared.core.quota.prices import price_at
from shared.core.rightsize import Board

DAYS: Final = 30
BOARDS_SECONDS: Final = 60
"""For so long the boards of the fleet are remembered."""
SINCE_WEEKS: Final = Parameter(
    name=DAY_SINCE.name,
    pattern=DAY_SINCE.pattern,
    rule=DAY_SINCE.rule,
    text=f"A day (UTC): its week and those after it are looked at; {DAYS} days ago if not said.",
)
_ROWS: Final = (
    "SELECT body FROM gateway.work_class"
    " WHERE week > $1 AND week < $2 AND ($3::text IS NULL OR team = $3)"
)
_NODES: Final = "SELECT body FROM gateway.node WHERE NOT removed AND body <> ''"


async def get_rightsize(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """Which work would have done with less."""
    team, limit = call.team_filter(), call.limit()
    today = date_of(gateway.clock.now_ms() // DAY_MS)
    since = day_of(call, "since") or today - timedelta(days=DAYS)
    report = await seen_in(gateway, since, today + timedelta(days=1), team, limit)
    if report is None:
        await check_names(gateway, call, team=call.query.get("team", ""))
    return answer(report or report_of((), {}, {}, monday_of(since), limit))


async def seen_in(
    gateway: GatewayContext, since: date, until: date, team: str | None, limit: int
) -> RightsizeReport | None:
    """What is said by the weeks from that of `since` to before `until`; None: nothing was seen."""
    rows = await gateway.reader.fetch(_ROWS, number_of(since) - 7, number_of(until), team)
    if not rows:
        return None
    boards = await _boards(gateway)
    flavors = (await gateway.organisation.current()).flavors
    now_ms = gateway.clock.now_ms()
    prices = {
        name: price_at(one.prices_from(0), now_ms).microdollars_per_gpu_hour
        for name, one in flavors.items()
    }
    bodies = [row["body"] for row in rows]
    return await asyncio.to_thread(report_of, bodies, boards, prices, monday_of(since), limit)


def monday_of(day: date) -> date:
    """The day with which its week begins."""
    return day - timedelta(days=day.weekday())


async def _boards(gateway: GatewayContext) -> Mapping[str, Board]:
    now = gateway.clock.monotonic_seconds()
    known = gateway.cache.get("boards")
    if known is not None and now - known[0] < BOARDS_SECONDS:
        remembered: Mapping[str, Board] = known[1]
        return remembered
    rows = await gateway.reader.fetch(_NODES)
    boards = await asyncio.to_thread(boards_of, [row["body"] for row in rows])
    gateway.cache["boards"] = (now, boards)
    return boards
