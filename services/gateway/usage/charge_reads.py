"""GET of charges: what each workload held in each day at each price, page by page.

A bill is made of them (FOCUS): nothing is left out, and the order is that of the table's key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer, bad_parameter
from services.gateway.app.existing import check_names
from services.gateway.usage.usage_reads import days_of
from services.gateway.usage.usage_sums import date_of, number_of, sums_of
from services.gateway.usage.usage_views import UsageCharge, UsageChargePage
from services.gateway.workloads.workload_queries import cursor_at, place_of
from shared.core.quota.prices import Purchase

_labels: Final = msgspec.json.Decoder(dict[str, str])
_KEY: Final = "day, workload_id, flavor, purchase, price_microdollars_per_gpu_hour"
_PAGE: Final = (
    f"SELECT {_KEY}, min(team) AS team, min(queue) AS queue, min(namespace) AS namespace,"  # noqa: S608  # a constant
    " max(name) AS name, max(labels::text) AS labels, count(DISTINCT attempt) AS attempts,"
    " sum(used) AS used, sum(unused) AS unused, sum(unmeasured) AS unmeasured,"
    " sum(used + unused + unmeasured) * price_microdollars_per_gpu_hour AS priced,"
    " sum(unused) * price_microdollars_per_gpu_hour AS unused_priced FROM gateway.gpu_usage"
    " WHERE day >= $1 AND day < $2 AND ($3::text IS NULL OR team = $3)"
    " AND (day, workload_id) >= ($4, $5)"
    f" AND ({_KEY}) > ($4, $5, $6, $7, $8) GROUP BY {_KEY} ORDER BY {_KEY} LIMIT $9"
)
_CURSOR_PARTS: Final = 4


async def list_charges(gateway: GatewayContext, call: RequestContext) -> web.Response:
    """A page of what was held by day, workload, flavor, purchase and price."""
    team, limit = call.team_filter(), call.limit()
    since, until = days_of(call, gateway.clock.now_ms())
    behind = _behind(call.query.get("cursor", ""))
    asked = number_of(since), number_of(until), team, *behind, limit + 1
    rows = await gateway.reader.fetch(_PAGE, *asked)
    if not rows:
        await check_names(gateway, call, team=call.query.get("team", ""))
    following = _cursor(rows[limit - 1]) if len(rows) > limit else ""
    items = tuple(_charge(row) for row in rows[:limit])
    return answer(UsageChargePage(items=items, next_cursor=following))


def _behind(cursor: str) -> tuple[int, str, str, str, int]:
    """The key of the last charge of the page before."""
    if not cursor:
        return 0, "", "", "", 0
    day, rest = place_of(cursor)
    parts = rest.split("/")
    if len(parts) != _CURSOR_PARTS or not parts[-1].isdigit() or day >= 1 << 31:
        bad_parameter("cursor", cursor, "must be the next_cursor of the page before")
    workload_id, flavor, purchase, price = parts
    return day, workload_id, flavor, purchase, min(int(price), (1 << 63) - 1)


def _cursor(row: Mapping[str, Any]) -> str:
    key = ("workload_id", "flavor", "purchase", "price_microdollars_per_gpu_hour")
    return cursor_at(row["day"], "/".join(str(row[name]) for name in key))


def _charge(row: Mapping[str, Any]) -> UsageCharge:
    return UsageCharge(
        day=date_of(row["day"]).isoformat(),
        workload_id=row["workload_id"],
        workload_name=row["name"],
        team=row["team"],
        queue=row["queue"],
        namespace=row["namespace"],
        flavor=row["flavor"],
        purchase=Purchase(row["purchase"]),
        price_microdollars_per_gpu_hour=row["price_microdollars_per_gpu_hour"],
        attempts=row["attempts"],
        labels=_labels.decode(row["labels"]),
        **sums_of(row),
    )
