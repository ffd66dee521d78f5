"""`muster rightsize`: which work would have done with less, and what that would have saved."""

from __future__ import annotations

import csv
import sys
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.output import Column, Format, field, note, show_items, show_value
from muster.cli.session import call
from muster.cli.usage import day_of, money
from muster.cli.usage_cells import harmless, micro, microhours

Json = dict[str, Any]
HOUR_MS: Final = 3_600_000


class RightsizeFormat(StrEnum):
    """`-o`: what is written."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    CSV = "csv"


def rightsize(
    team: Annotated[
        str,
        typer.Option("--team", "-t", help="Only of this team.", autocompletion=completion.teams),
    ] = "",
    since: Annotated[
        str, typer.Option(help="30d (ago), or a day (UTC): from the Monday before it.")
    ] = "30d",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many, the largest.")] = 1000,
    output: Annotated[
        RightsizeFormat,
        typer.Option("--output", "-o", help="table, wide, json, yaml, name or csv."),
    ] = RightsizeFormat.TABLE,
) -> None:
    """Name work that would have done with less: fewer GPUs, a MIG profile, or a share.

    Work is alike that has one team, kind, image and name without its counter, and holds as much.
    It is told where it uses less than 40 % of what it holds, in at least 20 run hours of which at
    most 20 % is unmeasured. Enough is 1.15 times its memory (99 % of the time) and 1.25 times its
    compute (95 %). A team sees its own.

    Examples:
      muster rightsize -t vision

      muster rightsize --since 2026-11-01 -o csv > savings.csv
    """
    found = call(lambda client: client.rightsize(since=day_of(since), team=team, limit=limit))
    if output is RightsizeFormat.CSV:
        _show_csv(found["items"])
    elif output in {RightsizeFormat.JSON, RightsizeFormat.YAML}:
        show_value(found, Format(output))
    else:
        empty = "No work is known that would have done with less."
        show_items(found["items"], Format(output), COLUMNS, empty=empty)
        _note_silence(found)
    if found["left_out"]:
        note(f"{found['left_out']} more are left out: --limit takes up to 1000.")


def _note_silence(found: Json) -> None:
    note(
        f"Nothing is said of {found['busy']} that use enough, {found['short']} that ran too"
        f" shortly and {found['unmeasured']} that are not measured enough."
    )


def _show_csv(items: list[Json]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    texts = ("team", "kind", "name", "image", "flavor")
    numbers = ("gpus", "milli")
    evidence = ("use_percent", "unmeasured_percent", "run_hours", "busy_percent", "memory_mib")
    proposal = ("form", "new_gpus", "new_milli", "profile")
    saved = ("saved_gpu_hours", "saved_dollars")
    writer.writerow([*texts, *numbers, "verdict", *evidence, *proposal, *saved])
    for item in items:
        cells = [harmless(item[name]) for name in texts]
        cells += [item[name] for name in (*numbers, "verdict", *evidence)]
        cells += [harmless(str(item[name] or "")) for name in proposal]
        cells += [micro(microhours(item["saved_gpu_ms"])), micro(item["saved_microdollars"])]
        writer.writerow(cells)


def _held(item: Json) -> str:
    return f"{item['gpus']} x {item['milli']}" if item["milli"] < 1_000 else str(item["gpus"])  # noqa: PLR2004  # a whole GPU


def _enough(item: Json) -> str:
    many = f"{item['new_gpus']} x " if item["gpus"] > 1 else ""
    match item["form"]:
        case "fewer-gpus":
            return str(item["new_gpus"])
        case "mig-profile":
            return f"{many}{item['profile']}"
        case "share":
            return f"{many}{item['new_milli']} milli"
        case _:
            return f"none ({item['verdict']})"


def _memory(item: Json) -> str:
    return f"{item['memory_mib'] / 1_024:.1f}"


def _saved_hours(item: Json) -> str:
    return f"{item['saved_gpu_ms'] / HOUR_MS:.2f}"


def _saved_money(item: Json) -> str:
    return money(item["saved_microdollars"])


def _percent(name: str) -> Any:  # noqa: ANN401  # a getter of a column
    return lambda item: f"{item[name]} %"


COLUMNS: Final = (
    Column("NAME", field("name"), free=True),
    Column("TEAM", field("team"), rank=1),
    Column("KIND", field("kind"), rank=5),
    Column("FLAVOR", field("flavor"), rank=3),
    Column("GPUS", _held, right=True),
    Column("USE", _percent("use_percent"), right=True),
    Column("P95", _percent("busy_percent"), right=True, rank=2),
    Column("P99 GIB", _memory, right=True, rank=2),
    Column("HOURS", field("run_hours"), right=True, rank=4),
    Column("ENOUGH", _enough),
    Column("SAVED GPU-H", _saved_hours, right=True),
    Column("SAVED $", _saved_money, right=True, rank=1),
)
