"""Scenes of devices and faults: slices and shares, a rack drained, placement killed, the check."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from operations.demo.story.stage import Stage, identifier
from operations.demo.story.work import UNDER_FIRE
from shared.core.model.units import GPU_MILLI

Json = dict[str, Any]
SLOTS: Final = 8
"""Memory slices of one GPU in MIG mode."""
NODES_LOOKED_AT: Final = 8
DRAIN_REASON: Final = "power maintenance of the rack (demo)"
RUNNING: Final = "running"


async def slices_and_shares(stage: Stage) -> None:
    """Two devices as they are: MIG instances by their slots, shares by their size."""
    stage.narrator.caption(
        "Slices and shares side by side",
        "MIG instances lie at exact positions of a GPU; shares of a GPU belong to one team, with "
        "memory of their own.",
    )
    nodes = await stage.operator.listing("nodes")
    mig = await _fullest_device(stage, [one for one in nodes if one["mig_gpus"]])
    stage.narrator.quote(f"muster nodes {mig[0]}", f"GPU {mig[1]}: {await _slots(stage, *mig)}")
    shared = await _fullest_device(stage, [one for one in nodes if one["flavor"] == "t4"])
    stage.narrator.quote(
        f"muster nodes {shared[0]}", f"GPU {shared[1]}: {await _shares(stage, *shared)}"
    )


async def drain(stage: Stage) -> None:
    """A rack is drained: its work runs elsewhere, and the nodes are given back."""
    rack, names = await _busiest_rack(stage)
    workloads = await _workloads_on(stage, names)
    stage.narrator.caption(
        "A rack is drained",
        f"An operator drains the {len(names)} nodes of {rack}. On them run {len(workloads)} "
        "workloads. Each is stopped with its grace, keeps its place, and starts elsewhere.",
    )
    for name in names:
        await stage.operator.command_node(name, "drain", DRAIN_REASON)
    seconds = await stage.until(
        "every workload of the rack runs elsewhere",
        lambda: _all_elsewhere(stage, workloads, names),
        lambda: f"{len(workloads)} workloads move",
    )
    stage.narrator.say(f"All {len(workloads)} run on other nodes after {seconds:.1f} s.")
    for name in names:
        await stage.operator.command_node(name, "uncordon")
    stage.narrator.say("The nodes take work again (muster admin uncordon).")


async def kill_placement(stage: Stage) -> None:
    """`kill -9` of the single writer of the ledger, while work comes in."""
    stage.narrator.caption(
        "Placement is killed with -9",
        "It is the only process that gives GPUs away. It dies while 300 workloads are submitted; "
        "its supervisor starts it again.",
    )
    before = stage.site.state["processes"]["placement"]
    sending = asyncio.create_task(stage.submit(UNDER_FIRE))
    os.kill(before, signal.SIGKILL)
    seconds = await _seconds_until_ready(stage, before)
    items = await sending
    await stage.until_running(items)
    fates = stage.tracker.fates.values()
    lost = sum(not fate.settled for fate in fates)
    doubled = sum(fate.duplicated for fate in fates)
    stage.require(lost == 0 and doubled == 0, f"nothing lost or doubled: {lost}, {doubled}")
    stage.narrator.say(
        f"It decides again {seconds:.1f} s after the kill. All {len(items)} run; of the "
        f"{len(fates):,} workloads of this story 0 are lost and 0 doubled."
    )


async def check(stage: Stage) -> None:
    """`muster-ops check`: every promise, from the tables and the log."""
    stage.narrator.caption(
        "Everything is checked from outside",
        "muster-ops check shares no code with the services. It reads PostgreSQL and the log.",
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "operations",
        "check",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "MUSTER_HOME": str(stage.site.folder), "COLUMNS": "90"},
    )
    output = asyncio.create_task(process.communicate())
    started = time.monotonic()
    while not output.done():
        stage.narrator.progress(f"muster-ops check, {time.monotonic() - started:.0f} s")
        await asyncio.wait([output], timeout=0.2)
    text = output.result()[0].decode()
    stage.narrator.quote("muster-ops check", text.rstrip())
    stage.require(process.returncode == 0, "muster-ops check finds nothing")


async def _fullest_device(stage: Stage, nodes: Sequence[Json]) -> tuple[str, int]:
    """(node, GPU) of the device with most teams, then workloads, among the most used nodes."""
    used = sorted(nodes, key=lambda one: -one["used_gpu_milli"])[:NODES_LOOKED_AT]
    teams = {identifier(item): item.team for item in stage.items}
    found = [
        (
            len({teams.get(one, one) for one in device["workloads"]}),
            len(device["workloads"]),
            node["name"],
            device["index"],
        )
        for node in [await stage.operator.node(one["name"]) for one in used]
        for device in node["devices"]
    ]
    stage.require(bool(found), "a node with devices")
    _, _, name, index = max(found)
    return name, index


async def _holders(stage: Stage, node: str, index: int) -> list[tuple[Json, Json]]:
    """(workload, share) of all that hold some of the device."""
    view = await stage.operator.node(node)
    device = next(one for one in view["devices"] if one["index"] == index)
    workloads = [await stage.operator.get(one) for one in device["workloads"]]
    return [
        (workload, share)
        for workload in workloads
        for pod in workload["placement"]["pods"]
        if pod["node"] == node
        for share in pod["shares"]
        if share["index"] == index
    ]


async def _slots(stage: Stage, node: str, index: int) -> str:
    slots = ["free"] * SLOTS
    for workload, share in await _holders(stage, node, index):
        for slot in range(SLOTS):
            if share["mask"] >> slot & 1:
                slots[slot] = workload["team"]
    return "slots 0 to 7 | " + " | ".join(slots) + " |"


async def _shares(stage: Stage, node: str, index: int) -> str:
    holders = await _holders(stage, node, index)
    parts = [
        f"{workload['team']} {share['milli'] / GPU_MILLI:g} GPU {share['memory_mib']:,} MiB"
        for workload, share in holders
    ]
    return "; ".join(parts)


async def _busiest_rack(stage: Stage) -> tuple[str, list[str]]:
    """The rack of A100 nodes with most GPUs in use."""
    nodes = await stage.operator.listing("nodes")
    used: dict[str, int] = {}
    for node in nodes:
        if node["flavor"] == "a100" and not node["mig_gpus"]:
            used[node["rack"]] = used.get(node["rack"], 0) + node["used_gpu_milli"]
    rack = max(used, key=lambda one: (used[one], one))
    return rack, sorted(node["name"] for node in nodes if node["rack"] == rack)


async def _workloads_on(stage: Stage, names: Sequence[str]) -> list[str]:
    nodes = [await stage.operator.node(name) for name in names]
    return sorted({one for node in nodes for gpu in node["devices"] for one in gpu["workloads"]})


async def _all_elsewhere(stage: Stage, workloads: Sequence[str], names: Sequence[str]) -> bool:
    for one in workloads:
        workload = await stage.operator.get(one)
        if workload["state"] != RUNNING or set(workload["nodes"]) & set(names):
            return False
    return True


async def _seconds_until_ready(stage: Stage, before: int) -> float:
    """Until another process of placement answers that it is ready."""
    started = time.monotonic()

    async def ready() -> bool:
        state = json.loads((stage.site.folder / "state.json").read_text())
        if state["processes"].get("placement", before) == before:
            return False
        async with aiohttp.ClientSession() as session:
            try:
                async with session.get(state["probes"]["placement"]) as answer:
                    return answer.ok
            except aiohttp.ClientError:
                return False

    await stage.until("placement is ready again", ready, lambda: "placement starts again")
    return time.monotonic() - started
