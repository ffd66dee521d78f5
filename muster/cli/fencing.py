"""`muster admin nodes fence`: an operator vouches that the machines of lost nodes are off."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from muster.cli.failures import UsageError
from muster.cli.nodes import Nodes, Note, act_on_nodes
from muster.cli.output import Format, note
from muster.cli.workloads import OutputOption

app = typer.Typer(
    help="Say what only an operator can know of nodes.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
YES: Final = "yes"


@app.callback()
def admin_nodes() -> None:
    """A group of commands, though it has only one."""


@app.command("fence")
def fence(
    node: Nodes,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: the machines are off.")] = False,  # noqa: FBT002  # typer's form
    reason: Note = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Say that the machines of lost nodes are off: their pods count as gone, their work goes on.

    Only for nodes that are lost. If such a machine still runs, what ran there runs twice: turn it
    off first, or take its power. The nodes stay closed until `muster admin uncordon`.

    Example: muster admin nodes fence h100-0017 --note "power is cut"
    """
    if not yes:
        _ask(node)
    act_on_nodes("fence", node, output, reason)


def _ask(names: list[str]) -> None:
    """Ask: a fence needs a person who vouches for it."""
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here; --yes says that the machines are off")
    note(
        f"Are these machines off for certain: {', '.join(names)}? What ran there starts elsewhere,"
        " and would run twice."
    )
    if input(f"Type {YES} to fence them: ").strip() != YES:
        raise UsageError("nothing was fenced")
