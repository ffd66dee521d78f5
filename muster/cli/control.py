"""`muster cancel | hold | release | reprioritise | resize`, `admin evict`: act on workloads.

Those that are meant are named, or selected: by labels, queue or state, within a team.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli import completion
from muster.cli.each import Told, act_on_each
from muster.cli.failures import UsageError
from muster.cli.output import Format
from muster.cli.session import call
from muster.cli.workloads import OutputOption, resolve

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
Workloads = Annotated[
    list[str] | None,
    typer.Argument(
        help="Ids of workloads, their first characters, or names.",
        autocompletion=completion.workloads,
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", "-l", help="All with this label, KEY=VALUE; several must all hold."),
]
Queue = Annotated[
    str,
    typer.Option("--queue", "-q", help="All in this queue.", autocompletion=completion.queues),
]
State = Annotated[
    str,
    typer.Option("--state", "-s", help="All in this state.", autocompletion=completion.states),
]
Team = Annotated[
    str,
    typer.Option(
        "--team",
        "-t",
        help="For operators: of this team, not your own.",
        autocompletion=completion.teams,
    ),
]


def cancel(
    workload: Workloads = None,
    *,
    label: Labels = None,
    queue: Queue = "",
    state: State = "",
    team: Team = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Stop workloads for good.

    Examples:
      muster cancel train-7

      muster cancel -l sweep=42

      muster cancel $(muster queue -t vision -s queued -o name)
    """
    told = Told("cancel requested", output, name="id")
    _act("cancel", told, workload, _selection(label, queue, state, team))


def hold(
    workload: Workloads = None,
    *,
    label: Labels = None,
    queue: Queue = "",
    state: State = "",
    team: Team = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Keep workloads from running until they are released.

    Examples:
      muster hold train-7

      muster hold -l sweep=42 -s queued
    """
    told = Told("hold requested", output, name="id")
    _act("hold", told, workload, _selection(label, queue, state, team))


def release(
    workload: Workloads = None,
    *,
    label: Labels = None,
    queue: Queue = "",
    state: State = "",
    team: Team = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Let held workloads run again.

    Examples:
      muster release train-7

      muster release -s held -q vision
    """
    told = Told("release requested", output, name="id")
    _act("release", told, workload, _selection(label, queue, state, team))


def reprioritise(
    priority_class: Annotated[
        str,
        typer.Option(
            "--to",
            help="Name of the priority class.",
            autocompletion=completion.priority_classes,
        ),
    ],
    workload: Workloads = None,
    *,
    label: Labels = None,
    queue: Queue = "",
    state: State = "",
    team: Team = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Change the priority class of workloads that wait or run.

    Examples:
      muster reprioritise train-7 --to training-interactive

      muster reprioritise -l sweep=42 --to training-interactive
    """
    body = {"priority_class": priority_class}
    told = Told(f"change to {priority_class} requested", output, name="id")
    _act("reprioritise", told, workload, _selection(label, queue, state, team), body)


def resize(
    words: Annotated[
        list[str], typer.Argument(metavar="[WORKLOAD]... PODS", help="Which, and how many pods.")
    ],
    *,
    label: Labels = None,
    queue: Queue = "",
    state: State = "",
    team: Team = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Let elastic gangs have so many pods from now on, between their min_count and count.

    A gang that runs gives up its highest ranks at once, with grace, or grows when there is room.

    Examples:
      muster resize train-7 4

      muster resize -l sweep=42 2
    """
    *workload, last = words
    if not last.isdecimal():
        raise UsageError(f"PODS must be a number (given: {last})")
    body = {"pods": int(last)}
    told = Told(f"{last} pods requested", output, name="id")
    _act("resize", told, workload, _selection(label, queue, state, team), body)


def evict(
    workload: Workloads = None,
    *,
    note: Annotated[str, typer.Option("--note", "--reason", help="Why, for its owner.")] = "",
    label: Labels = None,
    queue: Queue = "",
    state: State = "",
    team: Team = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Stop workloads with their grace; they keep their place and are placed again.

    Examples:
      muster admin evict train-7 --note "network of rack 3 is changed"

      muster admin evict -q vision -s running
    """
    selection = _selection(label, queue, state, team)
    told = Told("eviction requested", output, name="id")
    _act("evict", told, workload, selection, {"note": note} if note else {})


def _selection(labels: list[str] | None, queue: str, state: str, team: str) -> Json:
    """What the options select; empty without any. A team alone selects nothing."""
    pairs = {}
    for one in labels or ():
        key, equals, value = one.partition("=")
        if not key or not equals:
            raise UsageError(f"--label must be KEY=VALUE (given: {one})")
        pairs[key] = value
    fields = {"labels": pairs, "queue": queue, "state": state}
    chosen = {name: value for name, value in fields.items() if value}
    return {**chosen, "team": team} if chosen and team else chosen


def _act(
    verb: str, told: Told, names: list[str] | None, selection: Json, body: Json | None = None
) -> None:
    if bool(names) == bool(selection):
        either = "name workloads, or select them with --label, --queue or --state"
        raise UsageError(f"{either}, not both" if names else either)
    if selection:
        _all(verb, told, {**selection, **(body or {})})
    else:
        arguments = (body or {}).values()
        _each(names or [], told, lambda client, one: getattr(client, verb)(one, *arguments))


def _all(verb: str, told: Told, selection: Json) -> None:
    """Act on all that are selected, as many as the service takes in a request."""

    async def ask(client: AsyncClient) -> None:
        last, more = "", True
        while more:
            behind = {"after": last} if last else {}
            answer = await client.command_all(verb, {**selection, **behind})
            for last in answer["ids"]:
                told.add(last)
            more = answer["more"]
        if not last:
            print("Nothing is selected.", file=sys.stderr)

    try:
        call(ask)
    finally:
        told.end()


def _each(
    names: list[str], told: Told, act: Callable[[AsyncClient, str], Awaitable[Json]]
) -> None:
    async def one(client: AsyncClient, name: str) -> tuple[str, str]:
        identifier = await resolve(client, name)
        return identifier, _result(await act(client, identifier))

    sys.exit(act_on_each(names, told, one))


def _result(answer: Json) -> str:
    """What is said of a command that has nothing to do, as the service saw the workload."""
    state = answer.get("state", "")
    if answer.get("command") != "release" or state in ("held", ""):
        return ""
    return f"not held: it is {state}; only a hold that is on its way is undone"
