"""An agent beside a cluster watcher: it tells its GPUs and their use, never what the node is."""

import asyncio
import contextlib

import pytest

from services.node_agent.settings import AgentSettings
from shared.adapters.memory import ManualClock
from shared.core.model.nouns import Gpu, Node
from shared.events.codec import decode_payload
from shared.events.nodes import GpusObserved
from shared.events.registry import NAME_BY_TYPE
from shared.runtime.reporter import Pace, Reporter, Telling
from shared.simulator.machine import Machine

NODE = Node(
    name="n", flavor="h100", product="H100", cpu_milli=1, memory_mib=1, links="i",
    gpus=(
        Gpu(index=1, uuid="GPU-b", memory_mib=1, numa=1, pci="0:2", mig=True),
        Gpu(index=0, uuid="GPU-a", memory_mib=1, pci="0:1"),
    ),
)  # fmt: skip
NODE_TOPIC, GPU_TOPIC, USAGE_TOPIC = "node.facts.v1", "gpu.facts.v1", "usage.facts.v1"


class Published:
    def __init__(self):
        self.rows = []
        self.came = asyncio.Event()

    async def publish(self, rows):
        self.rows += rows
        if USAGE_TOPIC in self.topics():
            self.came.set()

    async def close(self):
        pass

    def topics(self):
        return {row.topic for row in self.rows}

    def observed(self):
        name = NAME_BY_TYPE[GpusObserved]
        return [decode_payload(name, row.value) for row in self.rows if row.topic == GPU_TOPIC]


class Agent:
    def __init__(self, telling):
        self.published, self.clock = Published(), ManualClock()
        self.machine = Machine(NODE, now_ms=self.clock.now_ms(), seed=0)
        self.reporter = Reporter(
            probes=[self.machine], publisher=self.published, clock=self.clock,
            pace=Pace(usage_seconds=1), cell=2, telling=telling,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("telling", "topics"),
    [
        (Telling.USAGE, {USAGE_TOPIC}),
        (Telling.GPUS, {USAGE_TOPIC, GPU_TOPIC}),
        (Telling.ALL, {USAGE_TOPIC, NODE_TOPIC}),
    ],
)
async def test_use_is_reported_and_the_node_only_where_no_watcher_does(telling, topics):
    agent = Agent(telling)
    ready = agent.reporter.ready
    running = asyncio.create_task(agent.reporter.run())
    agent.machine.set_ready(agent.clock.now_ms(), ready=False, reason="x")

    async with asyncio.timeout(20):
        while not agent.published.came.is_set():
            agent.clock.advance(1)
            agent.reporter.poke()
            await asyncio.sleep(0.01)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert topics == agent.published.topics()
    assert ready is (telling is Telling.USAGE)
    assert agent.reporter.ready


async def test_gpus_are_told_in_order_with_what_the_api_server_cannot_know():
    agent = Agent(Telling.GPUS)

    await agent.reporter.announce()

    (fact,) = agent.published.observed()
    assert ("n", agent.clock.now_ms(), "i", 2) == (fact.node, fact.at_ms, fact.links, fact.cell)
    assert [(0, "GPU-a", 0, "0:1", False), (1, "GPU-b", 1, "0:2", True)] == [
        (gpu.index, gpu.uuid, gpu.numa, gpu.pci, gpu.mig) for gpu in fact.gpus
    ]


async def test_each_refresh_is_a_message_of_its_own():
    """The watcher may have forgotten the node meanwhile; by its id nobody may drop it."""
    agent = Agent(Telling.GPUS)

    await agent.reporter.announce()
    await agent.reporter.announce()

    first, second = agent.published.observed()
    assert first.at_ms < second.at_ms
    assert 2 == len({row.event_id for row in agent.published.rows})


async def test_a_gpu_that_breaks_is_told_at_once_with_its_reason_and_healed_without():
    agent = Agent(Telling.GPUS)
    await agent.reporter.announce()
    await agent.reporter.tell_changes()
    quiet = len(agent.published.rows)
    agent.machine.set_gpu(1, agent.clock.now_ms(), healthy=False, reason="x" * 300)
    await agent.reporter.tell_changes()
    await agent.reporter.announce()
    agent.machine.set_gpu(1, agent.clock.now_ms(), healthy=True, reason="better")
    await agent.reporter.tell_changes()

    _, broken, again, healed = agent.published.observed()

    assert 1 == quiet
    for fact in (broken, again):
        assert [(True, ""), (False, "x" * 256)] == [(one.healthy, one.reason) for one in fact.gpus]
    assert [(True, ""), (True, "")] == [(one.healthy, one.reason) for one in healed.gpus]


def test_what_an_agent_tells_is_a_setting(monkeypatch, tmp_path):
    monkeypatch.setenv("MUSTER_KAFKA_BOOTSTRAP", "x:1")
    monkeypatch.setenv("MUSTER_NODE_DESCRIPTION", str(tmp_path))
    told = []
    for text in ("usage", "gpus", "all"):
        monkeypatch.setenv("MUSTER_AGENT_REPORTS", text)
        told.append(AgentSettings().agent_reports)

    assert [Telling.USAGE, Telling.GPUS, Telling.ALL] == told
