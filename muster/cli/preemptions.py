"""`muster preemptions`: victims, preemptor, rule, and what it cost."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.durations import moment_of
from muster.cli.output import Column, Format, field, local_time, show_items
from muster.cli.session import call, now_ms
from muster.cli.workloads import OutputOption

Json = dict[str, Any]
MS_PER_HOUR: Final = 3_600_000


def preemptions(
    team: Annotated[
        str,
        typer.Option("--team", "-t", help="Only of this team.", autocompletion=completion.teams),
    ] = "",
    since: Annotated[str, typer.Option(help="7d (ago), or a time such as 2026-11-21T14:05.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 100,
    output: OutputOption = Format.TABLE,
) -> None:
    """List preemptions: for whom, by which rule, who went, what it cost.

    Rule `idle` is work that did not use its GPUs: it went for nobody, and its owner releases it.
    Of the victims, those that are MOVED go on elsewhere at once. FOR w7q +6: there was room for
    six more of its queue.

    A team sees those for its work and those of its work.

    Examples:
      muster preemptions --since 7d

      muster preemptions -t vision -o json
    """
    since_ms = str(moment_of(since, now_ms(), option="--since")) if since else ""
    found = call(lambda client: client.preemptions(team=team, since=since_ms, limit=limit))
    show_items(found, output, COLUMNS, name="plan_id", empty="Nobody was preempted.")


def _time(one: Json) -> str:
    return local_time(one["at_ms"])


def _preemptors(one: Json) -> str:
    more = f" +{one['followers']}" if one["followers"] else ""
    return f"{one['workload_id']}{more}" or "nobody"


def _alternatives(one: Json) -> str:
    return "; ".join(
        f"{other['victims_count']} victims, {_hours(other['lost_gpu_ms'])} GPU-h: {other['why']}"
        for other in one["alternatives"]
    )


def _hours(gpu_ms: int) -> str:
    return f"{gpu_ms / MS_PER_HOUR:.2f}"


COLUMNS: Final = (
    Column("TIME", _time),
    Column("FOR", _preemptors),
    Column("TEAM", field("team"), rank=3),
    Column("RULE", field("rule"), rank=1),
    Column("FLAVOR", field("flavor"), wide=True),
    Column("VICTIMS", lambda one: str(one["victims_count"]), right=True),
    Column("MOVED", lambda one: str(one["moved_count"]), right=True, rank=4),
    Column("LOST GPU-H", lambda one: _hours(one["lost_gpu_ms"]), right=True, rank=2),
    Column("OUTCOME", field("outcome")),
    Column("WHO", lambda one: ",".join(two["workload_id"] for two in one["victims"]), wide=True),
    Column("REFUSED INSTEAD", _alternatives, wide=True),
    Column("PLAN", field("plan_id"), wide=True),
)
