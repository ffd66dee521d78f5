"""An agent beside a cluster watcher: it reports use, and never what the node is."""

import asyncio
import contextlib

import pytest

from shared.adapters.memory import ManualClock
from shared.core.model import Gpu, Node
from shared.runtime.reporter import Pace, Reporter
from shared.simulator.machine import Machine

NODE = Node(
    name="n", flavor="h100", product="H100", cpu_milli=1, memory_mib=1,
    gpus=(Gpu(index=0, uuid="GPU-0", memory_mib=1),),
)  # fmt: skip


class Published:
    def __init__(self):
        self.topics = set()
        self.came = asyncio.Event()

    async def publish(self, rows):
        self.topics |= {row.topic for row in rows}
        if "usage.facts.v1" in self.topics:
            self.came.set()

    async def close(self):
        pass


@pytest.mark.parametrize(
    ("inventories", "topics"),
    [(False, {"usage.facts.v1"}), (True, {"usage.facts.v1", "node.facts.v1"})],
)
async def test_use_is_reported_and_the_node_only_where_no_watcher_does(inventories, topics):
    published, clock = Published(), ManualClock()
    machine = Machine(NODE, now_ms=clock.now_ms(), seed=0)
    reporter = Reporter(
        probes=[machine], publisher=published, clock=clock, pace=Pace(usage_seconds=1),
        inventories=inventories,
    )  # fmt: skip
    ready = reporter.ready
    running = asyncio.create_task(reporter.run())
    machine.set_ready(clock.now_ms(), ready=False, reason="x")

    async with asyncio.timeout(20):
        while not published.came.is_set():
            clock.advance(1)
            reporter.poke()
            await asyncio.sleep(0.01)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert topics == published.topics
    assert ready is not inventories
    assert reporter.ready
