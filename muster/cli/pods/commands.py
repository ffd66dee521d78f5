"""`muster exec`: runs a command in a pod, and ends with its exit code."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from muster.cli.failures import Exit
from muster.cli.output import note
from muster.cli.session import call
from muster.cli.workloads import WorkloadArgument, resolve
from muster.errors import Unreachable

if TYPE_CHECKING:
    from muster.client import AsyncClient

EXIT_CODE_MAX: Final = 255


def execute(
    workload: WorkloadArgument,
    command: Annotated[
        list[str], typer.Argument(metavar="[--] COMMAND [ARGUMENTS]...", help="What to run.")
    ],
    *,
    rank: Annotated[
        int, typer.Option("--rank", "--pod", "-r", min=0, help="In the pod with this rank.")
    ] = 0,
) -> None:
    """Run a command in a pod of a workload, without standard input; ends with its exit code.

    Nobody needs access to the cluster. Who ran which command where is noted in the audit.

    Examples:
      muster exec train-7 -- nvidia-smi

      muster exec --rank 3 train-7 -- sh -c 'ls /models | head'
    """

    async def run(client: AsyncClient) -> int:
        pieces = client.execute(await resolve(client, workload), command, rank=rank)
        async for piece in pieces:
            for name, stream in (("stdout", sys.stdout), ("stderr", sys.stderr)):
                if name in piece:
                    stream.buffer.write(base64.b64decode(piece[name]))
                    stream.buffer.flush()
            if "error" in piece:
                note(f"error: the command could not run: {piece['error']}")
                return Exit.FAILURE
            if "exit_code" in piece:
                code = int(piece["exit_code"])
                return code if 0 <= code <= EXIT_CODE_MAX else Exit.FAILURE
        raise Unreachable("the answer broke off before the end of the command")

    sys.exit(call(run))
