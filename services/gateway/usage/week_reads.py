"""GET of a week: what teams held, used and paid, how long work waited, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from itertools import islice
from typing import Any, Final

from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer
from services.gateway.app.existing import check_names
from services.gateway.http.route import Parameter
from services.gateway.usage.rightsize_reads import monday_of, seen_in
from services.gateway.usage.rightsize_views import RightsizeItem, RightsizeReport
from services.gateway.usage.usage_reads import DAY_SINCE, day_of
from services.gateway.usage.usage_sums import date_of, number_of, sums_by, sums_of
from services.gateway.usage.usage_views import UsageReport, UsageSum
from services.gateway.usage.week_views import FailureCount, TeamWeek, WeekReport
from shared.core.quota.cost import DAY_MS

WEEK: Final = timedelta(days=7)
SAVINGS_MAX: Final = 3
ALL: Final = 10_000
"""More than there are teams, or classes of work of which something is said."""
OF_WEEK: Final = Parameter(
    name="week",
    pattern=DAY_SINCE.pattern,
    rule=DAY_SINCE.rule,
    text="A day (UTC) of the week; the last whole week if not said.",
)
_WORK: Final = (
    "SELECT team, count(*) AS submitted, count(running_at_ms) AS started,"
    " count(*) FILTER (WHERE state = 'failed') AS failed,"
    " percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY running_at_ms - submitted_at_ms)"
    " FILTER (WHERE attempt = 1 AND running_at_ms IS NOT NULL) AS waits"
    " FROM gateway.workload WHERE submitted_at_ms >= $1 AND submitted_at_ms < $2"
    " AND ($3::text IS NULL OR team = $3) GROUP BY team"
)
_EVICTIONS: Final = (
    "SELECT w.team, count(*) FILTER (WHERE p.rule = 'idle') AS idle_released,"
    " count(*) FILTER (WHERE p.rule <> 'idle') AS preempted FROM gateway.preemption p"
    " CROSS JOIN LATERAL json_array_elements(p.victims::json) v"
    " JOIN gateway.workload w ON w.id = v ->> 'workload_id'"
    " WHERE p.at_ms >= $1 AND p.at_ms < $2 AND p.expired_at_ms IS NULL"
    " AND ($3::text IS NULL OR w.team = $3) GROUP BY w.team"
)
_FAILURES: Final = (
    "SELECT coalesce(reason, '') AS reason, count(*) AS count FROM gateway.workload"
    " WHERE submitted_at_ms >= $1 AND submitted_at_ms < $2 AND state = 'failed'"
    " AND ($3::text IS NULL OR team = $3) GROUP BY 1 ORDER BY 2 DESC, 1"
)
Rows = Mapping[str, Mapping[str, Any]]
_NOTHING: Final = UsageSum(**sums_of({}))
_NO_WORK: Final[Mapping[str, Any]] = {"submitted": 0, "started": 0, "failed": 0, "waits": None}
_NO_EVICTIONS: Final[Mapping[str, Any]] = {"preempted": 0, "idle_released": 0}


async def get_week(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """The report of one week."""
    team = call.team_filter()
    asked = day_of(call, "week") or date_of(gateway.clock.now_ms() // DAY_MS) - WEEK
    report = await week_of(gateway, monday_of(asked), team)
    if not report.teams:
        await check_names(gateway, call, team=call.query.get("team", ""))
    return answer(report)


async def week_of(gateway: GatewayContext, monday: date, team: str | None) -> WeekReport:
    """The week that begins with `monday`, of one team or of all."""
    reader = gateway.reader
    span = number_of(monday) * DAY_MS, number_of(monday + WEEK) * DAY_MS, team
    # One after the other: a report must not take every connection that there is for reads.
    held = await sums_by(reader, "team", (monday, monday + WEEK), team, limit=ALL)
    before = await sums_by(reader, "team", (monday - WEEK, monday), team, limit=ALL)
    work = await reader.fetch(_WORK, *span)
    evictions = await reader.fetch(_EVICTIONS, *span)
    failures = await reader.fetch(_FAILURES, *span)
    savings = await seen_in(gateway, monday, monday + WEEK, team, ALL)
    return WeekReport(
        since=monday.isoformat(),
        until=(monday + WEEK).isoformat(),
        teams=_teams(held, before, _by_team(work), _by_team(evictions), _largest(savings)),
        total=held.total,
        failures=tuple(FailureCount(**row) for row in failures),
    )


def _by_team(rows: Iterable[Mapping[str, Any]]) -> Rows:
    return {row["team"]: row for row in rows}


def _largest(report: RightsizeReport | None) -> dict[str, tuple[RightsizeItem, ...]]:
    """The first savings of each team; they come in the order of what they save."""
    found: dict[str, list[RightsizeItem]] = {}
    for item in report.items if report is not None else ():
        if item.form is not None:
            found.setdefault(item.team, []).append(item)
    return {team: tuple(islice(items, SAVINGS_MAX)) for team, items in found.items()}


def _teams(
    held: UsageReport,
    before: UsageReport,
    work: Rows,
    evictions: Rows,
    savings: Mapping[str, tuple[RightsizeItem, ...]],
) -> tuple[TeamWeek, ...]:
    """Those that held something, the most first; then those that only submitted, by name."""
    sums = {one.name: one for one in held.items}
    cost_before = {one.name: one.cost_microdollars for one in before.items}
    return tuple(
        _team(
            name,
            sums.get(name, _NOTHING),
            cost_before.get(name, 0),
            {**_NO_WORK, **work.get(name, {}), **_NO_EVICTIONS, **evictions.get(name, {})},
            savings.get(name, ()),
        )
        for name in dict.fromkeys([*sums, *sorted({*work, *evictions})])
    )


def amounts_of(held: UsageSum) -> dict[str, int]:
    """The parts of a sum by their names, also of what holds more beside them."""
    return {part: getattr(held, part) for part in UsageSum.__struct_fields__}


def _team(
    name: str,
    held: UsageSum,
    cost_before: int,
    fared: Mapping[str, Any],
    savings: tuple[RightsizeItem, ...],
) -> TeamWeek:
    p50_ms, p95_ms = fared["waits"] or (None, None)
    amounts = amounts_of(held)
    counts = ("submitted", "started", "failed", "preempted", "idle_released")
    return TeamWeek(
        team=name,
        cost_before_microdollars=cost_before,
        wait_p50_ms=p50_ms,
        wait_p95_ms=p95_ms,
        savings=savings,
        **amounts,
        **{count: fared[count] for count in counts},
    )
