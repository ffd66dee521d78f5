"""The commands of `muster` and the one place where errors become exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from muster.cli import (
    admin,
    control,
    eta,
    nodes,
    pods,
    preemptions,
    quota,
    running,
    submission,
    wait,
    why,
    workloads,
)
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

Address and key: --address/--key, MUSTER_ADDRESS/MUSTER_KEY, ~/.config/muster/config.yaml, or a
local system near by (`make up`). Exit codes: docs/cli.md.
"""

app = typer.Typer(
    name="muster",
    help="A GPU scheduler for teams: submit work, see it run, ask why it waits.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001  # typer's form
    """The version that is installed; then nothing else is done."""
    if wanted:
        from importlib.metadata import version

        print(f"muster {version('muster-gpu')}")
        raise typer.Exit


@app.callback()
def common(
    address: Annotated[
        str | None, typer.Option(help="Address of Muster, such as http://127.0.0.1:8080.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="API key (mk_...).")] = None,
    _version: Annotated[  # noqa: FBT002  # typer's form; its callback has shown it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """A GPU scheduler for teams: submit work, see it run, ask why it waits."""
    OPTIONS.address, OPTIONS.key = address, key


app.command("run", context_settings={"allow_interspersed_args": False})(running.run)
app.command("submit")(submission.submit)
app.command("status")(workloads.status)
app.command("wait")(wait.wait)
app.command("queue")(workloads.queue)
app.command("why")(why.why)
app.command("eta")(eta.eta)
app.command("preemptions")(preemptions.preemptions)
app.command("events")(workloads.events)
app.command("logs")(pods.logs)
app.command("exec")(pods.execute)
app.command("cancel")(control.cancel)
app.command("hold")(control.hold)
app.command("release")(control.release)
app.command("reprioritise")(control.reprioritise)
app.command("resize")(control.resize)
app.command("nodes")(nodes.nodes)
app.command("quota")(quota.quota)
admin.app.command("cordon")(nodes.cordon)
admin.app.command("uncordon")(nodes.uncordon)
admin.app.command("drain")(nodes.drain)
admin.app.command("evict")(control.evict)
app.add_typer(admin.app, name="admin")


def run(arguments: list[str] | None = None) -> None:
    """Run one command; always ends in SystemExit."""
    try:
        app(args=arguments, prog_name="muster")
    except (MusterError, UsageError) as error:
        show(error)
        sys.exit(exit_code_of(error))
    except TimeoutError as error:
        print(f"not finished: {str(error) or 'the time is up'}", file=sys.stderr)
        sys.exit(Exit.NOT_FINISHED)
    except BrokenPipeError:  # the reader of our output has had enough, as `head` does
        sys.stderr.close()
        sys.exit(Exit.OK)
