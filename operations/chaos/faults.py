"""`muster-ops chaos`: faults of devices and nodes, on demand, in a simulated fleet.

Only a simulator obeys: real agents have no such door.
"""

from __future__ import annotations

import json
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import aiohttp
import typer

from operations.configuration import NotConfigured, local_state
from operations.failures import Failure

SECONDS_MAX: Final = 20.0


class Fault(StrEnum):
    """What breaks, or heals."""

    XID = "xid"
    """The driver reports an error; --code is the XID."""
    ECC = "ecc"
    """Uncorrectable errors of memory."""
    REMAP = "remap"
    """A row of memory cannot be replaced."""
    LOST = "lost"
    """The driver does not reach the GPU."""
    HANG = "hang"
    """The driver does not answer for the GPU."""
    RESET = "reset"
    """The GPU was reset: it returns."""
    NODE = "node"
    """The node goes down."""
    UP = "up"
    """The node comes back."""
    SPOT = "spot"
    """The node will be taken away in two minutes."""


_OF_DEVICES: Final = {
    Fault.XID: "xid",
    Fault.ECC: "double-bit-ecc",
    Fault.REMAP: "row-remap-failure",
    Fault.LOST: "lost",
    Fault.HANG: "unresponsive",
    Fault.RESET: "returned",
}
"""Kind of the event that the driver of a device tells."""
_OF_NODES: Final = {Fault.NODE: "down", Fault.UP: "up", Fault.SPOT: "notice"}
_CODES: Final = {Fault.ECC: 1, Fault.REMAP: 1}


def chaos(  # noqa: PLR0917  # typer's form
    fault: Annotated[Fault, typer.Argument(help="What breaks, or heals.")],
    node: Annotated[str, typer.Option(help="Name of the node.")],
    gpu: Annotated[int, typer.Option(min=0, help="Index of the GPU.")] = 0,
    code: Annotated[int, typer.Option(min=0, max=999_999, help="The XID, for xid.")] = 48,
    fleet_url: Annotated[
        str, typer.Option(envvar="MUSTER_FLEET_URL", help="Where the simulated fleet answers.")
    ] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="table or json")] = "table",
) -> None:
    """Break a device or a node of a simulated fleet, or heal it; then look at `muster nodes NODE`.

    Refused where nodes are real: their agents have no such door.

    Example: muster-ops chaos xid --node h100-0017 --gpu 3 --code 48
    Example: muster-ops chaos lost --node h100-0017 --gpu 3
    Example: muster-ops chaos reset --node h100-0017 --gpu 3
    Example: muster-ops chaos spot --node h100-0018
    """
    import asyncio

    path, query = _request(fault, node, gpu, code)
    asyncio.run(_post(fleet_url or _fleet_nearby(), path, query))
    if output == "json":
        print(json.dumps({"fault": fault.value, "node": node, "gpu": gpu, **query}))
    else:
        where = f"node {node}" if fault in _OF_NODES else f"GPU {gpu} of node {node}"
        print(f"{fault.value}: told of {where}; see `muster nodes {node}`")


def _request(fault: Fault, node: str, gpu: int, code: int) -> tuple[str, dict[str, str]]:
    if fault in _OF_NODES:
        return f"/v1/nodes/{node}/{_OF_NODES[fault]}", {}
    told = code if fault is Fault.XID else _CODES.get(fault, 0)
    query = {"kind": _OF_DEVICES[fault], "code": str(told)}
    return f"/v1/nodes/{node}/gpus/{gpu}/tell", query


def _fleet_nearby() -> str:
    """The fleet of the local system."""
    url = local_state(os.environ, Path.cwd()).get("addresses", {}).get("fleet", "")
    if not url:
        raise NotConfigured(
            "No simulated fleet is known: give --fleet-url, set MUSTER_FLEET_URL, or start a local"
            " system with `make up`."
        )
    return str(url)


async def _post(url: str, path: str, query: dict[str, str]) -> None:
    timeout = aiohttp.ClientTimeout(SECONDS_MAX)
    try:
        async with (
            aiohttp.ClientSession(url, timeout=timeout) as session,
            session.post(path, params=query) as answer,
        ):
            if not answer.ok:
                raise Failure((await answer.text()).strip() or f"{url} answers {answer.status}")
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Failure(f"the fleet at {url} does not answer: {error}") from error
