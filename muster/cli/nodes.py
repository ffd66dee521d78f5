"""`muster nodes`, and what operators do to them and their GPUs by `muster admin`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from muster.cli import completion
from muster.cli.each import Told, act_on_each
from muster.cli.failures import UsageError
from muster.cli.fleet import mig
from muster.cli.fleet.summary import show_summary
from muster.cli.output import Column, Format, field, gpus, local_time, show_items, show_value
from muster.cli.session import call
from muster.cli.workloads import OutputOption, show_fields

if TYPE_CHECKING:
    from muster.client import AsyncClient

Json = dict[str, Any]
PAGE: Final = "1000"
"""Nodes of one request: as many as the service gives."""

Nodes = Annotated[
    list[str],
    typer.Argument(metavar="NODE...", help="Names of nodes.", autocompletion=completion.nodes),
]
Note = Annotated[
    str, typer.Option("--note", "--reason", help="Why, for those whose work runs there.")
]


def nodes(
    node: Annotated[
        str,
        typer.Argument(help="Only this one, with its GPUs.", autocompletion=completion.nodes),
    ] = "",
    flavor: Annotated[
        str, typer.Option(help="Only of this flavor.", autocompletion=completion.flavors)
    ] = "",
    summary: Annotated[bool, typer.Option("--summary", help="The sum of each flavor.")] = False,  # noqa: FBT002  # typer's form
    output: OutputOption = Format.TABLE,
) -> None:
    """List nodes with their GPUs, sum them up, or show one with who runs on each of its GPUs.

    MIG FREE is room for so many instances of each profile, if no other one is asked for. FREE of a
    summary counts whole GPUs that new work could have; a gang may still wait for quota, CPU or
    room that is promised to others.

    Examples:
      muster nodes --flavor h100 -o wide

      muster nodes --summary

      muster nodes h100-0017
    """
    if summary:
        if node:
            raise UsageError("--summary is of flavors; leave NODE out, or name a --flavor")
        show_summary(call(lambda client: client.fleet_summary(flavor=flavor)), output)
        return
    if node:
        _show(call(lambda client: client.node(node)), output)
        return
    found = call(lambda client: client.listing("nodes", flavor=flavor, limit=PAGE))
    columns = (
        Column("NODE", field("name")),
        Column("FLAVOR", field("flavor"), rank=1),
        Column("PRODUCT", field("product"), rank=3),
        Column("READY", _ready),
        Column("GPUS", field("gpus"), right=True),
        Column("MIG", field("mig_gpus"), right=True, rank=2),
        Column("USED", lambda one: gpus(one.get("used_gpu_milli")), right=True),
        *mig.columns(found, rank=4),
        Column("POOL", field("pool"), wide=True),
        Column("ZONE", field("zone"), wide=True),
        Column("RACK", field("rack"), wide=True),
        Column("NVLINK", field("nvlink_domain"), wide=True),
        Column("DRIVER", field("driver"), wide=True),
        Column("TAINTS", field("taints"), wide=True),
        Column("WHY", lambda one: _why(one) or "-", wide=True),
    )
    show_items(found, output, columns, empty="No node has reported itself yet.")


def cordon(node: Nodes, note: Note = "", output: OutputOption = Format.TABLE) -> None:
    """Start nothing more on nodes; what runs there stays.

    Example: muster admin cordon h100-0017 --note "fan 3 is loud"
    """
    act_on_nodes("cordon", node, output, note)


def uncordon(node: Nodes, output: OutputOption = Format.TABLE) -> None:
    """Let nodes take work again.

    Example: muster admin uncordon h100-0017
    """
    act_on_nodes("uncordon", node, output)


def drain(node: Nodes, note: Note = "", output: OutputOption = Format.TABLE) -> None:
    """Start nothing more on nodes, and evict what runs there; it is placed elsewhere.

    Example: muster admin drain h100-0017 h100-0018 --note "new firmware"
    """
    act_on_nodes("drain", node, output, note)


def restore(
    node: Annotated[str, typer.Argument(help="Its node.", autocompletion=completion.nodes)],
    gpu: Annotated[list[int], typer.Option("--gpu", min=0, help="Index; may be repeated.")],
    note: Note = "",
    output: OutputOption = Format.TABLE,
) -> None:
    """Let GPUs take work again that were quarantined, lost or failed; their node stays as it is.

    `muster nodes NODE` shows which are out, and why. All GPUs of a node: muster admin uncordon.

    Example: muster admin restore h100-0017 --gpu 3 --note "replaced, burn-in passed"
    """

    async def one(client: AsyncClient, index: str) -> tuple[str, str]:
        await client.restore_gpu(node, int(index), note)
        return f"{node}/{index}", ""

    told = Told("restore requested", output, name="gpu")
    sys.exit(act_on_each([str(index) for index in gpu], told, one))


def act_on_nodes(verb: str, names: list[str], output: Format, note: str = "") -> None:
    """Give each the command; exits with the code of the worst answer."""

    async def one(client: AsyncClient, name: str) -> tuple[str, str]:
        await client.command_node(name, verb, note)
        return name, ""

    sys.exit(act_on_each(names, Told(f"{verb} requested", output, name="name"), one))


def _show(node: Json, form: Format) -> None:
    if form is Format.NAME:
        print(node["name"])
        return
    if form in (Format.JSON, Format.YAML):
        show_value(node, form)
        return
    devices = node.pop("devices")
    node.pop("mig_profiles", None)  # by device, below
    show_fields(node)
    columns = (
        Column("GPU", field("index"), right=True),
        Column("MODE", lambda one: "MIG" if one["mig"] else "whole"),
        Column("HEALTH", _health),
        *_trends(devices),
        Column("MEMORY MIB", field("memory_mib"), right=True, rank=1),
        Column("USED", lambda one: gpus(one["used_milli"]), right=True),
        *mig.columns(devices, rank=2),
        Column("WORKLOADS", _holders),
        Column("UUID", field("uuid"), wide=True),
    )
    print()
    show_items(devices, form, columns, empty="It has no GPU.")


def _health(device: Json) -> str:
    """The step of the ladder; a GPU that its agent or its kubelet speaks against is unhealthy."""
    step = str(device.get("health", "healthy"))
    return "unhealthy" if step == "healthy" and not device["healthy"] else step


def _trends(devices: list[Json]) -> list[Column]:
    """A column of slow changes, if there are any; their sentences are among the fields above."""
    if not any(one.get("trends") for one in devices):
        return []

    def named(device: Json) -> str:
        return ",".join(str(one["trend"]) for one in device.get("trends", ())) or "-"

    return [Column("TRENDS", named)]


def _holders(device: Json) -> str:
    """Workloads on a device by id, and how many of other teams there are beside them."""
    others = device.get("workloads_of_others", 0)
    words = [",".join(device["workloads"]), f"{others} of others" if others else ""]
    return " and ".join(one for one in words if one) or "-"


def _ready(node: Json) -> str:
    if node.get("fenced"):
        return "fenced"
    if node.get("draining"):
        return "draining"
    if node.get("cordoned"):
        return "cordoned"
    if node.get("shunned_until_ms"):
        return f"shunned until {local_time(node['shunned_until_ms'])}"
    if not node.get("ready", True):
        return "no"
    return _gpus_out(node) or "yes"


def _gpus_out(node: Json) -> str:
    """How many GPUs take no work although the node does; empty: none."""
    for name, word in (("disputed_gpus", "disputed"), ("unhealthy_gpus", "out of service")):
        count = len(node.get(name, ()))
        if count:
            return f"{count} GPU{'s' * (count > 1)} {word}"
    return ""


def _why(node: Json) -> str:
    messages = [node.get(name) for name in ("cordon_message", "shun_message", "dispute_message")]
    messages += ["; ".join(node.get(name, ())) for name in ("health_messages", "trend_messages")]
    return str(next(filter(None, messages), ""))
