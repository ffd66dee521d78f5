"""Faults of GPUs and agents, by the stand-in of NVML and by the simulated fleet."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Final

from tests.observe import live
from tests.observe.chaos.faults import Scene, raises
from tests.support.nvml.stand_in import State

READINGS: Final[dict[str, tuple[str, State]]] = {
    "GpuHot": ("agent-a", {"gpu.1.temperature": 93}),
    "GpuUncorrectableEcc": ("agent-a", {"gpu.2.field.4": 2}),
    "GpuRowRemapFailure": ("agent-a", {"gpu.4.field.145": 1}),
    "GpuRowRemapPending": ("agent-a", {"gpu.5.field.144": 1}),
    "GpuFan": ("agent-b", {"gpu.0.fan": 0, "gpu.0.temperature": 70}),
}
"""What a board reads as long as the fault lasts, by agent."""
COUNTED: Final[State] = {"gpu.6.field.38": 1_029, "gpu.7.field.94": 1_001}
"""Counters of errors: they stay where they are, and what they grew by is forgotten."""
XID: Final = 8
"""NVML's bit of an event."""
APP_XIDS: Final = 5
THROTTLED_NS: Final = 300_000_000


@raises(*READINGS)
async def readings(scene: Scene) -> AsyncIterator[None]:
    """Heat, errors of memory, a fan that stands still."""
    before = {}
    for name, (agent, changes) in READINGS.items():
        stand_in = scene.live.agents[agent].stand_in
        before[name] = {key: stand_in.state[key] for key in changes}
        stand_in.set(changes)
    yield
    for name, (agent, _) in READINGS.items():
        scene.live.agents[agent].stand_in.set(before[name])


@raises("NvlinkErrors", "PcieReplayGrowing")
async def counters(scene: Scene) -> AsyncIterator[None]:
    """Links that repeat what they send."""
    scene.live.agents["agent-a"].stand_in.set(COUNTED)
    yield


@raises("GpuXid", "GpuAppXids")
async def xids(scene: Scene) -> AsyncIterator[None]:
    """A GPU that is gone from its bus, and programs that fail again and again."""
    stand_in = scene.live.agents["agent-a"].stand_in
    stand_in.happen(3, XID, 79)
    for _ in range(APP_XIDS):
        stand_in.happen(0, XID, 31)
        await asyncio.sleep(0.5)
    yield


@raises("GpuThermalThrottle")
async def throttle(scene: Scene) -> AsyncIterator[None]:
    """Heat holds clocks down for three tenths of the time."""
    stand_in = scene.live.agents["agent-a"].stand_in

    async def grows() -> None:
        while True:
            so_far = int(str(stand_in.state["gpu.1.field.75"]))
            stand_in.set({"gpu.1.field.75": so_far + THROTTLED_NS})
            await asyncio.sleep(1)

    task = asyncio.create_task(grows())
    yield
    task.cancel()


@raises("AgentsUnreachable", alone=True)
async def stopped_agent(scene: Scene) -> AsyncIterator[None]:
    """An agent answers nothing."""
    agent = scene.live.agents["agent-b"]
    agent.signal(signal.SIGSTOP)
    yield
    agent.signal(signal.SIGCONT)


@raises("NodeSilent")
async def silent_node(scene: Scene) -> AsyncIterator[None]:
    """A node tells nothing of its GPUs' use; it is silent after half a minute."""
    await live.machine(scene.stage, "nodes/n-0000/silent", seconds="0")
    yield
    await live.fault(scene.stage, "n-0000", 0, "returned", 0)


@raises("QuarantineOld")
async def quarantined(scene: Scene) -> AsyncIterator[None]:
    """A GPU needs a reset, and gets one late."""
    await live.fault(scene.stage, "n-0005", 3, "xid", 119)
    yield
    await live.fault(scene.stage, "n-0005", 3, "returned", 0)
