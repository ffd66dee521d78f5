"""`muster-ops chaos FAULT`, `chaos --scenario FILE` and `chaos friday`: the forms, with help."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from operations.chaos.carrying import run_friday, run_scenario, strike
from operations.chaos.faults import CODE_MAX, SECONDS_MAX, XID_DEFAULT, Fault, Strike
from operations.failures import Failure
from operations.options import OutputOption

app = typer.Typer(rich_markup_mode=None)
NodeOption = Annotated[str, typer.Option(help="Name of the node.")]
GpuOption = Annotated[int, typer.Option(min=0, help="Index of the GPU.")]
CodeOption = Annotated[int, typer.Option(min=0, max=CODE_MAX, help="The XID.")]
ForOption = Annotated[
    int,
    typer.Option("--for", min=0, max=SECONDS_MAX, help="Seconds; 0: until a GPU of it is reset."),
]
FleetOption = Annotated[
    str, typer.Option(envvar="MUSTER_FLEET_URL", help="Where the simulated fleet answers.")
]
SeedOption = Annotated[str, typer.Option(help="The same seed makes the same choices.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan and do nothing.")]
LeaveDownOption = Annotated[bool, typer.Option("--leave-down", help="Keep the node down.")]
WAIT_SECONDS: Final = 600.0
HELP: Final = {
    Fault.ECC: "Uncorrectable errors of memory: the GPU is drained at once.",
    Fault.REMAP: "A row of memory cannot be replaced: the GPU is out for good.",
    Fault.LOST: "The driver does not reach the GPU any more.",
    Fault.HANG: "The driver does not answer for the GPU.",
    Fault.NVLINK: "XID 74 twice: a suspect by the first, drained by the second.",
    Fault.THERMAL: (
        "The GPU becomes hotter by 30 C a minute, up to 97 C, until it is reset; a suspect after"
        " four minutes, drained after thirteen."
    ),
    Fault.LEAK: "Used memory rises by 1,000 MiB an hour until the GPU is reset.",
    Fault.RESET: "The GPU was reset: it is on probation, and heat, leak and silence end.",
    Fault.NODE: "The node goes down.",
    Fault.UP: "The node comes back.",
    Fault.SPOT: "The node will be taken away in two minutes.",
}
OF_NODES: Final = (Fault.NODE, Fault.UP, Fault.SPOT)


@app.callback(invoke_without_command=True)
def scenario(  # noqa: PLR0917  # typer's form
    context: typer.Context,
    scenario: Annotated[
        Path | None, typer.Option(help="YAML document with faults in time.")
    ] = None,
    seed: SeedOption = "1",
    dry_run: DryRunOption = False,  # noqa: FBT002  # typer's form
    fleet_url: FleetOption = "",
    output: OutputOption = "table",
) -> None:
    """Break devices and nodes on purpose, or heal them.

    On nodes of a simulated fleet. Refused on real ones, unless they carry the label
    muster.dev/chaos=allowed: of those the signs of a driver are told.

    A scenario is a list of {at_s, do, node, gpu, code, for_s}; `any` as node or gpu is picked by
    the seed among the simulated ones. Exit 5 when the document is refused.

    Example: muster-ops chaos xid --node h100-0017 --gpu 3 --code 48

    Example: muster-ops chaos --scenario examples/chaos.yaml --seed 7 --dry-run

    Example: muster-ops chaos friday --document friday.yaml
    """
    if context.invoked_subcommand is not None:
        return
    if scenario is None:
        raise Failure(
            "name a fault, or give --scenario FILE; `muster-ops chaos --help` lists them"
        )
    asyncio.run(run_scenario(scenario, seed, fleet_url, output, dry_run=dry_run))


@app.command("xid")
def xid(
    node: NodeOption,
    gpu: GpuOption = 0,
    code: CodeOption = XID_DEFAULT,
    fleet_url: FleetOption = "",
    output: OutputOption = "table",
) -> None:
    """The driver reports an error of a GPU; what follows depends on the class of the XID.

    Then look at `muster nodes NODE`.

    Example: muster-ops chaos xid --node h100-0017 --gpu 3 --code 48

    Example: muster-ops chaos xid --node h100-0017 --gpu 3 --code 13
    """
    strike(Strike(fault=Fault.XID, node=node, gpu=gpu, code=code), fleet_url, output)


@app.command("silent")
def silent(
    node: NodeOption,
    for_s: ForOption = 0,
    fleet_url: FleetOption = "",
    output: OutputOption = "table",
) -> None:
    """No use of the node is reported, so that it takes nothing new; what runs there stays.

    Example: muster-ops chaos silent --node h100-0017 --for 120

    Example: muster-ops chaos reset --node h100-0017
    """
    strike(Strike(fault=Fault.SILENT, node=node, for_s=for_s), fleet_url, output)


@app.command("friday")
def friday(  # noqa: PLR0917  # typer's form
    document: Annotated[Path, typer.Option(help="YAML document: hours, flavors or nodes.")],
    seed: Annotated[
        str, typer.Option(help="The same seed picks the same node; the day by default.")
    ] = "",
    wait: Annotated[
        float, typer.Option(min=1, help="Seconds to wait until all work runs elsewhere.")
    ] = WAIT_SECONDS,
    leave_down: LeaveDownOption = False,  # noqa: FBT002  # typer's form
    dry_run: DryRunOption = False,  # noqa: FBT002  # typer's form
    fleet_url: FleetOption = "",
    output: OutputOption = "table",
) -> None:
    """Take one node down in the hours that a document allows, and report what it cost.

    The document: time_zone, days, from, to, flavors and nodes, working_nodes_max (so many of them
    may be down at once if the next one has work; 1 by default). Told are the work that moved,
    GPU-hours lost since the last checkpoint or the start, and seconds until all runs elsewhere.
    The node is back at the end. Exit 1 when work still waits after --wait seconds, 2 outside the
    hours, 5 when the document is refused.

    Example: muster-ops chaos friday --document friday.yaml --dry-run

    Example: muster-ops chaos friday --document friday.yaml --seed 2026-11-27 -o json
    """
    end = run_friday(
        document, seed, fleet_url, output, wait=wait, leave_down=leave_down, dry_run=dry_run
    )
    if not asyncio.run(end):
        raise typer.Exit(1)


def _of_device(fault: Fault) -> Callable[..., None]:
    def command(
        node: NodeOption,
        gpu: GpuOption = 0,
        fleet_url: FleetOption = "",
        output: OutputOption = "table",
    ) -> None:
        strike(Strike(fault=fault, node=node, gpu=gpu), fleet_url, output)

    return command


def _of_node(fault: Fault) -> Callable[..., None]:
    def command(
        node: NodeOption, fleet_url: FleetOption = "", output: OutputOption = "table"
    ) -> None:
        strike(Strike(fault=fault, node=node), fleet_url, output)

    return command


for _fault, _text in HELP.items():
    _node_only = _fault in OF_NODES
    _example = f"muster-ops chaos {_fault.value} --node h100-0017" + " --gpu 3" * (not _node_only)
    app.command(_fault.value, help=f"{_text}\n\nExample: {_example}")(
        (_of_node if _node_only else _of_device)(_fault)
    )
