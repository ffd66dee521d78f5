"""`muster wait`: stays until workloads have ended, or are in a state."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from muster.cli.completion import states, workloads
from muster.cli.durations import seconds_of
from muster.cli.failures import Exit, UsageError, exit_code_of_workload
from muster.cli.output import Column, Format, field, reason_of, show_items
from muster.cli.session import call
from muster.cli.verdicts import tell_reasons
from muster.cli.waiting import Waiter
from muster.cli.workloads import OutputOption, resolve

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
STATES: Final = (
    "queued",
    "held",
    "placed",
    "bound",
    "running",
    "succeeded",
    "failed",
    "cancelled",
)
"""What can be waited for; a workload that has ended otherwise is waited for no longer."""
COLUMNS: Final = (
    Column("ID", field("id")),
    Column("NAME", field("name"), rank=1, free=True),
    Column("STATE", field("state")),
    Column("REASON", lambda one: reason_of(one) or "-", rank=2),
)


def wait(
    workload: Annotated[
        list[str],
        typer.Argument(
            help="Ids of workloads, their first characters, or names.", autocompletion=workloads
        ),
    ],
    for_state: Annotated[
        str, typer.Option("--for", help="Until it is so, such as running.", autocompletion=states)
    ] = "",
    timeout: Annotated[
        str, typer.Option(help="Longest wait, such as 90s, 10m, 2h; then exit with 101.")
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Stay until workloads have ended, or are in a state; exit codes as of `submit --wait`.

    Examples:
      muster wait train-7 --timeout 2h && echo trained

      muster wait train-7 --for running --timeout 10m
    """
    if for_state and for_state not in STATES:
        raise UsageError(f"--for must be one of {', '.join(STATES)} (given: {for_state})")
    seconds = seconds_of(timeout, "--timeout") if timeout else None
    waited = call(lambda client: _wait(client, workload, for_state, seconds))
    show_items(waited, output, COLUMNS, name="id")
    reached = [one for one in waited if one["state"] == for_state]
    others = [one for one in waited if one["state"] != for_state]
    tell_reasons(others)
    sys.exit(max([Exit.OK for _ in reached] + [exit_code_of_workload(one) for one in others]))


async def _wait(
    client: AsyncClient, names: list[str], state: str, seconds: float | None
) -> list[Json]:
    """The workloads as they were seen last, in the order of their names."""
    found = [await client.get(await resolve(client, name)) for name in names]
    waiter = Waiter(client, found, until=frozenset({state}) if state else frozenset())
    await waiter.until_ended(seconds, watch=False)
    return list(waiter.workloads.values())
