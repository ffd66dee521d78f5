"""`muster submit`: send documents, and if asked, stay until they end."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.documents import read_documents
from muster.cli.durations import seconds_of
from muster.cli.failures import Exit, exit_code_of_workload
from muster.cli.output import Column, Format, field, note, show_items
from muster.cli.sending import Sender, keys_of
from muster.cli.session import call

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
COLUMNS = (
    Column("ID", field("id")),
    Column("NAME", field("name")),
    Column("STATE", field("state")),
    Column("REASON", field("reason", "-")),
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
        str, typer.Option("--team", "-t", help="For operators, whose key belongs to no team.")
    ] = "",
    output: Annotated[Format, typer.Option("--output", "-o", help="Format.")] = Format.TABLE,
) -> None:
    """Submit workloads from files.

    Examples:
      muster submit -f train.yaml

      muster submit -f train.yaml --wait --timeout 2h && echo trained

      cat jobs/*.json | muster submit -f - -o name --idempotency-key nightly-17
    """
    documents = read_documents(file)
    seconds = seconds_of(timeout, "--timeout") if timeout else None
    keys = keys_of(documents, idempotency_key)
    answers, worst = call(
        lambda client: _submit_all(client, documents, keys, dry_run=dry_run, team=team)
    )
    if answers and (wait or watch) and not dry_run:
        answers, ended = call(lambda client: _follow(client, answers, seconds, watch=watch))
        worst = worst or ended
    if answers:
        show_items(answers, output, COLUMNS, name="id")
    sys.exit(worst)


async def _submit_all(
    client: AsyncClient, documents: list[Json], keys: list[str], *, dry_run: bool, team: str
) -> tuple[list[Json], Exit]:
    sender = Sender(client, dry_run=dry_run, team=team)
    await sender.send(documents, keys)
    return sender.answers, sender.worst


async def _follow(
    client: AsyncClient, answers: list[Json], seconds: float | None, *, watch: bool
) -> tuple[list[Json], Exit]:
    """Stay until all have ended, or the time is up; the worst end gives the exit code."""
    waits = [_follow_one(client, answer["id"], seconds, watch=watch) for answer in answers]
    workloads = await asyncio.gather(*waits)
    codes = [exit_code_of_workload(workload) for workload in workloads]
    if Exit.NOT_FINISHED in codes:
        note(f"{codes.count(Exit.NOT_FINISHED)} of {len(codes)} have not ended in time.")
    return list(workloads), max(codes, key=lambda code: (code != Exit.OK, code))


async def _follow_one(
    client: AsyncClient, workload_id: str, seconds: float | None, *, watch: bool
) -> Json:
    teller = asyncio.create_task(_tell(client, workload_id)) if watch else None
    try:
        return await client.wait(workload_id, timeout_seconds=seconds)
    except TimeoutError:
        return await client.get(workload_id)
    finally:
        if teller is not None:
            await asyncio.sleep(0.2)  # the last event may come just behind the last state
            teller.cancel()
            await asyncio.gather(teller, return_exceptions=True)


async def _tell(client: AsyncClient, workload_id: str) -> None:
    from muster.cli.workloads import event_line

    async for event in client.watch(workload_id, after="0"):
        note(event_line(event))
