"""The agent's reading of a real NVIDIA board: values, load, an error of the driver, cost.

`python -m pytest --noconftest -c /dev/null tests/gpu -s`, as root, with PyTorch and nvcc. What was
read is written to `$OUT`, from where it becomes a fixture.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from services.node_agent.kernel_log import KernelLog
from services.node_agent.live_probe import LiveProbe
from services.node_agent.xids import Xids
from shared.adapters.clock import SystemClock
from shared.adapters.nvml import NvmlSource, XidTold
from shared.core.health.events import HealthEventKind
from shared.core.model.mig.reported import problem_of
from shared.core.model.nouns import Node
from shared.core.telemetry.exposition import Exposed, exposition
from shared.core.telemetry.readings import ENGINE_ACTIVE, NodeReading, use_percent
from shared.events.nodes import HealthEventReported

OUT = Path(os.environ.get("OUT", "/tmp"))
DESCRIBED = Node(name="here", flavor="f", product="", cpu_milli=1, memory_mib=1, gpus=())
LOAD = """
import torch, time
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.time() + 12
while time.time() < end:
    b = a @ a
    torch.cuda.synchronize()
"""
FAULT = """
__global__ void fault(int *there) { *there = 1; }
int main() { fault<<<1, 1>>>((int *)0x10); return (int)cudaDeviceSynchronize(); }
"""
Told = TypeVar("Told")


class Board:
    """An agent without a log: what it would report is kept."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.source = NvmlSource(clock=clock, tell=self._hear, deadline_seconds=15)
        self.probe = LiveProbe(DESCRIBED, source=self.source, clock=clock, seconds=1)
        self.xids = Xids(self.probe, clock)
        self.heard: list[tuple[float, XidTold]] = []

    def _hear(self, told: XidTold) -> None:
        self.heard.append((time.time(), told))
        self.xids.hear_driver(told.uuid, told.type, told.data, told.instance)


def on_board(check: Callable[[Board], Awaitable[Told]]) -> Told:
    async def run() -> Told:
        board = Board()
        await board.probe.refresh()
        if board.probe.problem:
            pytest.skip(f"no board: {board.probe.problem}")
        try:
            return await check(board)
        finally:
            await board.source.close()

    return asyncio.run(run())


def keep(name: str, reading: object) -> None:
    (OUT / name).write_bytes(msgspec.json.format(msgspec.json.encode(reading), indent=1))


async def read(board: Board) -> NodeReading:
    await board.probe.refresh()
    assert not board.probe.problem
    return board.probe.reading


def test_the_board_at_rest():
    async def check(board: Board) -> None:
        await asyncio.sleep(1)
        reading = await read(board)
        (gpu, *_) = reading.gpus
        node = board.probe.inventory()
        keep("inventory.json", node)
        keep("at-rest.json", reading)
        (OUT / "metrics.txt").write_text(exposition(Exposed(reading=reading, hostname="here")))
        print(node, gpu)
        assert node.driver
        assert node.product
        assert node.gpus[0].uuid.startswith("GPU-")
        assert problem_of(node.gpus[0].mig_placements) == ""
        assert gpu.values["DCGM_FI_DEV_FB_USED"] + gpu.values["DCGM_FI_DEV_FB_FREE"] > 10_000
        assert 10 < gpu.values["DCGM_FI_DEV_GPU_TEMP"] < 90
        assert not board.probe.changes()

    on_board(check)


def test_a_board_that_computes():
    async def check(board: Board) -> None:
        load = await asyncio.create_subprocess_exec(sys.executable, "-c", LOAD)
        await asyncio.sleep(8)
        await read(board)
        await asyncio.sleep(1)
        reading = await read(board)
        await load.wait()
        keep("computing.json", reading)
        gpu = reading.gpus[0]
        print(gpu.values, gpu.processes)
        assert (use_percent(gpu) or 0) > 50
        assert gpu.values.get(ENGINE_ACTIVE, 1) > 0.5
        assert len(gpu.processes) == 1

    on_board(check)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc makes the program that fails")
def test_an_error_of_the_driver_is_told_once_and_at_once(tmp_path):
    source = tmp_path / "fault.cu"
    source.write_text(FAULT)
    program = str(tmp_path / "fault")
    subprocess.run(["nvcc", "-o", program, str(source)], check=True)

    async def check(board: Board) -> None:
        log = KernelLog(Path("/dev/kmsg"), board.xids.hear_kernel)
        opened = log.open()
        await asyncio.sleep(1)
        began = time.time()
        await (await asyncio.create_subprocess_exec(program)).wait()
        ended = time.time()
        await asyncio.sleep(3)
        log.close()
        told = [one for one in board.probe.changes() if isinstance(one, HealthEventReported)]
        print(f"kernel log {opened}, program {ended - began:.3f} s", told, board.heard)
        print("told after start", [at - began for at, _ in board.heard])
        keep("xid.json", told)
        assert [(one.kind, one.code) for one in told] == [(HealthEventKind.XID, 31)]

    on_board(check)


def test_what_a_reading_costs():
    async def check(board: Board) -> None:
        child = board.source._child
        assert child is not None
        pid = child._process.pid
        before, began = cpu_seconds(pid), time.perf_counter()
        for _ in range(100):
            await board.source.read(full=False)
        wall = time.perf_counter() - began
        quick_ms, before_full = 10 * (cpu_seconds(pid) - before), cpu_seconds(pid)
        for _ in range(100):
            await board.source.read(full=True)
        full_ms = 10 * (cpu_seconds(pid) - before_full)
        status = Path(f"/proc/{pid}/status").read_text()
        (rss,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")]
        print(f"a quick reading: {wall * 10:.2f} ms, child {quick_ms:.2f} ms of CPU")
        print(f"a full one: child {full_ms:.2f} ms of CPU, {rss} KiB")
        assert full_ms < 50

    on_board(check)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
