"""The options of `muster run`: one for each field of a submission that it can fill."""

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli import completion

Words = list[str] | None
Command = Annotated[
    Words, typer.Argument(metavar="[--] COMMAND [ARGUMENTS]...", help="What to run.")
]
Gpus = Annotated[int, typer.Option(min=0, help="Whole GPUs on each node.")]
Nodes = Annotated[
    int, typer.Option(min=1, help="Nodes; all start together or none, a pod on each.")
]
Cpus = Annotated[
    float | None, typer.Option(min=0, help="CPUs on each node; else the team's default.")
]
MemoryGib = Annotated[
    int | None, typer.Option(min=0, help="GiB of memory on each node; else the default.")
]
Image = Annotated[str, typer.Option(help="Container image; else the cluster's default.")]
Env = Annotated[
    Words, typer.Option("--env", "-e", help="KEY=VALUE, or KEY as it is set here; several.")
]
Secret = Annotated[
    Words, typer.Option(help="A Secret of the team whose keys become variables; several.")
]
Volume = Annotated[
    Words, typer.Option(help="A claim of the team: CLAIM, CLAIM:PATH[:ro]; several.")
]
Name = Annotated[str, typer.Option("--name", "-n", help="Else made of the command.")]
Kind = Annotated[
    str,
    typer.Option(
        help="training, inference, batch-inference or notebook.", autocompletion=completion.kinds
    ),
]
Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        "-q",
        help="Queue; else the team's default.",
        autocompletion=completion.queues,
    ),
]
PriorityClass = Annotated[
    str,
    typer.Option(
        "--priority-class",
        help="Else the default of the kind.",
        autocompletion=completion.priority_classes,
    ),
]
Product = Annotated[
    Words, typer.Option(help="Acceptable GPU, such as H100 or A100-80GB; several.")
]
Pool = Annotated[str, typer.Option(help="Only nodes of this pool.")]
MaxDuration = Annotated[
    str, typer.Option(help="It is stopped, and has failed, after such as 90s, 10m, 2h.")
]
Detach = Annotated[
    bool, typer.Option("--detach", "-d", help="Print the id and end; the work goes on.")
]
Timeout = Annotated[
    str, typer.Option(help="Longest stay; then exit with 101, and the work goes on.")
]
IdempotencyKey = Annotated[
    str | None, typer.Option(help="The same key gives the same workload, never a second one.")
]
Team = Annotated[
    str,
    typer.Option(
        "--team",
        "-t",
        help="For operators, whose key belongs to no team.",
        autocompletion=completion.teams,
    ),
]
