"""`muster logs`: passes on what a pod has written, as it comes."""

from __future__ import annotations

import asyncio
import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.durations import seconds_of
from muster.cli.failures import UsageError
from muster.cli.output import note
from muster.cli.session import call
from muster.cli.workloads import WorkloadArgument, resolve

if TYPE_CHECKING:
    from muster.client import AsyncClient


def logs(
    workload: WorkloadArgument,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for its start; go on until it ends.")
    ] = False,
    rank: Annotated[
        int, typer.Option("--rank", "--pod", "-r", min=0, help="Of the pod with this rank.")
    ] = 0,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the attempt before, while it is there.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option("--tail", min=0, help="Only so many lines at the end.")
    ] = None,
    since: Annotated[str, typer.Option(help="Only of the last such as 90s, 10m, 2h.")] = "",
) -> None:
    """Show what a workload has written, of one of its pods.

    Nobody needs access to the cluster: Muster reads it for those who may read the workload.

    Examples:
      muster logs train-7 -f

      muster logs train-7 --rank 3 --tail 100
    """
    seconds = math.ceil(seconds_of(since, "--since")) if since else None
    if seconds == 0:
        raise UsageError(f"--since must be more than nothing (given: {since})")

    async def read(client: AsyncClient) -> None:
        pieces = client.logs(
            await resolve(client, workload),
            rank=rank,
            follow=follow,
            previous=previous,
            tail=tail,
            since_seconds=seconds,
        )
        async for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()

    try:
        call(read)
    except (KeyboardInterrupt, asyncio.CancelledError):
        note("")
