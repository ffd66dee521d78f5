"""Sums of GPU-hours and money by what a caller asks for, each in one or two passes over the days.

A statement names its days as numbers, because a plan for any days expects few rows and sorts them
on disk. Workloads are many: the largest are found first, in the order of an index, and only these
are summed up by price; the total needs no groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from services.gateway.usage.usage_views import UsageItem, UsageReport, UsageSum
from shared.core.model.units import GPU_MILLI
from shared.core.quota.cost import rounded
from shared.ports.reader import Reader

EPOCH: Final = date(1970, 1, 1)
OWN: Final = {
    "team": ("team", "''", "''"),
    "queue": ("queue", "min(team)", "''"),
    "namespace": ("namespace", "''", "''"),
    "flavor": ("flavor", "''", "''"),
    "purchase": ("purchase", "''", "''"),
    "label": ("coalesce(labels ->> $1, '')", "''", "''"),
    "workload": ("workload_id", "min(team)", "min(name)"),
    "day": ("day::text", "''", "''"),
}
"""Column, team and name of an item."""
_WHOLE: Final = ("''", "''", "''")
Rows = Sequence[Mapping[str, Any]]
_BY_PRICE: Final = (
    "SELECT {item} AS item, {team} AS team, {name} AS name,"
    " price_microdollars_per_gpu_hour AS price, sum(used) AS used, sum(unused) AS unused,"
    " sum(unmeasured) AS unmeasured FROM gateway.gpu_usage WHERE {rows}"
    " GROUP BY 1, price_microdollars_per_gpu_hour"
)
_PRICED: Final = (
    "sum(used) AS used, sum(unused) AS unused, sum(unmeasured) AS unmeasured,"
    " sum((used + unused + unmeasured) * price) AS priced, sum(unused * price) AS unused_priced"
)
_ALL: Final = (
    "count(*) OVER () AS items, sum(used) OVER () AS all_used,"
    " sum(unused) OVER () AS all_unused, sum(unmeasured) OVER () AS all_unmeasured,"
    " sum(priced) OVER () AS all_priced, sum(unused_priced) OVER () AS all_unused_priced"
)
_SUMS: Final = (
    f"SELECT g.*, {_ALL} FROM (SELECT item, min(team) AS team, min(name) AS name, {_PRICED}"  # noqa: S608  # constants
    f" FROM ({_BY_PRICE}) p GROUP BY item) g ORDER BY {{order}}, item LIMIT {{limit}}"
)
_TOTAL: Final = f"SELECT {_PRICED} FROM ({_BY_PRICE}) p"  # noqa: S608  # constants
_LARGEST: Final = "used + unused + unmeasured DESC"
# Which are the largest is told well enough by a float, at half the cost of an exact sum.
_WORKLOADS: Final = (
    "SELECT workload_id FROM gateway.gpu_usage WHERE {rows} GROUP BY workload_id"
    " ORDER BY sum((used + unused + unmeasured)::float8) DESC, workload_id LIMIT {limit}"
)
_COUNT: Final = (
    "SELECT count(*) AS items FROM"
    " (SELECT FROM gateway.gpu_usage WHERE {rows} GROUP BY workload_id) w"
)


class _SumQuestion(NamedTuple):
    """What is summed up, over which rows."""

    by: str
    """Of `OWN`; empty: nothing is told apart."""
    rows: str
    """Condition of SQL; what users wrote is only in `arguments`."""
    arguments: tuple[Any, ...]
    limit: int

    async def ask(self, reader: Reader, sql: str, **more: str) -> Rows:
        """The rows of one statement."""
        item, team, name = OWN.get(self.by, _WHOLE)
        parts = {"item": item, "team": team, "name": name, "rows": self.rows, **more}
        return await reader.fetch(sql.format(limit=self.limit, **parts), *self.arguments)


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
    arguments = (*label, *((team,) if team is not None else ()))
    since, until = days
    rows = f"day >= {number_of(since)} AND day < {number_of(until)}"
    rows += f" AND team = ${len(arguments)}" if team is not None else ""
    question = _SumQuestion(by, rows, arguments, limit)
    if by == "workload":
        items, count, total = await _workloads(reader, question)
    else:
        items = await question.ask(reader, _SUMS, order="item" if by == "day" else _LARGEST)
        count = items[0]["items"] if items else 0
        total = sums_of(items[0], "all_") if items else sums_of({})
    return UsageReport(
        by=by,
        since=since.isoformat(),
        until=until.isoformat(),
        items=tuple(_item(by, row) for row in items),
        left_out=max(count - limit, 0),
        total=UsageSum(**total),
    )


async def _workloads(reader: Reader, question: _SumQuestion) -> tuple[Rows, int, dict[str, int]]:
    """The largest workloads, how many there are, and the sum of all; on two connections."""
    items, (count, total) = await asyncio.gather(
        _largest(reader, question), _whole(reader, question)
    )
    return items, count, total


async def _largest(reader: Reader, question: _SumQuestion) -> Rows:
    found = await question.ask(reader, _WORKLOADS)
    chosen = question._replace(
        rows=f"{question.rows} AND workload_id = ANY(${len(question.arguments) + 1}::text[])",
        arguments=(*question.arguments, [row["workload_id"] for row in found]),
    )
    return await chosen.ask(reader, _SUMS, order=_LARGEST)


async def _whole(reader: Reader, question: _SumQuestion) -> tuple[int, dict[str, int]]:
    (counted,) = await question.ask(reader, _COUNT)
    (total,) = await question._replace(by="").ask(reader, _TOTAL)
    return counted["items"], sums_of(total)


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
        return int(row.get(prefix + name) or 0)

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
