"""The `muster-ops` command line: check, replay, dlq."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Annotated

import typer

from operations import configuration

app = typer.Typer(
    name="muster-ops",
    help="For those who run Muster: check its promises, replay traces, re-drive dead letters.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
CANNOT = 2
DatabaseOption = Annotated[str | None, typer.Option("--database", help="PostgreSQL URL.")]
KafkaOption = Annotated[str | None, typer.Option("--kafka", help="host:port of a broker.")]
PrefixOption = Annotated[str | None, typer.Option("--prefix", help="Prefix of the topics.")]
OutputOption = Annotated[str, typer.Option("--output", "-o", help="table or json.")]


@app.callback()
def common() -> None:
    """For those who run Muster: check its promises, replay traces, re-drive dead letters."""


@app.command("check")
def check(  # noqa: PLR0917  # typer's form
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
    output: OutputOption = "table",
    continuous: Annotated[bool, typer.Option(help="Go on until a violation.")] = False,  # noqa: FBT002  # typer's form
    every: Annotated[float, typer.Option(help="Seconds between two readings.")] = 5.0,
    acknowledged: Annotated[
        typer.FileText | None, typer.Option(help="Ids a client holds a 202 for, one per line.")
    ] = None,
) -> None:
    """Check the invariants from outside: exit 0 when all hold, 1 when one is broken.

    Reads PostgreSQL and the Kafka log, shares no code with the services, changes nothing.

    Example: muster-ops check -o json
    """
    from operations.check.log import LogReader
    from operations.check.model import CannotCheck
    from operations.check.runner import gather, judge
    from operations.check.view import as_json, print_table

    found = configuration.find(database, kafka, prefix)
    ledger = frozenset(line.strip() for line in acknowledged or () if line.strip())
    reader = LogReader(bootstrap=found.kafka, prefix=found.prefix)
    while True:
        try:
            results = judge(asyncio.run(gather(found.database, reader, ledger)))
        except CannotCheck as error:
            raise _Failure(str(error)) from error
        show = as_json if output == "json" else print_table
        text = show(results, len(reader.records))
        if text:
            print(text, flush=True)
        if not all(result.ok for result in results):
            raise typer.Exit(1)
        if not continuous:
            return
        time.sleep(every)


class _Failure(Exception):  # noqa: N818  # not an error of the program
    """Ends the command with a message and code 2."""


def main() -> None:
    """Run the command line; exit 2 when nothing can be said."""
    try:
        app(prog_name="muster-ops")
    except (_Failure, configuration.NotConfigured) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(CANNOT)
