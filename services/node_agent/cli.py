"""`muster-agent`: report a node, or read it once and show what its driver tells."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated, Any, Final

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from services.node_agent.settings import SourceSettings
from services.node_agent.sources import open_source
from shared.adapters.clock import SystemClock
from shared.core.telemetry.readings import (
    MEMORY_USED,
    POWER,
    TEMPERATURE,
    DeviceInventory,
    GpuReading,
    NodeReading,
    use_percent,
)
from shared.ports.gpu_source import SourceSilentError

SAMPLE_SECONDS: Final = 1.0
"""Between two readings: GPM tells what happened between them."""
app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


class ReadOutput(StrEnum):
    """How it is shown."""

    TABLE = "table"
    JSON = "json"


class Probe(StrEnum):
    """What is read."""

    NVML = "nvml"
    DCGM = "dcgm"


@app.command()
def run() -> None:
    """Report this node until SIGTERM; settings are MUSTER_* variables (docs/settings.md)."""
    from services.node_agent.agent import run_agent  # noqa: PLC0415  # `read` needs no Kafka

    uvloop.run(run_agent())


@app.command()
def read(
    output: Annotated[
        ReadOutput, typer.Option("--output", "-o", help="table, or json")
    ] = ReadOutput.TABLE,
    probe: Annotated[Probe, typer.Option(help="nvml, or a running dcgm-exporter")] = Probe.NVML,
    dcgm_url: Annotated[str, typer.Option(help="where that dcgm-exporter answers")] = "",
    deadline_seconds: Annotated[float, typer.Option(help="a call may take so long")] = 15.0,
) -> None:
    """Read every GPU of this machine once; needs neither Kafka nor a description of the node.

    muster-agent read

    muster-agent read -o json | jq '.gpus[].values.DCGM_FI_DEV_GPU_TEMP'

    muster-agent read --probe dcgm --dcgm-url http://127.0.0.1:9400/metrics
    """
    settings = SourceSettings(gpu_probe=probe.value, nvml_deadline_seconds=deadline_seconds)
    if dcgm_url:
        settings = settings.model_copy(update={"dcgm_url": dcgm_url})
    try:
        inventory, reading = asyncio.run(_read(settings))
    except SourceSilentError as error:
        typer.echo(f"no GPU can be read: {error}", err=True)
        raise typer.Exit(1) from error
    if output is ReadOutput.JSON:
        text = msgspec.json.format(msgspec.json.encode(_document(inventory, reading)), indent=2)
        typer.echo(text.decode())
    else:
        Console().print(_table(inventory, reading))


async def _read(settings: SourceSettings) -> tuple[DeviceInventory, NodeReading]:
    source = open_source(settings, SystemClock(), lambda _: None)
    try:
        inventory = await source.inventory()
        await source.read()
        await asyncio.sleep(SAMPLE_SECONDS)
        return inventory, await source.read()
    finally:
        await source.close()


def _document(inventory: DeviceInventory, reading: NodeReading) -> dict[str, Any]:
    known = {one.uuid: msgspec.to_builtins(one) for one in inventory.gpus}
    return {
        "product": inventory.product,
        "driver": inventory.driver,
        "cuda": inventory.cuda,
        "links": inventory.links,
        "clique": inventory.clique,
        "at_ms": reading.at_ms,
        "gpus": [
            known.get(one.uuid, {}) | {"answering": "yes"} | msgspec.to_builtins(one)
            for one in reading.gpus
        ],
    }


def _table(inventory: DeviceInventory, reading: NodeReading) -> Table:
    title = f"{inventory.product or 'no GPU'}, driver {inventory.driver}, CUDA {inventory.cuda}"
    table = Table(title=title)
    for column in ("GPU", "UUID", "answers", "use %", "memory MiB", "C", "W", "MIG", "processes"):
        table.add_column(column, overflow="fold")
    for one in reading.gpus:
        table.add_row(*_row(one))
    return table


def _row(gpu: GpuReading) -> tuple[str, ...]:
    percent = use_percent(gpu)
    shown = [
        "" if name not in gpu.values else f"{gpu.values[name]:.0f}"
        for name in (MEMORY_USED, TEMPERATURE, POWER)
    ]
    return (
        str(gpu.index),
        gpu.uuid,
        gpu.answering.value,
        "" if percent is None else str(percent),
        *shown,
        " ".join(one.profile for one in gpu.instances),
        " ".join(str(one.pid) for one in gpu.processes),
    )


def main() -> None:
    """The entry point `muster-agent`."""
    app()


if __name__ == "__main__":
    main()
