"""`muster quota`: how much each queue may use, and how much of it is used."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.failures import UsageError
from muster.cli.output import Column, Format, gpus, note, show_items
from muster.cli.session import call
from muster.cli.workloads import OutputOption
from muster.errors import NotFound

Json = dict[str, Any]
UNLIMITED = 2**62
SECONDS_PER_HOUR = 3600
FULL_PERCENT: Final = 100
_NO_QUOTA: Final = {"flavor": "-"}
_OTHER_KIND: Final = {
    "queues": "cohorts are shown with --cohorts",
    "cohorts": "queues are shown without --cohorts",
}
_AT_LIMIT: Final = {
    "spot": "only spot is used",
    "nominal": "nothing is borrowed",
    "stop": "nothing is started",
}


def quota(
    queue: Annotated[
        str,
        typer.Argument(
            help="Only this queue; with --cohorts: cohort.", autocompletion=completion.quotas
        ),
    ] = "",
    team: Annotated[
        str, typer.Option("--team", "-t", help="Only this team.", autocompletion=completion.teams)
    ] = "",
    cohorts: Annotated[bool, typer.Option("--cohorts", help="Cohorts instead.")] = False,  # noqa: FBT002  # typer's form
    output: OutputOption = Format.TABLE,
) -> None:
    """Show quotas: owned, used, borrowed, lent, share and debt that decide the order, the budget.

    SHARE is what a queue holds above its own, of what its cohort owns, by weight. DEBT is what it
    had lately beyond its part, as a share that pays it back in two hours; below 0 that is due to
    it. Who has least of both together goes first. USAGE is use over time in GPU-hours, older use
    counting less. STATE is open, held, draining, or new until its limits are in force. BUDGET is
    what the team has spent of its month, as of a minute ago.

    Examples:
      muster quota -t vision

      muster quota vision -o wide

      muster quota --cohorts
    """
    if cohorts and team:
        raise UsageError("--team does not go with --cohorts: a cohort is nobody's")
    kind, filters = ("cohorts", {}) if cohorts else ("queues", {"team": team})
    listed = call(lambda client: client.listing(kind, **filters))
    found = [one for one in listed if queue in ("", one["name"])]
    if queue and not found:
        raise NotFound(f"There is no {kind[:-1]} {queue!r}; {_OTHER_KIND[kind]}.")
    if output in (Format.JSON, Format.YAML, Format.NAME):
        show_items(found, output, ())
        return
    rows = [
        {"queue": one, "quota": quota_}
        for one in found
        for quota_ in one.get("flavors") or (_NO_QUOTA,)
    ]
    show_items(rows, output, QUOTA_COLUMNS, empty=f"There is no {kind[:-1]} yet.")
    if any(row["quota"] is _NO_QUOTA for row in rows):
        note(f"FLAVOR -: no quota yet; `flavors` of the {kind[:-1]}'s document give one.")


def _cohort(row: Json) -> str:
    """What the queue, or the cohort, is a member of."""
    one = row["queue"]
    return str(one.get("cohort", one.get("parent", "")))


def _amount(key: str, unit: str) -> Any:  # noqa: ANN401  # a function of a row
    """Text of one limit or use of a row; "-" for none, "unlimited" where it is."""

    def text(row: Json) -> str:
        amounts = row["quota"].get(key)
        if amounts is None:
            return "-"
        value = amounts.get(unit, 0)
        if value >= UNLIMITED:
            return "unlimited"
        return gpus(value) if unit != "memory_mib" else f"{value // 1024} GiB"

    return text


def _share(row: Json) -> str:
    """Of what the cohort owns, in percent; a borrower of weight 0 comes last."""
    share = row["queue"].get("share_millionths") or 0
    return "last" if share >= UNLIMITED else f"{share / 10_000:.1f}%"


def _debt(row: Json) -> str:
    """What counts beside the share, in percent; below 0 that is due to the queue."""
    if not row["queue"].get("debt_told_at_ms"):
        return "-"
    return f"{row['queue']['debt_millionths'] / 10_000:.1f}%"


def _usage(row: Json) -> str:
    if not row["queue"].get("usage_half_life_ms"):
        return "-"
    return f"{row['queue']['usage_gpu_seconds'] / SECONDS_PER_HOUR:.1f}"


def _budget(row: Json) -> str:
    budget = row["queue"].get("budget")
    return budget_line(budget) if budget else "-"


def budget_line(budget: Json) -> str:
    """How much of it is spent, and what holds since it is spent whole."""
    parts = []
    if budget["limit_gpu_milli_hours"] is not None:
        spent, limit = budget["spent_gpu_milli_hours"], budget["limit_gpu_milli_hours"]
        parts.append(f"{spent / 1_000:.1f}/{gpus(limit)} GPU-h")
    if budget["limit_microdollars"] is not None:
        spent, limit = budget["spent_microdollars"], budget["limit_microdollars"]
        parts.append(f"${spent / 1_000_000:,.2f}/{limit / 1_000_000:,.2f}")
    if budget["percent"] >= FULL_PERCENT and budget["at_limit"] in _AT_LIMIT:
        parts.append(_AT_LIMIT[budget["at_limit"]])
    whole_ms = budget.get("whole_spent_at_ms")
    if whole_ms is not None and budget["percent"] < FULL_PERCENT:
        parts.append(f"spent by {datetime.fromtimestamp(whole_ms / 1_000, UTC):%m-%d %H:%M} UTC")
    return f"{budget['percent']}% of {budget['month']}: {', '.join(parts)}"


def _state(row: Json) -> str:
    """Whether it takes work in; "new" while quota decides by an older document still."""
    queue = row["queue"]
    if queue.get("draining"):
        return "draining"
    if queue.get("held"):
        return "held"
    return "new" if queue.get("limits_in_force", 0) < queue.get("version", 0) else "open"


QUOTA_COLUMNS = (
    Column("QUEUE", lambda row: str(row["queue"]["name"])),
    Column("TEAM", lambda row: str(row["queue"].get("team", "")), rank=5),
    Column("COHORT", _cohort, rank=4),
    Column("FLAVOR", lambda row: str(row["quota"]["flavor"])),
    Column("GPUS USED", _amount("total_used", "gpu_milli"), right=True),
    Column("GPUS", _amount("total_nominal", "gpu_milli"), right=True),
    Column("BORROWED", _amount("borrowed", "gpu_milli"), right=True, rank=1),
    Column("LENT", _amount("lent", "gpu_milli"), right=True, rank=2),
    Column("FREE", _amount("available", "gpu_milli"), wide=True, right=True),
    Column("MAY BORROW", _amount("borrowing_limit", "gpu_milli"), right=True, rank=3),
    Column("LENDS", _amount("lending_limit", "gpu_milli"), wide=True, right=True),
    Column("WEIGHT", lambda row: str(row["queue"].get("weight", "")), wide=True, right=True),
    Column("STATE", _state),
    Column("SHARE", _share, right=True, rank=6),
    Column("DEBT", _debt, right=True, rank=7),
    Column("USAGE", _usage, right=True, rank=8),
    Column("BUDGET", _budget, rank=9),
    Column("CPU USED", _amount("total_used", "cpu_milli"), wide=True, right=True),
    Column("CPU", _amount("total_nominal", "cpu_milli"), wide=True, right=True),
    Column("MEMORY USED", _amount("total_used", "memory_mib"), wide=True, right=True),
    Column("MEMORY", _amount("total_nominal", "memory_mib"), wide=True, right=True),
)
