"""The commands of `muster` and the one place where errors become exit codes.

A command's module is loaded when it is called, or when all are listed: to load all of them takes
longer than most commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from muster.cli.commands import command
from muster.cli.failures import Exit, UsageError, exit_code_of, show
from muster.cli.session import OPTIONS
from muster.errors import MusterError

EXAMPLES = """
Examples:

  muster run --gpus 8 -- python train.py  # says why it waits, ends as it ends

  muster submit -f train.yaml --wait      # exit code 0 when it succeeded, 100 when it failed

  muster queue -t vision -w               # what runs and waits, live

  muster why wabc...                      # why it waits, and what would help

  muster queue -o json | jq .items        # every command speaks json, yaml and name

Address and key: --address/--key, MUSTER_ADDRESS/MUSTER_KEY, a context of a kubeconfig (--context),
~/.config/muster/config.yaml, or a local system near by (`make up`). Exit codes: docs/cli.md.
"""

_COMMANDS: Final = (
    "run",
    "submit",
    "status",
    "wait",
    "queue",
    "why",
    "eta",
    "preemptions",
    "events",
    "logs",
    "exec",
    "cancel",
    "hold",
    "release",
    "reprioritise",
    "resize",
    "nodes",
    "quota",
    "usage",
    "rightsize",
    "report",
    "notifications",
    "whoami",
)
"""In the order in which the help lists them; `admin` is last."""
_SETTINGS: Final[dict[str, dict[str, Any]]] = {"run": {"allow_interspersed_args": False}}
_WITH_VALUE: Final = frozenset(("--address", "--key", "--context"))
PLUGIN: Final = "kubectl-muster"
"""As kubectl looks for its command `muster`."""


class Program:
    """What the user has called: `muster`, or `kubectl muster`, which logs in as kubectl does."""

    def __init__(self) -> None:
        self.is_plugin = Path(sys.argv[0]).stem == PLUGIN

    @property
    def name(self) -> str:
        """As its help and its examples show it."""
        return PLUGIN.replace("-", " ") if self.is_plugin else "muster"


_PROGRAM: Final = Program()


def application(only: str = "") -> typer.Typer:
    """All commands, or the one of this name alone."""
    app = typer.Typer(
        name="muster",
        help="A GPU scheduler for teams: submit work, see it run, ask why it waits.",
        epilog=EXAMPLES.replace("\n  muster ", f"\n  {_PROGRAM.name} "),
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(common)
    for name in _COMMANDS:
        if only in {"", name}:
            app.command(name, context_settings=_SETTINGS.get(name))(command(name))
    if only in {"", "admin"}:
        from muster.cli.admin import app as admin

        app.add_typer(admin, name="admin")
    return app


def _named(arguments: Sequence[str]) -> str:
    """The command that is called; empty where all are wanted: for help, completion, a mistake."""
    if "_MUSTER_COMPLETE" in os.environ:
        return ""
    words = iter(arguments)
    for word in words:
        if word in _WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return word if word in {*_COMMANDS, "admin"} else ""
    return ""


def _show_version(wanted: bool) -> None:  # noqa: FBT001  # typer's form
    """The version that is installed; then nothing else is done."""
    if wanted:
        from importlib.metadata import version

        print(f"muster {version('muster-gpu')}")
        raise typer.Exit


def common(
    address: Annotated[
        str | None, typer.Option(help="Address of Muster, such as http://127.0.0.1:8080.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="API key (mk_...).")] = None,
    context: Annotated[
        str | None,
        typer.Option(help="Context of a kubeconfig: the token of its user is the login."),
    ] = None,
    _version: Annotated[  # noqa: FBT002  # typer's form; its callback has shown it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """A GPU scheduler for teams: submit work, see it run, ask why it waits."""
    OPTIONS.address, OPTIONS.key = address, key
    OPTIONS.context = "" if context is None and _PROGRAM.is_plugin else context


def run(arguments: list[str] | None = None) -> None:
    """Run one command; always ends in SystemExit."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        application(_named(given))(args=given, prog_name=_PROGRAM.name)
    except (MusterError, UsageError) as error:
        show(error)
        sys.exit(exit_code_of(error))
    except TimeoutError as error:
        print(f"not finished: {str(error) or 'the time is up'}", file=sys.stderr)
        sys.exit(Exit.NOT_FINISHED)
    except BrokenPipeError:  # the reader of our output has had enough, as `head` does
        sys.stderr.close()
        sys.exit(Exit.OK)
