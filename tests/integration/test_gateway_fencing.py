"""Fencing a node by HTTP: who may, of which nodes, and what work that waits for it is told."""

from __future__ import annotations

import time
from typing import Any

from shared.core.model.lifecycle import State
from shared.core.model.nouns import Node, Placement, PodPlacement, PodSet
from shared.core.model.reason import Reason
from shared.core.model.units import Resources
from shared.events import nodes, topics, workloads
from tests.support import facts as telling
from tests.support.facts import Fact, common
from tests.support.gateway import (
    Gateway,
    publish_facts,
    running_projection,
    until,
)
from tests.support.records import first_records

GENERATION = 7


def reported(name: str, *, ready: bool = True) -> Fact:
    node = Node(
        name=name, flavor="h100", product="H100", cpu_milli=1000, memory_mib=1024, gpus=(),
        ready=ready,
    )  # fmt: skip
    return topics.NODE_FACTS, nodes.NodeInventoryReported(node=node, generation=1)


def lost(name: str) -> Fact:
    report = nodes.GpuHealthReported(
        node=name, gpu=-1, healthy=False, generation=GENERATION, reason="NotReady"
    )
    return topics.NODE_FACTS, report


def fenced(name: str) -> Fact:
    return topics.WORKLOAD_FACTS, nodes.NodeCordoned(node=name, reason=Reason.FENCED)


def evicting(name: str, *names: str, at_ms: int) -> list[Fact]:
    """A gang with a pod on each node, which is being stopped as one of them is lost."""
    pods = tuple(
        PodPlacement(pod_set="main", rank=rank, node=node) for rank, node in enumerate(names)
    )
    placement = Placement(flavor="h100", pods=pods, charge=Resources(cpu_milli=1))
    evicted = workloads.WorkloadEvicted(
        **common(name, 4, State.EVICTING), reason=Reason.NODE_LOST, message="node n1 is lost"
    )
    began = telling.started(name, placement=placement, at_ms=at_ms, submitted_at_ms=at_ms)
    return [
        telling.queued(name, pods=PodSet(), at_ms=at_ms),
        *began,
        (topics.WORKLOAD_FACTS, evicted),
    ]


async def test_an_operator_fences_a_lost_node_and_it_is_told_on_the_log_and_in_the_audit(
    gateway: Gateway, database: Any
):
    async def known() -> Any:
        items = (await gateway.call("GET", "/v1/nodes")).body["items"]
        return {"n1": False, "n2": True} == {one["name"]: one["ready"] for one in items}

    async with running_projection(gateway.settings):
        facts = [reported("n1"), reported("n2"), lost("n1")]
        await publish_facts(gateway.settings, facts, source="t1", at_ms=1_000)
        await until(known)
    path = "/v1/nodes/n1/fence"
    refused = [
        await gateway.call("POST", path, {}, key=await gateway.key("red", role))
        for role in ("viewer", "member", "admin")
    ]
    done = await gateway.call("POST", path, {"note": "power is cut"})
    again = await gateway.call("POST", path, {})
    ready = await gateway.call("POST", "/v1/nodes/n2/fence", {})
    unknown = await gateway.call("POST", "/v1/nodes/n3/fence", {})
    assert 202 == done.status, done.body
    records = await first_records(gateway.settings, topics.NODE_COMMANDS, 2)
    rows = database.execute(
        "SELECT subject, after FROM gateway.audit WHERE kind = 'node' ORDER BY seq"
    )

    assert [403, 403, 403] == [one.status for one in refused]
    assert (202, {"name": "n1", "command": "fence"}) == (done.status, done.body)
    assert 202 == again.status
    body = records[0][1]
    assert ("n1", GENERATION, "power is cut") == (body["node"], body["generation"], body["note"])
    assert ["node/n1|fence"] * 2 == rows.split()
    assert (409, "urn:muster:problem:node-not-lost") == (ready.status, ready.body["type"])
    assert "node n2 is not lost" in ready.body["detail"]
    assert "muster admin drain n2" in ready.body["detail"]
    assert 404 == unknown.status


async def test_who_waits_for_lost_nodes_is_told_which_how_long_and_what_helps(gateway: Gateway):
    red = await gateway.key("red", "viewer")
    at_ms = time.time_ns() // 1_000_000 - 302_000  # 58 seconds until it is six minutes
    facts = [
        *(reported(one) for one in ("n1", "n2", "n3")),
        *evicting("w1", "n1", "n2", "n3", at_ms=at_ms),
        *evicting("w2", "n3", at_ms=at_ms),
        lost("n1"),
        lost("n2"),
    ]

    async def told(workload: str, text: str) -> Any:
        body = (await gateway.call("GET", f"/v1/workloads/{workload}/why", key=red)).body
        return body if text in str(body) else None

    async def node() -> Any:
        body = (await gateway.call("GET", "/v1/nodes/n1")).body
        return body if body["fenced"] else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=at_ms)
        waits = await until(lambda: told("w1", "node n2 is lost since"))
        other = await until(lambda: told("w2", "evicting"))
        await publish_facts(gateway.settings, [fenced("n1")], source="b", at_ms=at_ms + 1_000)
        one_left = await until(lambda: told("w1", "and fenced"))
        shown = await until(node)
        await publish_facts(gateway.settings, [fenced("n2")], source="c", at_ms=at_ms + 2_000)
        none_left = await until(lambda: told("w1", "in a moment"))

    assert "node n1 is lost since 20" in waits["message"]
    assert "(5 minutes) and may still run its pods; node n2 is lost" in waits["message"]
    assert waits["next_step"].endswith("muster admin nodes fence n1 n2")
    assert {"n1", "n2"} == set(waits["evidence"]["lost_seconds"])
    assert 302 <= waits["evidence"]["lost_seconds"]["n1"] < 400
    assert "is lost since" not in other["message"]
    assert one_left["next_step"].endswith("muster admin nodes fence n2")
    assert (True, True, False) == (shown["cordoned"], shown["fenced"], shown["draining"])
    assert "it queues again in a moment" == none_left["next_step"]
