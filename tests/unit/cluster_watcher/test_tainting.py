"""Nodes carry the taints of what placement keeps work off, whatever the server and others do."""

import asyncio
from typing import Any

import pytest

from services.cluster_watcher import tainting
from services.cluster_watcher.tainting import Tainting
from shared.core.health.device import DeviceState
from shared.core.kubernetes.health_taints import GPUS_OUT, wanted
from shared.core.kubernetes.inventory import KubernetesNode, Taint
from shared.core.model.reason import Reason
from shared.events.nodes import DeviceHealthChanged, NodeCordoned, NodeUncordoned
from shared.ports.errors import Transient

NODE = "n"


class Server:
    """Has the taints of Muster that nodes carry; fails as often as it is told to."""

    def __init__(self):
        self.taints: dict[str, list[Any]] = {}
        self.failures = 0
        self.puts = 0

    async def put(self, node, taints):
        self.puts += 1
        if self.failures:
            self.failures -= 1
            raise Transient("no answer")
        before = self.taints.get(node, [])
        self.taints[node] = list(taints)
        return before != self.taints[node]

    async def close(self):
        """Nothing is open."""


class Rows:
    """The rows that writes leave."""

    def __init__(self):
        self.rows: dict[str, dict[str, Any]] = {}

    async def fetch(self, sql, cell):
        del sql, cell
        return list(self.rows.values())

    def take(self, writes):
        for write in writes:
            if write.sql.startswith("DELETE"):
                gone = [self.rows.pop(name) for name in write.arguments[0]]
                assert write.expect == len(gone)
            else:
                _, *columns = write.arguments
                found = list(zip(*columns, strict=True))
                assert write.expect == len(found)
                for one in found:
                    self.rows[one[0]] = dict(zip(("node", "reason", "gpus"), one, strict=True))


class World:
    def __init__(self):
        self.server, self.rows = Server(), Rows()
        self.tainting = Tainting(self.server, 0)
        self.task = asyncio.create_task(self.tainting.run())

    async def hear(self, *facts):
        for fact in facts:
            self.tainting.hear(fact)
        self.rows.take(self.tainting.writes())
        await self.settle()

    async def settle(self):
        for _ in range(10):
            await asyncio.sleep(0)

    async def restart(self):
        self.task.cancel()
        self.tainting = Tainting(self.server, 0)
        await self.tainting.load(self.rows)
        self.task = asyncio.create_task(self.tainting.run())
        await self.settle()

    @property
    def found(self):
        return {one["key"].removeprefix("muster.dev/"): one["value"] for one in self.on(NODE)}

    def on(self, node):
        return self.server.taints.get(node, [])


@pytest.fixture
async def world(monkeypatch):
    monkeypatch.setattr(tainting, "RETRY_SECONDS", 0)
    world = World()
    yield world
    world.task.cancel()


def step(gpu, after, *, done=True):
    return DeviceHealthChanged(
        node=NODE, gpu=gpu, uuid="", before=DeviceState.HEALTHY, after=after, rule="r", done=done
    )


def cordoned(reason=Reason.DRAINED):
    return NodeCordoned(node=NODE, reason=reason)


OUT = (DeviceState.DRAINING, DeviceState.QUARANTINED, DeviceState.PROBATION, DeviceState.LOST)


@pytest.mark.parametrize("state", [*OUT, DeviceState.FAILED])
async def test_a_gpu_that_takes_no_work_is_named_until_it_returns(world, state):
    await world.hear(step(3, state), step(0, state))
    out = world.found
    await world.hear(step(3, DeviceState.HEALTHY))

    assert {"gpus-out-of-service": "0.3"} == out
    assert {"gpus-out-of-service": "0"} == world.found


@pytest.mark.parametrize("fact", [step(1, DeviceState.SUSPECT), step(1, OUT[1], done=False)])
async def test_a_suspect_gpu_and_what_is_only_told_leave_no_taint(world, fact):
    await world.hear(fact)

    assert not world.on(NODE)
    assert not world.rows.rows


async def test_a_closed_node_says_why_and_keeps_its_gpus_when_it_opens(world):
    await world.hear(step(1, DeviceState.QUARANTINED), cordoned())
    closed = world.found
    await world.hear(NodeUncordoned(node=NODE))

    assert {"out-of-service": "drained", "gpus-out-of-service": "1"} == closed
    assert {"gpus-out-of-service": "1"} == world.found


async def test_a_restart_knows_what_is_out_and_writes_nothing_that_is_there(world):
    await world.hear(step(1, DeviceState.QUARANTINED))
    puts = world.server.puts
    world.server.taints.clear()
    await world.restart()

    assert {"gpus-out-of-service": "1"} == world.found
    assert puts + 1 == world.server.puts
    world.tainting.seen(a_node(Taint(key=GPUS_OUT, value="1", effect="PreferNoSchedule")))
    await world.settle()
    assert puts + 1 == world.server.puts


async def test_a_taint_that_somebody_takes_away_comes_back_and_a_stale_one_goes(world):
    await world.hear(step(1, DeviceState.QUARANTINED))
    world.server.taints.clear()
    world.tainting.seen(a_node())
    await world.settle()
    back = world.found
    world.server.taints["other"] = list(wanted("drained", ()))
    taint = Taint(key="muster.dev/out-of-service", value="drained", effect="NoSchedule")
    world.tainting.seen(a_node(taint, name="other"))
    await world.settle()

    assert {"gpus-out-of-service": "1"} == back
    assert not world.on("other")


async def test_what_the_server_does_not_do_is_tried_again(world):
    world.server.failures = 2
    await world.hear(cordoned(Reason.CORDONED))
    for _ in range(3):
        await world.settle()

    assert {"out-of-service": "cordoned"} == world.found


async def test_a_node_that_is_gone_leaves_no_row(world):
    await world.hear(cordoned())
    world.tainting.removed((NODE, "never-heard-of"))
    world.rows.take(world.tainting.writes())

    assert not world.rows.rows


async def test_without_a_place_to_write_to_nothing_runs():
    nowhere = Tainting(None, 0)
    await nowhere.run()
    await nowhere.close()


def a_node(*taints, name=NODE):
    return KubernetesNode(name=name, taints=taints)
