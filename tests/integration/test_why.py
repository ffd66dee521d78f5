"""`why` on a real database: place, limits, who ends next, who took the room; and the past."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from shared.core.decision import Reason
from shared.core.lifecycle import State
from shared.core.model import GpuRequest, Placement, PodSet, Workload, WorkloadKind, WorkloadSpec
from shared.core.units import Resources
from shared.events import quotas, topics, workloads
from tests.fixtures.servers import Database
from tests.support.gateway import (
    Gateway,
    publish_facts,
    running_gateway,
    running_projection,
    until,
)

Fact = tuple[topics.Topic, workloads.Wire]
START = int(time.time() * 1000) - 60_000
HOUR = 3_600


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as running:
        await running.organise("red", "blue")
        await running.call("PUT", "/v1/cohorts/all", {})
        for team in ("red", "blue"):
            nominal = {"gpu_milli": 8000, "cpu_milli": 64_000, "memory_mib": 65_536}
            body: dict = {"team": team, "cohort": "all"}
            body["flavors"] = [{"flavor": "h100", "nominal": nominal}]
            reply = await running.call(
                "PUT", f"/v1/queues/{team}", body, headers={"If-Match": '"2"'}
            )
            assert reply.status in {200, 412}, reply.body
        yield running


def queued(identifier: str, team: str = "red", *, priority: int = 0, after: int = 0) -> Fact:
    pods = PodSet(gpu=GpuRequest(count=8), cpu_milli=4000, memory_mib=1024)
    spec = WorkloadSpec(
        name=f"n-{identifier}",
        kind=WorkloadKind.TRAINING,
        pod_sets=(pods,),
        expected_duration_seconds=HOUR,
    )
    workload = Workload(
        id=identifier,
        team=team,
        queue=team,
        cell=0,
        priority=priority,
        spec=spec,
        submitted_at_ms=START + after,
    )
    return topics.QUEUE_FACTS, workloads.WorkloadQueued(workload=workload, body_hash="h")


def common(identifier: str, team: str, version: int, state: State) -> dict:
    base: dict = {"workload_id": identifier, "team": team, "queue": team, "priority": 0}
    return base | {"version": version, "state": state, "attempt": 1}


def running(identifier: str, team: str, since_ms: int) -> list[Fact]:
    charge = Resources(gpu_milli=8000, cpu_milli=4000, memory_mib=1024)
    placed = workloads.WorkloadPlaced(
        **common(identifier, team, 2, State.PLACED),
        placement=Placement(flavor="h100", pods=(), charge=charge),
        placed_at_ms=since_ms,
        submitted_at_ms=START,
    )
    runs = workloads.WorkloadRunning(
        **common(identifier, team, 3, State.RUNNING), running_at_ms=since_ms
    )
    return [(topics.WORKLOAD_FACTS, placed), (topics.WORKLOAD_FACTS, runs)]


def refused(identifier: str) -> Fact:
    fact = quotas.QuotaRefused(
        workload_id=identifier,
        team="red",
        queue="red",
        reason=Reason.WAITING_FOR_QUOTA,
        message="exceeded quota: all",
        next_step="wait",
        evidence={"requested_gpu_milli": 8000},
    )
    return topics.QUOTA_FACTS, fact


async def test_one_who_waits_is_told_his_place_his_limits_and_who_ends_next(gateway: Gateway):
    red, blue = await gateway.key("red", "viewer"), await gateway.key("blue", "viewer")
    facts = [
        queued("w1"),
        queued("w2", "blue"),
        *running("w1", "red", START + 100),
        *running("w2", "blue", START + 50),
        queued("w3", after=10, priority=5),
        queued("w4", after=5),
        queued("w6", after=9),
        queued("w5", after=9),
        refused("w6"),
    ]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)

        async def told():
            reply = await gateway.call("GET", "/v1/workloads/w6/why", key=red)
            return reply if reply.body.get("reason") == "WaitingForQuota" else None

        why = (await until(told)).body
        first = (await gateway.call("GET", "/v1/workloads/w3/why", key=red)).body
        hidden = await gateway.call("GET", "/v1/workloads/w6/why", key=blue)

    assert (4, 4, 24_000) == tuple(
        why["place"][name] for name in ("place", "waiting", "gpu_milli_ahead")
    )
    assert ["n-w3", "n-w4", "n-w5"] == [one["name"] for one in why["place"]["first"]]
    assert (1, []) == (first["place"]["place"], first["place"]["first"])
    levels = {one["name"]: one for one in why["limits"]}
    assert {"red": False, "all": True} == {name: one["blocks"] for name, one in levels.items()}
    assert 16_000 == levels["all"]["used"]["gpu_milli"]
    assert 0 == levels["all"]["available"]["gpu_milli"]
    ends = [one["ends_at_ms"] for one in why["frees_next"]]
    assert [START + 50 + HOUR * 1000, START + 100 + HOUR * 1000] == ends
    assert ["", "n-w1"] == [one["workload"]["name"] for one in why["frees_next"]]
    assert 8000 == why["frees_next"][0]["charge"]["gpu_milli"]
    assert 404 == hidden.status


async def test_who_was_preempted_is_told_for_whom_and_the_past_is_told_as_it_was(
    gateway: Gateway,
):
    red = await gateway.key("red", "viewer")
    preemption = workloads.Preemption(
        plan_id="p", rule="reclaim", workload_id="w9", team="blue", queue="blue"
    )
    evicted = workloads.WorkloadEvicted(
        **common("w1", "red", 4, State.EVICTING),
        reason="Reclaimed",
        message="blue takes back what it lent",
        preemption=preemption,
        back_at_ms=77,
    )
    requeued = workloads.WorkloadRequeued(
        **common("w1", "red", 5, State.QUEUED), reason="Reclaimed", message="queues again"
    )
    facts = [queued("w1"), refused("w1"), *running("w1", "red", START + 100)]
    back = [(topics.WORKLOAD_FACTS, evicted), (topics.WORKLOAD_FACTS, requeued)]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        await publish_facts(gateway.settings, back, source="b", at_ms=START + 5_000)

        async def again():
            reply = await gateway.call("GET", "/v1/workloads/w1/why", key=red)
            return reply if reply.body.get("preempted_by") else None

        now = (await until(again)).body
        path = "/v1/workloads/w1/why?at="
        then = (await gateway.call("GET", f"{path}{START + 2}", key=red)).body
        between = (await gateway.call("GET", f"{path}{START + 500}", key=red)).body
        before = await gateway.call("GET", f"{path}{START - 1}", key=red)

    assert ("queued", "Reclaimed") == (now["state"], now["reason"])
    assert ("blue", "reclaim", 77) == tuple(
        now["preempted_by"][name] for name in ("team", "rule", "back_at_ms")
    )
    assert ("queued", "WaitingForQuota", None) == (then["state"], then["reason"], then["place"])
    assert ("running", "Running", None) == (
        between["state"],
        between["reason"],
        between["preempted_by"],
    )
    assert 400 == before.status
