"""`muster report`: a week of teams, with money, waits and what went wrong."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.output import Column, Format, field, note, show_items, show_value
from muster.cli.session import call
from muster.cli.usage import COST, HELD, UNUSED_COST, USE, USED, day_of, money
from muster.cli.workloads import OutputOption

Json = dict[str, Any]


def report(
    week: Annotated[
        str,
        typer.Option(help="A day (UTC) in it, or 7d (ago); the last whole week if not said."),
    ] = "",
    team: Annotated[
        str,
        typer.Option("--team", "-t", help="Only of this team.", autocompletion=completion.teams),
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Tell what each team held, used and paid in a week, and how its work fared.

    Monday to Sunday (UTC). Waits are from submission to the first start. Evicted is for other
    work, idle is work that did not use its GPUs. Failures and waits are of what was submitted in
    the week. Then the largest savings of each team, and why work failed. A team sees its own.

    Examples:
      muster report

      muster report --week 2026-11-16 -t vision

      muster report -o json > week.json
    """
    found = call(lambda client: client.week(week=day_of(week), team=team))
    if output in {Format.JSON, Format.YAML}:
        show_value(found, output)
        return
    show_items(
        found["teams"], output, COLUMNS, name="team", empty="Nothing was held or submitted."
    )
    if output is not Format.NAME:
        _tell_more(found)


def _tell_more(found: Json) -> None:
    total = found["total"]
    note(f"Week of {found['since']}: {HELD.text(total)} GPU-hours, ${COST.text(total)}.")
    for team in found["teams"]:
        for one in team["savings"]:
            saved = money(one["saved_microdollars"])
            note(f"{team['team']} could save ${saved}: {one['name']} {one['message']}.")
    for one in found["failures"]:
        note(f"{one['count']} failed: {one['reason'] or 'no reason is known'}.")


def _seconds(name: str) -> Column:
    def text(item: Json) -> str:
        waited_ms = item[name]
        return "" if waited_ms is None else f"{waited_ms / 1_000:.0f} s"

    return Column(f"WAIT {name[5:8].upper()}", text, right=True, rank=2)


def _count(name: str, title: str, rank: int) -> Column:
    return Column(title, field(name), right=True, rank=rank)


COLUMNS: Final = (
    Column("TEAM", field("team")),
    HELD,
    USED,
    USE,
    COST,
    Column("BEFORE $", lambda one: money(one["cost_before_microdollars"]), right=True, rank=3),
    UNUSED_COST,
    _count("submitted", "SUBMITTED", 4),
    _seconds("wait_p50_ms"),
    _seconds("wait_p95_ms"),
    _count("failed", "FAILED", 3),
    _count("preempted", "EVICTED", 3),
    _count("idle_released", "IDLE", 4),
)
