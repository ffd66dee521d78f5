"""`muster usage`: who held how many GPU-hours, what of it was used, and what it cost."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from muster.cli import completion, focus
from muster.cli.durations import moment_of
from muster.cli.output import Column, Format, field, note, show_items, show_value
from muster.cli.session import call, now_ms
from muster.cli.usage_cells import harmless, micro, microhours
from muster.client import AsyncClient

Json = dict[str, Any]
DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
PARTS: Final = ("allocated", "used", "unused", "unmeasured")


class UsageFormat(StrEnum):
    """`-o`: what is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    CSV = "csv"
    FOCUS = "focus"


def usage(  # noqa: PLR0917  # typer's form
    by: Annotated[
        str,
        typer.Option(help="team, queue, namespace, flavor, purchase, workload, day or label:KEY."),
    ] = "team",
    since: Annotated[str, typer.Option(help="30d (ago), or a day (UTC) such as 2026-11-01.")] = (
        "30d"
    ),
    until: Annotated[
        str, typer.Option(help="The day after the last (UTC); tomorrow if not said.")
    ] = "",
    team: Annotated[
        str,
        typer.Option("--team", "-t", help="Only of this team.", autocompletion=completion.teams),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many, the largest.")] = 1000,
    output: Annotated[
        UsageFormat,
        typer.Option("--output", "-o", help="table, wide, json, yaml, name, csv or focus."),
    ] = UsageFormat.TABLE,
) -> None:
    """Sum up GPU-hours: held, and of those used, unused and unmeasured; and what they cost.

    Used is what is held times its use. Unmeasured is held while no report of use counted. The
    three are all that was held. Of what runs, the last minutes may be missing. Days are whole
    (UTC). A team sees its own.

    With -o focus all is told that was held, as CSV with the columns of FOCUS 1.2: a row for each
    workload, flavor, purchase, price and day. --by and --limit do not matter there.

    Examples:
      muster usage --by team --since 30d

      muster usage --by label:project --since 2026-11-01

      muster usage -o focus --since 2026-11-01 --until 2026-12-01 > november.csv

      muster usage --by workload -t vision --since 2026-11-01 --until 2026-12-01

      muster usage --by day -o csv > days.csv
    """
    days = {"since": day_of(since), "until": until, "team": team}
    if output is UsageFormat.FOCUS:
        call(lambda client: focus.write(client.charges(**days), _site(client), sys.stdout))
        return
    kind, _, label = by.partition(":")
    found = call(lambda client: client.usage(by=kind, label=label, limit=limit, **days))
    if output is UsageFormat.CSV:
        _show_csv(found["items"])
    elif output in {UsageFormat.JSON, UsageFormat.YAML}:
        show_value(found, Format(output))
    else:
        _show_table(found, Format(output))
    if found["left_out"]:
        note(f"{found['left_out']} more are left out: --limit takes up to 1000.")


def _site(client: AsyncClient) -> str:
    """What bills: the address of Muster, without its scheme."""
    return client.address.partition("://")[2].strip("/")


def day_of(text: str) -> str:
    """A day as it is written, or that of a time ago."""
    if not text or DAY.fullmatch(text):
        return text
    moment = moment_of(text, now_ms(), option="--since") / 1_000
    return datetime.fromtimestamp(moment, UTC).date().isoformat()


def _show_table(found: Json, form: Format) -> None:
    items = found["items"]
    if items and form is not Format.NAME:
        items = [*items, {"name": "TOTAL", "team": "", "workload_name": "", **found["total"]}]
    by = str(found["by"])
    columns = (Column(by.upper(), field("name")), *OWNERS.get(by, ()), *COLUMNS)
    show_items(items, form, columns, empty="No GPU was held in these days.")


def _show_csv(items: Sequence[Json]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    hours = [f"{part}_gpu_hours" for part in PARTS]
    writer.writerow(["name", "team", "workload_name", *hours, "cost_dollars", "unused_dollars"])
    for item in items:
        texts = [harmless(item[name]) for name in ("name", "team", "workload_name")]
        amounts = [micro(microhours(item[f"{part}_gpu_ms"])) for part in PARTS]
        money = [micro(item["cost_microdollars"]), micro(item["unused_microdollars"])]
        writer.writerow([*texts, *amounts, *money])


def _hours(part: str) -> Column:
    def text(item: Json) -> str:
        return f"{item[f'{part}_gpu_ms'] / 3_600_000:.2f}"

    title = "GPU-H" if part == "allocated" else part.upper()
    return Column(title, text, right=True, rank=0 if part == "allocated" else 1)


def _percent(item: Json) -> str:
    """Of what was measured."""
    measured = item["used_gpu_ms"] + item["unused_gpu_ms"]
    return f"{100 * item['used_gpu_ms'] // measured} %" if measured else ""


def _money(name: str, title: str, rank: int) -> Column:
    return Column(title, lambda item: money(item[name]), right=True, rank=rank)


def money(microdollars: int) -> str:
    """Dollars, rounded to the cent."""
    cents = (microdollars + 5_000) // 10_000
    return f"{cents // 100}.{cents % 100:02d}"


_TEAM: Final = Column("TEAM", field("team"), rank=4)
OWNERS: Final = {
    "queue": (_TEAM,),
    "workload": (_TEAM, Column("NAME", field("workload_name"), rank=5, free=True)),
}
"""What else names an item, by what is summed up."""
HELD, USED, UNUSED, UNMEASURED = (_hours(part) for part in PARTS)
USE: Final = Column("USE", _percent, right=True, rank=2)
COST: Final = _money("cost_microdollars", "COST $", 0)
UNUSED_COST: Final = _money("unused_microdollars", "UNUSED $", 3)
COLUMNS: Final = (HELD, USED, UNUSED, UNMEASURED, USE, COST, UNUSED_COST)
