"""The `muster-ops` command line: check, defragment, replay, dlq, republish, recover."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from operations import configuration
from operations.chaos import app as chaos_app
from operations.dlq.commands import app as dlq_app
from operations.failures import Failure, Refused, known, text_of
from operations.options import DatabaseOption, KafkaOption, OutputOption, PrefixOption
from operations.recovery import commands as recovery_commands
from operations.replay import commands as replay_commands
from shared.ports.errors import Rejected, Transient

app = typer.Typer(
    name="muster-ops",
    help="For those who run Muster: check its promises, replay traces, re-drive dead letters.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
CANNOT = 2
REFUSED = 5
app.add_typer(dlq_app, name="dlq")
app.add_typer(chaos_app, name="chaos")
app.add_typer(recovery_commands.app, name="recover")
app.command("republish")(recovery_commands.republish)


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
    at_rest: Annotated[bool, typer.Option(help="Nothing is submitted.")] = False,  # noqa: FBT002  # typer's form
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Compare pods and claims of this Kubernetes API server, too."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Compare pods of the simulated cluster at this URL, too.")
    ] = None,
    monitoring: Annotated[
        str | None,
        typer.Option(help="Hold the states of GPUs that monitoring tells at this URL, too."),
    ] = None,
    instance: Annotated[
        str, typer.Option(envvar="MUSTER_KUBE_INSTANCE", help="Label of this Muster's pods.")
    ] = "default",
) -> None:
    """Check the invariants from outside: exit 0 when all hold, 1 when one is broken.

    Reads PostgreSQL, the Kafka log and, if asked, all pods and claims of an API server, or the
    pods of the simulated cluster; shares no code with the services, changes nothing. A difference
    of pods, claims and states of GPUs (--monitoring) counts when it stays for 30 seconds, as does
    work that fits and waits (--at-rest). A pod on a node with GPUs that were given back before,
    and states that do not sum to the capacity, count at once.

    Example: muster-ops check -o json
    Example: muster-ops check --kubeconfig checker.kubeconfig
    Example: muster-ops check --cluster http://127.0.0.1:8090
    Example: muster-ops check --monitoring http://127.0.0.1:9105
    """
    from operations.check import runner
    from operations.check.model import CannotCheck
    from operations.check.view import as_json, print_table
    from operations.log_reading import log_reader

    if kubeconfig is not None and cluster is not None:
        raise Failure("--kubeconfig and --cluster: one of them, as pods run in one cluster")
    found = configuration.find(database, kafka, prefix)
    ledger = frozenset(line.strip() for line in acknowledged or () if line.strip())
    reader = log_reader(found)
    wishes = (kubeconfig, cluster, instance, monitoring)
    more = runner.by_wish(found.database, *wishes, at_rest=at_rest)
    while True:
        try:
            results = runner.judge(asyncio.run(runner.gather(found.database, reader, ledger)))
            results += [asyncio.run(look()) for look in more]
        except CannotCheck as error:
            raise Failure(str(error)) from error
        show = as_json if output == "json" else print_table
        text = show(results, len(reader.records))
        if text:
            print(text, flush=True)
        if not all(result.ok for result in results):
            raise typer.Exit(1)
        if not continuous:
            return
        time.sleep(every)


@app.command("defragment")
def defragment(  # noqa: PLR0917  # typer's form
    workload: Annotated[str, typer.Argument(help="Id of a workload that waits, or its name.")],
    moves: Annotated[int, typer.Option(help="The most moves a plan may have.")] = 64,
    cell: Annotated[int, typer.Option(help="Cell that the workload is in.")] = 0,
    seed: Annotated[int, typer.Option(help="MUSTER_SEED of placement.")] = 0,
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
    output: OutputOption = "table",
) -> None:
    """Plan the fewest moves of running work that would let a waiting workload start.

    Reads placement's ledger and changes nothing. Exit 0 with a plan, 1 when there is none, 2 when
    it cannot say.

    Example: muster-ops defragment train-7 -o json
    """
    import json

    from operations.defragment import lines_of, report
    from services.placement.offline.defragmentation import NotWaiting

    url = configuration.find(database, kafka, prefix).database
    try:
        answer = asyncio.run(report(url, workload, cell=cell, seed=seed, moves=moves))
    except NotWaiting as error:
        raise Failure(str(error)) from error
    except (Rejected, Transient) as error:
        hint = "is its address right, and may its role read placement's tables?"
        raise Failure(f"database: {error}; {hint}") from error
    print(json.dumps(answer, indent=2) if output == "json" else "\n".join(lines_of(answer)))
    if answer["plan"] is None:
        raise typer.Exit(1)


replay_app = typer.Typer(
    help="Recorded traces through the front door.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(replay_app, name="replay")


@replay_app.callback()
def replays() -> None:
    """Recorded traces through the front door."""


@replay_app.command("openb")
def replay_openb(  # noqa: PLR0917  # typer's form
    nodes: Annotated[Path, typer.Option(help="Node list of the trace, .csv or .csv.gz.")],
    pods: Annotated[Path, typer.Option(help="Pod list of the trace, .csv or .csv.gz.")],
    rate: Annotated[str, typer.Option(help="Submissions a second, or max.")] = "max",
    submit: Annotated[str, typer.Option(help="The door: kafka or http.")] = "kafka",
    team: Annotated[str, typer.Option(help="Team that submits.")] = "openb",
    run: Annotated[str, typer.Option(help="Another run gives other workloads.")] = "1",
    limit: Annotated[int, typer.Option(help="Only the first so many pods; 0: all.")] = 0,
    address: Annotated[str | None, typer.Option(help="Address of Muster.")] = None,
    key: Annotated[str | None, typer.Option(help="An operator's API key.")] = None,
    database: DatabaseOption = None,
    kafka: KafkaOption = None,
    prefix: PrefixOption = None,
    output: OutputOption = "table",
) -> None:
    """Replay the openb trace: 0 when nothing was lost or duplicated, else 1.

    Mapping and assumptions: docs/adr/0012-openb-mapping.md.

    Example: muster-ops replay openb --nodes nodes.csv.gz --pods pods.csv.gz -o json
    """
    import json

    from muster.client import AsyncClient
    from operations.replay.openb import read_trace
    from operations.replay.report import lines_of
    from operations.replay.runner import Plan, replay
    from shared.events.grants import OPERATOR

    if submit not in ("kafka", "http"):
        raise Failure("--submit must be kafka or http")
    trace = read_trace(nodes, pods)
    trace = replace(trace, specs=trace.specs[:limit] if limit else trace.specs)
    plan = Plan(team=team, door=submit, per_second=_per_second(rate), run=run)
    addresses = configuration.find(database, kafka, prefix, role=OPERATOR)

    async def work() -> dict[str, Any]:
        async with AsyncClient(address, key) as client:
            return await replay(addresses, client, trace, plan)

    report = asyncio.run(work())
    print(json.dumps(report, indent=2) if output == "json" else "\n".join(lines_of(report)))
    if report["lost"] or report["duplicated"]:
        raise typer.Exit(1)


replay_app.command("philly")(replay_commands.philly)
replay_app.command("kalos")(replay_commands.kalos)


def _per_second(text: str) -> float | None:
    if text == "max":
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if number <= 0:
        raise Failure(f"--rate must be max or a number above 0 (given: {text})")
    return number


def main() -> None:
    """Run the command line; exit 2 when nothing can be said, 5 for a document that is refused."""
    try:
        app(prog_name="muster-ops")
    except Refused as error:
        _end(str(error), REFUSED)
    except known() as error:
        _end(str(error))
    except ExceptionGroup as group:  # of tasks that ran together
        _end(text_of(group))


def _end(text: str, code: int = CANNOT) -> NoReturn:
    print(f"error: {text}", file=sys.stderr)
    sys.exit(code)
