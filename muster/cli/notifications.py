"""`muster notifications`, and the test of a destination by `muster admin notifications test`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.failures import Exit
from muster.cli.output import Column, Format, field, local_time, note, show_items
from muster.cli.session import call
from muster.cli.workloads import OutputOption

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
POLL_SECONDS: Final = 0.3

app = typer.Typer(
    help="Try destinations of notifications.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def admin_notifications() -> None:
    """A group of commands, though it has only one."""


def notifications(
    team: Annotated[
        str,
        typer.Option("--team", "-t", help="Only of this team.", autocompletion=completion.teams),
    ] = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """List destinations of notifications: whether they take what they are sent, and what waits.

    STATE is ok, failing (since when, and the last problem), or dead: failing for longer than
    notices are kept. GIVEN UP counts notices that were not delivered and never will be.

    Examples:
      muster notifications

      muster notifications -o json
    """
    found = call(lambda client: client.destinations(team=team))
    show_items(found, output, COLUMNS, name="name", empty="There are no destinations.")


@app.command("test")
def try_out(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of the document of kind Notification.",
            autocompletion=completion.destinations,
        ),
    ],
    seconds: Annotated[float, typer.Option("--timeout", min=1, help="Wait so long.")] = 15.0,
    output: OutputOption = Format.TABLE,
) -> None:
    """Send a test to a destination at once, and say whether it was taken.

    It goes behind what waits there already. Exit code 1 when it is not taken, 101 when that is not
    known in time.

    Example: muster admin notifications test vision-chat
    """
    found = call(lambda client: _tried(client, name, seconds))
    if found is None:
        note(f"{name}: no answer within {seconds:g} s; see muster notifications")
        sys.exit(Exit.NOT_FINISHED)
    show_items([found], output, COLUMNS, name="name")
    if found["failing_since_ms"]:
        note(f"{name}: not taken: {found['problem']}")
        sys.exit(Exit.FAILURE)


async def _tried(client: AsyncClient, name: str, seconds: float) -> Json | None:
    """How the destination stands after the test; None: it is not known in time."""
    asked_ms = (await client.try_destination(name))["at_ms"]
    deadline = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(POLL_SECONDS)
        for one in await client.destinations():
            if one["name"] == name and one["at_ms"] >= asked_ms:
                return one
    return None


def _delivered(one: Json) -> str:
    return local_time(one["delivered_at_ms"]) if one["delivered_at_ms"] else ""


def _since(one: Json) -> str:
    return local_time(one["failing_since_ms"]) if one["failing_since_ms"] else ""


COLUMNS: Final = (
    Column("NAME", field("name")),
    Column("TEAM", field("team")),
    Column("STATE", field("state")),
    Column("WAITING", field("waiting"), right=True),
    Column("GIVEN UP", field("dropped"), right=True),
    Column("DELIVERED", _delivered),
    Column("FAILING SINCE", _since),
    Column("PROBLEM", field("problem")),
)
