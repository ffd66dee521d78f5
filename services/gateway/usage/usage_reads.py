"""GET of usage: who held how many GPU-hours, what of it was used, and what it cost.

Rows are whole days (UTC) of attempts, so a question is about days. Money is rounded once, from
sums of amount times price: prices of one item are summed by price first.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer, bad_parameter
from services.gateway.app.existing import check_names
from services.gateway.http.route import Parameter
from services.gateway.usage.usage_sums import EPOCH, OWN, date_of, sums_by
from shared.core.quota.cost import DAY_MS

DAYS_MAX: Final = 400
BY: Final = Parameter(
    name="by", choices=("", *OWN), text=f"What is summed up: {', '.join(OWN)}; team if not said."
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


async def get_usage(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """The sums of some days."""
    by = call.query.get("by") or "team"
    days = days_of(call, gateway.clock.now_ms())
    team, limit = call.team_filter(), call.limit()
    report = await sums_by(gateway.reader, by, days, team, limit=limit, label=_label(call, by))
    if not report.items:
        await check_names(gateway, call, team=call.query.get("team", ""))
    return answer(report)


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
