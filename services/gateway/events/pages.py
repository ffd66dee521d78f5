"""Pages of recorded events: on from a place, or backwards from the newest.

Both go along the primary key and read no more than a page. The times of events follow their
numbers only roughly, as other services gave them: so a page tells by time what is on it, and that
it is the last one when the oldest `SURE_ROWS` of it are all too old.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from services.gateway.app.context import GatewayContext, RequestContext, answer, bad_parameter
from services.gateway.app.encoding import encoded
from services.gateway.app.event_hub import EVENT_COLUMNS
from services.gateway.http.route import SEQ_MAX
from services.gateway.workloads.workload_reads import raw
from services.gateway.workloads.workload_views import EventView
from shared.core.admission.recorded_reasons import recorded
from shared.events.strict import INTEGER_MAX

Row = Mapping[str, Any]


SURE_ROWS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Events of a team or of a workload; None, None: all of them."""

    team: str | None = None
    workload_id: str | None = None


async def page_of(gateway: GatewayContext, call: RequestContext, which: Which) -> web.Response:
    """The page that the query parameters ask for, the oldest event first."""
    after = call.whole_number("after", 0, 0, SEQ_MAX)
    before = call.whole_number("before", 0, 0, SEQ_MAX)
    since_ms = call.whole_number("since", 0, 0, INTEGER_MAX)
    limit = call.limit()
    next_before = 0
    if before or call.truth("newest"):
        rows, next_before = await _newest(
            gateway, before or SEQ_MAX, after, which, since_ms, limit
        )
    elif since_ms:
        bad_parameter("since", str(since_ms), "goes with newest=true or before")
    else:
        rows = await read_after(gateway, after, which, limit)
    items = await encoded(rows, view_of)
    next_after = rows[-1]["seq"] if rows else after
    return answer({"items": items, "next_after": next_after, "next_before": next_before})


async def _newest(  # noqa: PLR0917  # what a page is of
    gateway: GatewayContext, before: int, after: int, which: Which, since_ms: int, limit: int
) -> tuple[Sequence[Row], int]:
    """Events between `after` and `before` in order, and where those in front of them are."""
    read = await _read(gateway, "seq < $1", "seq DESC", (before, limit + 1), which)
    page = [row for row in read[:limit] if row["seq"] > after]
    ends = len(read) <= limit or read[limit]["seq"] <= after
    too_old = all(row["at_ms"] < since_ms for row in read[:limit][-SURE_ROWS:])
    rows = [row for row in reversed(page) if row["at_ms"] >= since_ms]
    return rows, 0 if ends or too_old else page[-1]["seq"]


async def read_after(
    gateway: GatewayContext, after: int, which: Which, limit: int
) -> Sequence[Row]:
    """Events behind `after`, in order."""
    return await _read(gateway, "seq > $1", "seq", (after, limit), which)


async def _read(
    gateway: GatewayContext, bound: str, order: str, numbers: tuple[int, int], which: Which
) -> Sequence[Row]:
    """Events on one side of the first of `numbers`, as many as the second."""
    conditions = [bound]
    arguments: list[Any] = [*numbers]
    for condition, value in (
        ("team =", which.team),
        ("workload_id =", which.workload_id),
    ):
        if value is not None:
            arguments.append(value)
            conditions.append(f"{condition} ${len(arguments)}")
    return await gateway.reader.fetch(
        f"SELECT {EVENT_COLUMNS} FROM gateway.event WHERE {' AND '.join(conditions)}"  # noqa: S608  # constants; values are bound
        f" ORDER BY {order} LIMIT $2",
        *arguments,
    )


def view_of(row: Row) -> EventView:
    """What is told of one."""
    reason, pod_reason = recorded(row["reason"], row["pod_reason"])
    return EventView(
        id=row["seq"],
        workload_id=row["workload_id"],
        team=row["team"],
        type=row["type"],
        version=row["version"],
        at_ms=row["at_ms"],
        state=row["state"],
        reason=reason,
        message=row["message"],
        pod_reason=pod_reason,
        detail=raw(row["detail"]),
    )
