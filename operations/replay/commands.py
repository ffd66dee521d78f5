"""`muster-ops replay philly | kalos`: recorded clusters in scaled time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from operations.options import OutputOption

SpeedOption = Annotated[float, typer.Option(min=0.001, help="Times faster than it was.")]
LimitOption = Annotated[int, typer.Option(min=0, help="So many workloads in a row; 0: all.")]
SeedOption = Annotated[int, typer.Option(help="Where those begin in the trace; 0: at its begin.")]
RunOption = Annotated[str, typer.Option(help="Another run gives other workloads.")]
StayOption = Annotated[
    float, typer.Option(min=0, help="Seconds to wait for the last end after the last submission.")
]
DataOption = Annotated[
    Path | None, typer.Option(help="Folder with philly/ and acme/; else MUSTER_DATA.")
]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Write the report here, too.")]
AddressOption = Annotated[str | None, typer.Option(help="Address of Muster.")]
KeyOption = Annotated[str | None, typer.Option(help="An operator's API key.")]


def philly(  # noqa: PLR0917  # typer's form
    speed: SpeedOption = 600.0,
    limit: LimitOption = 2_000,
    seed: SeedOption = 0,
    run: RunOption = "1",
    stay: StayOption = 600.0,
    data: DataOption = None,
    json_file: JsonOption = None,
    address: AddressOption = None,
    key: KeyOption = None,
    output: OutputOption = "table",
) -> None:
    """Replay Philly: fifteen virtual clusters as teams with quotas in a tree of cohorts.

    The same run again changes nothing. Exit 1 when a submission was lost.

    Example: muster-ops replay philly --speed 3600 --limit 500 --json philly.json
    """
    _replay("philly", (speed, run, stay), (limit, seed), data, json_file, (address, key), output)


def kalos(  # noqa: PLR0917  # typer's form
    speed: SpeedOption = 3_600.0,
    limit: LimitOption = 0,
    seed: SeedOption = 0,
    run: RunOption = "1",
    stay: StayOption = 600.0,
    data: DataOption = None,
    json_file: JsonOption = None,
    address: AddressOption = None,
    key: KeyOption = None,
    output: OutputOption = "table",
) -> None:
    """Replay Kalos: 319 gangs of up to 128 nodes, of one team.

    The same run again changes nothing. Exit 1 when a submission was lost.

    Example: muster-ops replay kalos --speed 36000 --json kalos.json
    """
    _replay("kalos", (speed, run, stay), (limit, seed), data, json_file, (address, key), output)


def _replay(  # noqa: PLR0917  # both commands give all of it
    name: str,
    how: tuple[float, str, float],
    part: tuple[int, int],
    data: Path | None,
    json_file: Path | None,
    door: tuple[str | None, str | None],
    output: str,
) -> None:
    from muster.client import AsyncClient
    from operations.replay.recorded import data_folder, part_of, read_recorded
    from operations.replay.scaled import Scale, replay_scaled
    from operations.replay.waits import table_of

    trace = read_recorded(name, data or data_folder())
    chosen = part_of(trace, *part)
    speed, run, stay = how

    async def work() -> dict[str, Any]:
        async with AsyncClient(*door) as client:
            scale = Scale(speed=speed, run=run, stay_seconds=stay)
            return await replay_scaled(client, trace, chosen, scale)

    report = asyncio.run(work())
    text = json.dumps(report, indent=1)
    if json_file is not None:
        json_file.write_text(text + "\n")
    print(text if output == "json" else "\n".join(table_of(report)))
    if report["submitted"] < len(chosen):
        raise typer.Exit(1)
