"""`muster status | queue`: what stands where."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.failures import UsageError
from muster.cli.outage import AWAY, Outage
from muster.cli.output import (
    Column,
    Format,
    age,
    field,
    gpus,
    inline,
    local_time,
    note,
    reason_of,
    show_items,
    show_value,
)
from muster.cli.pod_lines import PODS_SHOWN, lines_of_pods
from muster.cli.session import call, now_ms
from muster.cli.tables import printable
from muster.errors import NotFound

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
ID: Final = re.compile(r"w[a-z2-7]{26}")
ID_BEGIN: Final = re.compile(r"w[a-z2-7]{3,25}")
"""As few characters of an id as can be meant for one."""
LIVE: Final = "received,queued,held,placed,bound,running,evicting,cancelling"
WATCH_SECONDS: Final = 2.0
LIMIT: Final = 1000
NAMED: Final = 20
"""So many of one name are looked at: they are listed when it is not clear which is meant."""
LONG: Final = frozenset({"spec", "placement"})

WorkloadArgument = Annotated[
    str,
    typer.Argument(
        help="Id of a workload, its first characters, or its name.",
        autocompletion=completion.workloads,
    ),
]
OutputOption = Annotated[
    Format, typer.Option("--output", "-o", help="table, wide, json, yaml or name.")
]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Go on until interrupted.")]


async def resolve(client: AsyncClient, text: str) -> str:
    """The id of a workload given by id, by name, or by the first characters of its id.

    Of several of one name it is the one that has not ended. A name goes before a part of an id.

    Raises:
        NotFound: no workload has this name, and no id begins so.
        UsageError: it is empty, or several are meant, and none or several of them live; the text
            lists them.
    """
    if not text:
        raise UsageError("WORKLOAD must be a name or an id (given: '')")
    if ID.fullmatch(text):
        return text
    found = [one async for one in client.workloads(name=text, state=LIVE, limit=NAMED)]
    if not found:
        found = [one async for one in client.workloads(name=text, limit=NAMED)]
    rule = "are named"
    if not found and ID_BEGIN.fullmatch(text):
        rule = "have an id that begins with"
        found = [one async for one in client.workloads(id=text, limit=NAMED)]
    if not found:
        raise NotFound(f"No workload is named {text!r}, and no id begins with it.")
    if len(found) > 1:
        ids = "\n".join(f"  {one['id']}  {one['state']}  {one['name']}" for one in found)
        raise UsageError(f"several workloads {rule} {text!r}; give an id:\n{ids}")
    return str(found[0]["id"])


def _columns() -> tuple[Column, ...]:
    now = now_ms()
    return (
        Column("ID", field("id")),
        Column("NAME", field("name"), free=True),
        Column("TEAM", field("team"), rank=4),
        Column("QUEUE", field("queue"), wide=True),
        Column("KIND", field("kind"), rank=5),
        Column("STATE", field("state")),
        Column("GPUS", _gpus, right=True),
        Column("PODS", _pods, wide=True, right=True),
        Column("PRIORITY", field("priority"), right=True, rank=3),
        Column("AGE", lambda one: age(one.get("submitted_at_ms"), now), right=True, rank=2),
        Column("REASON", reason_of, rank=1),
        Column("ATTEMPT", field("attempt"), wide=True, right=True),
        Column("FLAVOR", field("flavor"), wide=True),
        Column("NODES", field("nodes"), wide=True),
        Column("MESSAGE", field("message"), wide=True),
    )


def _gpus(workload: Json) -> str:
    """Those asked for; of an elastic gang that has fewer, both."""
    asked = gpus(workload.get("gpu_milli"))
    return f"{gpus(workload['placed_gpu_milli'])}/{asked}" if _is_smaller(workload) else asked


def _pods(workload: Json) -> str:
    asked = workload.get("pods")
    return f"{workload['placed_pods']}/{asked}" if _is_smaller(workload) else str(asked or "")


def _is_smaller(workload: Json) -> bool:
    return 0 < (workload.get("placed_pods") or 0) < (workload.get("pods") or 0)


def status(workload: WorkloadArgument, output: OutputOption = Format.TABLE) -> None:
    """Show one workload: state, image, command, times, GPUs by index, slices of MIG.

    Example: muster status train-7 -o json
    """

    async def get(client: AsyncClient) -> Json:
        return await client.get(await resolve(client, workload))

    found = call(get)
    if output is Format.NAME:
        print(found["id"])
    elif output in (Format.JSON, Format.YAML):
        show_value(found, output)
    else:
        show_fields(found)


def show_fields(item: Json) -> None:
    """One line for each field that has a value; what is long stands in `-o yaml`."""
    lines = {name: _text_of(name, value) for name, value in item.items() if name not in LONG}
    lines |= lines_of_pods(item)
    shown = {name: text for name, text in lines.items() if text}
    width = max(map(len, shown))
    for name, text in shown.items():
        print(f"{name:<{width}}  {printable(text)}")


def _text_of(name: str, value: Any) -> str:  # noqa: ANN401  # any JSON
    if value in (None, "", [], {}) or (name, value) == ("exit_code", 0):
        return ""
    if name.endswith(("_at_ms", "_until_ms")):
        return local_time(value)
    if name == "nodes":
        return ", ".join(value[:PODS_SHOWN]) + (", ..." if len(value) > PODS_SHOWN else "")
    return value if isinstance(value, str) else inline(value)


def queue(  # noqa: PLR0917  # typer's form
    team: Annotated[
        str, typer.Option("--team", "-t", help="Only this team.", autocompletion=completion.teams)
    ] = "",
    queue_name: Annotated[
        str,
        typer.Option("--queue", "-q", help="Only this queue.", autocompletion=completion.queues),
    ] = "",
    state: Annotated[
        str,
        typer.Option(
            "--state", "-s", help="Only these states: a,b.", autocompletion=completion.states
        ),
    ] = "",
    kind: Annotated[
        str, typer.Option("--kind", help="Only this kind.", autocompletion=completion.kinds)
    ] = "",
    label: Annotated[str, typer.Option("--label", "-l", help="Only this label: key=value.")] = "",
    everything: Annotated[bool, typer.Option("--all", "-a", help="Ended ones too.")] = False,  # noqa: FBT002  # typer's form
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = LIMIT,
    watch: WatchOption = False,  # noqa: FBT002  # typer's form
    output: OutputOption = Format.TABLE,
) -> None:
    """List workloads that run or wait.

    Examples:
      muster queue -t vision -s queued

      muster queue -w
    """
    states = state or ("" if everything else LIVE)

    async def get(client: AsyncClient) -> list[Json]:
        found = client.workloads(
            team=team, queue=queue_name, state=states, kind=kind, label=label, limit=limit + 1
        )
        return [one async for one in found]

    def show(found: list[Json]) -> None:
        shown = found[:limit]
        show_items(shown, output, _columns(), name="id", empty="Nothing runs or waits.")
        if len(found) > limit:
            note(f"Only the newest {limit} are shown; --limit N shows more.")

    show(call(get))
    if watch:
        with contextlib.suppress(KeyboardInterrupt):
            _draw_again(lambda: call(get), show)


def _draw_again(get: Callable[[], list[Json]], show: Callable[[list[Json]], None]) -> None:
    """Until interrupted; while Muster is away the last picture stays, and it is told once."""
    outage = Outage()
    while True:
        time.sleep(WATCH_SECONDS)
        try:
            found = get()
        except AWAY as error:
            outage.begin(error)
            continue
        outage.end()
        _clear()
        show(found)


def _clear() -> None:
    """Start at the top of a terminal; a pipe just gets the next table."""
    import sys

    if sys.stdout.isatty():
        print("\x1b[H\x1b[2J", end="")
