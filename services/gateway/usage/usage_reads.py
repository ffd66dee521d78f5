"""GET of usage: who held how many GPU-hours, what of it was used, and what it cost.

Rows are whole days (UTC) of attempts, so a question is about days. Money is rounded once, from
sums of amount times price: prices of one item are summed by price first.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final

from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer, bad_parameter
from services.gateway.app.existing import check_names
from services.gateway.http.route import Parameter
from services.gateway.usage.usage_views import UsageItem, UsageReport, UsageSum
from shared.core.model.units import GPU_MILLI
from shared.core.quota.cost import DAY_MS, rounded
from shared.ports.reader import Reader

DAYS_MAX: Final = 400
EPOCH: Final = date(1970, 1, 1)
_OWN: Final = {
    "team": ("team", "''", "''"),
    "queue": ("queue", "min(team)", "''"),
    "namespace": ("namespace", "''", "''"),
    "flavor": ("flavor", "''", "''"),
    "purchase": ("purchase", "''", "''"),
    "label": ("coalesce(labels ->> $5, '')", "''", "''"),
    "workload": ("workload_id", "min(team)", "min(name)"),
    "day": ("day::text", "''", "''"),
}
"""Column, team and name of an item."""
BY: Final = Parameter(
    name="by", choices=("", *_OWN), text=f"What is summed up: {', '.join(_OWN)}; team if not said."
)
LABEL: Final = Parameter(
    name="label", text="With by=label: the key of the label; work without it is summed up as ''."
)
_DAY_RULE: Final = "must be a day such as 2026-11-01"
DAY_SINCE: Final = Parameter(
    name="since",
    pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    rule=_DAY_RULE,
    text="The first day (UTC), such as 2026-11-01; the first of this month if not said.",
)
DAY_UNTIL: Final = Parameter(
    name="until",
    pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    rule=_DAY_RULE,
    text=f"The day after the last (UTC), at most {DAYS_MAX} later; tomorrow if not said.",
)
_SUMS: Final = (
    "SELECT g.*, count(*) OVER () AS items, sum(used) OVER () AS all_used,"
    " sum(unused) OVER () AS all_unused, sum(unmeasured) OVER () AS all_unmeasured,"
    " sum(priced) OVER () AS all_priced, sum(unused_priced) OVER () AS all_unused_priced FROM ("
    "SELECT item, min(team) AS team, min(name) AS name, sum(used) AS used,"
    " sum(unused) AS unused, sum(unmeasured) AS unmeasured,"
    " sum((used + unused + unmeasured) * price) AS priced, sum(unused * price) AS unused_priced"
    " FROM (SELECT {item} AS item, {team} AS team, {name} AS name,"
    " price_microdollars_per_gpu_hour AS price, sum(used) AS used, sum(unused) AS unused,"
    " sum(unmeasured) AS unmeasured FROM gateway.gpu_usage"
    " WHERE day >= $1 AND day < $2 AND ($3::text IS NULL OR team = $3)"
    " GROUP BY 1, price_microdollars_per_gpu_hour) p GROUP BY item) g"
    " ORDER BY {order}, item LIMIT $4"
)
_LARGEST: Final = "used + unused + unmeasured DESC"


async def get_usage(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """The sums of some days."""
    by = call.query.get("by") or "team"
    days = days_of(call, gateway.clock.now_ms())
    team, limit = call.team_filter(), call.limit()
    report = await sums_by(gateway.reader, by, days, team, limit=limit, label=_label(call, by))
    if not report.items:
        await check_names(gateway, call, team=call.query.get("team", ""))
    return answer(report)


async def sums_by(
    reader: Reader,
    by: str,
    days: tuple[date, date],
    team: str | None,
    *,
    limit: int,
    label: tuple[str, ...] = (),
) -> UsageReport:
    """The sums of the days from the first to before the second; `label`: the key, by label."""
    since, until = days
    item, team_of, name_of = _OWN[by]
    order = "item" if by == "day" else _LARGEST
    sql = _SUMS.format(item=item, team=team_of, name=name_of, order=order)
    rows = await reader.fetch(sql, number_of(since), number_of(until), team, limit, *label)
    return UsageReport(
        by=by,
        since=since.isoformat(),
        until=until.isoformat(),
        items=tuple(_item(by, row) for row in rows),
        left_out=max(rows[0]["items"] - limit, 0) if rows else 0,
        total=UsageSum(**sums_of(rows[0], "all_")) if rows else UsageSum(**sums_of({})),
    )


def _label(call: RequestContext, by: str) -> tuple[str, ...]:
    """The key by which is summed up, if it is by label."""
    label = call.query.get("label", "")
    if (by == "label") != bool(label):
        bad_parameter("label", label, "must be the key of a label with by=label, else not given")
    return (label,) if label else ()


def days_of(call: RequestContext, now_ms: int) -> tuple[date, date]:
    """The days that are asked for, the second one excluded; raises what answers 400."""
    today = date_of(now_ms // DAY_MS)
    since = day_of(call, "since") or today.replace(day=1)
    until = day_of(call, "until") or max(today + timedelta(days=1), since + timedelta(days=1))
    if not since < until <= since + timedelta(days=DAYS_MAX):
        rule = f"must be 1 to {DAYS_MAX} days after since ({since.isoformat()})"
        bad_parameter("until", until.isoformat(), rule)
    return since, until


def day_of(call: RequestContext, name: str) -> date | None:
    """The day that a parameter names, None where it is not given; raises what answers 400."""
    text = call.query.get(name)
    if text is None:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        bad_parameter(name, text, _DAY_RULE)
    if not EPOCH.year <= day.year < date.max.year - 1:
        bad_parameter(name, text, _DAY_RULE)
    return day


def date_of(number: int) -> date:
    """The day with this number since 1970."""
    return EPOCH + timedelta(days=number)


def number_of(day: date) -> int:
    """Days since 1970."""
    return (day - EPOCH).days


def _item(by: str, row: Mapping[str, Any]) -> UsageItem:
    name = date_of(int(row["item"])).isoformat() if by == "day" else row["item"]
    return UsageItem(name=name, team=row["team"], workload_name=row["name"], **sums_of(row))


def sums_of(row: Mapping[str, Any], prefix: str = "") -> dict[str, int]:
    """GPU-milliseconds, each rounded; what is allocated is the sum of what is told."""

    def told(name: str) -> int:
        return int(row.get(prefix + name, 0))

    parts = {
        part: (told(part) + GPU_MILLI // 2) // GPU_MILLI
        for part in ("used", "unused", "unmeasured")
    }
    return {
        "allocated_gpu_ms": sum(parts.values()),
        **{f"{part}_gpu_ms": amount for part, amount in parts.items()},
        "cost_microdollars": rounded(told("priced")),
        "unused_microdollars": rounded(told("unused_priced")),
    }
