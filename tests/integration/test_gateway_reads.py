"""The read model of the gateway: it follows the facts on a real broker, and streams them."""

from __future__ import annotations

import asyncio
import json
import time

import aiohttp

from shared.core.model.lifecycle import State
from shared.core.model.nouns import (
    Gpu,
    GpuShare,
    Node,
    Placement,
    PodPlacement,
    PodSet,
)
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.events import nodes, topics, workloads
from tests.support import facts as telling
from tests.support.facts import Fact
from tests.support.gateway import (
    SPEC,
    Gateway,
    publish_facts,
    running_projection,
    until,
)


def _node() -> list[Fact]:
    """Eight GPUs, one of them broken."""
    gpus = tuple(Gpu(index=index, uuid=f"g{index}", memory_mib=81_920) for index in range(8))
    node = Node(
        name="node-1",
        flavor="h100",
        product="H100",
        cpu_milli=96_000,
        memory_mib=1 << 20,
        gpus=gpus,
    )
    broken = nodes.GpuHealthReported(node="node-1", gpu=3, healthy=False, generation=2)
    report = nodes.NodeInventoryReported(node=node, generation=1)
    return [(topics.NODE_FACTS, report), (topics.NODE_FACTS, broken)]


def _waiting(identifier: str, at_ms: int) -> list[Fact]:
    """Queued and refused."""
    pods = PodSet(cpu_milli=4000, memory_mib=1024)
    message, evidence = "8 needed, 3 free", {"needed": 8, "free": 3}
    return [
        telling.queued(identifier, pods=pods, at_ms=at_ms, priority=7),
        telling.refused(identifier, message, "wait for 5", evidence),
    ]


def _running(identifier: str, at_ms: int) -> list[Fact]:
    """On the node's second GPU."""
    share = GpuShare(index=1, mask=255, milli=1000, memory_mib=0)
    placement = Placement(
        flavor="h100",
        pods=(PodPlacement(pod_set="main", rank=0, node="node-1", shares=(share,)),),
        charge=Resources(gpu_milli=1000, cpu_milli=4000, memory_mib=1024),
    )
    return telling.started(
        identifier, placement=placement, at_ms=at_ms + 50, submitted_at_ms=at_ms, priority=7
    )


def _raised(identifier: str) -> list[Fact]:
    """It runs on, in another class."""
    raised = workloads.WorkloadReprioritised(
        workload_id=identifier,
        team="red",
        queue="red",
        version=4,
        state=State.RUNNING,
        attempt=1,
        priority=1000,
        priority_class="inference-production",
    )
    return [(topics.WORKLOAD_FACTS, raised)]


async def test_the_read_model_follows_the_facts_and_streams_them(gateway: Gateway):
    key = await gateway.key("red", "member")
    made = await gateway.call("POST", "/v1/workloads", SPEC, key=key)
    identifier = made.body["id"]
    at_ms = int(time.time() * 1000)
    waiting = [*_node(), *_waiting(identifier, at_ms)]
    path = f"/v1/workloads/{identifier}"
    headers = {
        "Authorization": f"Bearer {key}",
        "Accept": "text/event-stream",
        "Last-Event-ID": "0",
    }

    async def state(wanted: str):
        reply = await gateway.call("GET", path, key=key)
        return reply if reply.body["state"] == wanted else None

    async with (
        running_projection(gateway.settings),
        gateway.http.get(f"{gateway.address}/v1/events", headers=headers) as stream,
    ):
        await publish_facts(gateway.settings, waiting, source="t1", at_ms=at_ms)
        await until(lambda: state("queued"))

        async def refused():
            reply = await gateway.call("GET", f"{path}/why", key=key)
            return reply if reply.body["reason"] == "InsufficientCapacity" else None

        why = await until(refused)
        queue = await gateway.call("GET", "/v1/queues/red", key=key)
        begun = _running(identifier, at_ms)
        await publish_facts(gateway.settings, begun, source="t2", at_ms=at_ms + 9)
        running = await until(lambda: state("running"))
        await publish_facts(gateway.settings, _raised(identifier), source="t3", at_ms=at_ms + 99)

        async def has_class():
            reply = await gateway.call("GET", path, key=key)
            return reply if reply.body["priority_class"] == "inference-production" else None

        of_now = await until(has_class)
        streamed = await _streamed(stream, 4)
        node = await until(lambda: _broken(gateway, key))
        used = await until(lambda: _used(gateway, key))
        nodes_page = await gateway.call("GET", "/v1/nodes?flavor=h100", key=key)
        recorded = await gateway.call("GET", f"{path}/events?after=1", key=key)
        after = await gateway.call("GET", f"{path}/why", key=key)

    assert ("running", 1000, "") == (
        of_now.body["state"],
        of_now.body["priority"],
        of_now.body["spec"].get("priority_class", ""),
    )
    assert {"needed": 8, "free": 3} == why.body["evidence"]
    assert "wait for 5" == why.body["next_step"]
    assert ({"InsufficientCapacity": 1}, 1) == (
        queue.body["waiting_reasons"],
        queue.body["waiting"],
    )
    assert ("h100", ["node-1"], 7, 3) == tuple(
        running.body[name] for name in ("flavor", "nodes", "priority", "version")
    )
    assert [4000] == [one["cpu_milli"] for one in running.body["spec"]["pod_sets"]]
    assert ["queued", "queued", "placed", "running"] == [event["state"] for event in streamed]
    assert [2, 3, 4, 5] == [event["id"] for event in recorded.body["items"]]
    assert [identifier] == node.body["devices"][1]["workloads"]
    assert [3] == node.body["unhealthy_gpus"]
    assert 1000 == nodes_page.body["items"][0]["used_gpu_milli"]
    assert 4000 == used["flavors"][0]["used"]["cpu_milli"]
    assert "Running" == after.body["reason"]


async def _broken(gateway: Gateway, key: str):
    """The node once its GPU is told to be broken: that comes on a topic of its own."""
    reply = await gateway.call("GET", "/v1/nodes/node-1", key=key)
    return reply if reply.body.get("unhealthy_gpus") else None


async def _used(gateway: Gateway, key: str):
    reply = await gateway.call("GET", "/v1/queues/red", key=key)
    used = reply.body["flavors"][0]["used"]["gpu_milli"]
    return reply.body if used else None


async def _streamed(stream: aiohttp.ClientResponse, count: int) -> list[dict]:
    events: list[dict] = []
    async with asyncio.timeout(40):
        while len(events) < count:
            line = (await stream.content.readline()).decode()
            if line.startswith("data:"):
                events.append(json.loads(line[5:]))
    return events


async def test_a_node_tells_that_it_is_drained_and_why_until_it_takes_work_again(
    gateway: Gateway,
):
    report, _ = _node()
    drained = nodes.NodeCordoned(
        node="node-1", reason=Reason.DRAINED, message="by op: new fan", gone_at_ms=9_000, evicted=1
    )

    async def node(*, cordoned: bool):
        reply = await gateway.call("GET", "/v1/nodes/node-1")
        return reply.body if reply.body.get("cordoned") is cordoned else None

    async with running_projection(gateway.settings):
        told = [report, (topics.WORKLOAD_FACTS, drained)]
        await publish_facts(gateway.settings, told, source="t1", at_ms=1_000)
        during = await until(lambda: node(cordoned=True))
        page = await gateway.call("GET", "/v1/nodes")
        lifted = [(topics.WORKLOAD_FACTS, nodes.NodeUncordoned(node="node-1"))]
        await publish_facts(gateway.settings, lifted, source="t2", at_ms=2_000)
        after = await until(lambda: node(cordoned=False))

    shown = ("draining", "cordon_message", "gone_at_ms")
    assert (True, "by op: new fan", 9_000) == tuple(during[one] for one in shown)
    assert during["draining"] == page.body["items"][0]["draining"]
    assert (False, "", None) == tuple(after[one] for one in shown)
