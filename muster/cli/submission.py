"""`muster submit`: send documents, and if asked, stay until they end."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import completion
from muster.cli.documents import read_documents
from muster.cli.durations import seconds_of
from muster.cli.failures import Exit, exit_code_of_workload
from muster.cli.output import Column, Format, field, reason_of, show_items
from muster.cli.sending import Sender, Submitted, keys_of
from muster.cli.session import call
from muster.cli.verdicts import tell_reasons, verdicts_of
from muster.cli.waiting import Waiter
from muster.client import new_key

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
COLUMNS = (
    Column("ID", field("id")),
    Column("NAME", field("name"), rank=1, free=True),
    Column("STATE", field("state")),
    Column("REASON", lambda one: reason_of(one) or "-", rank=2),
    Column("MESSAGE", field("message"), wide=True),
)


def submit(  # noqa: PLR0917  # typer's form
    file: Annotated[
        list[str],
        typer.Option("--file", "-f", help="YAML or JSON, one or many documents; - is stdin."),
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Stay until all have ended.")] = False,  # noqa: FBT002  # typer's form
    watch: Annotated[bool, typer.Option("--watch", help="--wait, and tell each event.")] = False,  # noqa: FBT002  # typer's form
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Judge it, submit nothing.")] = False,  # noqa: FBT002  # typer's form
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="The same key gives the same workload, however often it is sent."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Longest wait, such as 90s, 10m, 2h; then exit with 101.")
    ] = None,
    team: Annotated[
        str,
        typer.Option(
            "--team",
            "-t",
            help="For operators, whose key belongs to no team.",
            autocompletion=completion.teams,
        ),
    ] = "",
    output: Annotated[Format, typer.Option("--output", "-o", help="Format.")] = Format.TABLE,
) -> None:
    """Submit workloads from files; exit code 5 when one is rejected within a second.

    Waiting goes on while Muster is away. Ids are told on stderr as soon as they are accepted, and
    shown at the end whatever ends it; the work goes on without the one who waits.

    Examples:
      muster submit -f train.yaml

      muster submit -f train.yaml --wait --timeout 2h && echo trained

      cat jobs/*.json | muster submit -f - -o name --idempotency-key nightly-17
    """
    documents = read_documents(file)
    seconds = seconds_of(timeout, "--timeout") if timeout else None
    key = new_key() if idempotency_key is None else idempotency_key
    keys = keys_of(documents, key)
    submitted = Submitted()

    async def work(client: AsyncClient) -> None:
        sender = Sender(client, submitted, dry_run=dry_run, team=team, telling=wait or watch)
        await sender.send(documents, keys, key)
        if not submitted.answers or dry_run:
            return
        if wait or watch:
            await _follow(client, submitted, seconds, watch=watch)
            tell_reasons(submitted.answers)
        else:
            await _judge(client, submitted)

    try:
        call(work)
    finally:  # whatever ends it: what was accepted is shown, or it would be submitted twice
        if submitted.answers:
            show_items(submitted.answers, output, COLUMNS, name="id")
    sys.exit(submitted.worst)


async def _judge(client: AsyncClient, submitted: Submitted) -> None:
    """Stay until admission has judged all; what it rejected is told, with the reason."""
    submitted.answers = await verdicts_of(client, submitted.answers)
    rejected = [one for one in submitted.answers if one.get("state") == "rejected"]
    tell_reasons(rejected)
    if rejected:
        submitted.worst = max(submitted.worst, Exit.REJECTED)


async def _follow(
    client: AsyncClient, submitted: Submitted, seconds: float | None, *, watch: bool
) -> None:
    """Stay until all have ended, or the time is up; each end counts for the exit code."""
    waiter = Waiter(client, submitted.answers)
    try:
        await waiter.until_ended(seconds, watch=watch)
    finally:
        submitted.answers = [waiter.workloads[str(one["id"])] for one in submitted.answers]
    codes = [exit_code_of_workload(workload) for workload in submitted.answers]
    submitted.worst = max(submitted.worst, *codes)
