"""Somebody is evicted for somebody else, through every service, also while services are killed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from deploy.local.system import LocalSystem
from shared.adapters.kafka.client import options
from shared.events.nodes import NodeNoticeReported
from shared.events.topics import NODE_FACTS
from tests.support.at_once import POLICY, organise, submitted
from tests.support.kafka_access import team_access
from tests.support.killing import checked
from tests.support.system import UNLIMITED, Stage, launch, now_ms
from tests.support.work import fleet, record

SECONDS_MAX = 20.0
OWN_SECONDS_MAX = 2.0
STOP_SECONDS = 0.5
"""So long the simulated cluster takes to stop a pod."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    system = launch(tmp_path_factory.mktemp("preemption") / "system", leave_out=("fleet",))
    yield system
    system.discard()


async def heard(stage: Stage, workload_id: str) -> str:
    """What a victim was told when it was back in its queue."""
    items = (await stage.get(f"workloads/{workload_id}/events"))["items"]
    told = [one for one in items if one["reason"] == "preempted" and one["state"] == "queued"]
    return str(told[0]["message"])


async def test_the_lower_priority_makes_room_and_hears_for_whom(stage: Stage):
    await organise(stage, nodes=1)
    low = [await submitted(stage, f"low-{number}", 4, "training-batch") for number in range(2)]
    for one in low:
        await stage.reaches(one, "running")

    started = time.monotonic()
    high = await submitted(stage, "high", 8, "training-interactive")
    await stage.reaches(high, "running")
    print(f"running {time.monotonic() - started:.2f} s after it was submitted, grace and start in")

    for one in low:
        await stage.reaches(one, "queued")
        assert high in await heard(stage, one)
    await stage.command(high, "cancel")
    for one in low:
        await stage.reaches(one, "running")
        await stage.command(one, "cancel")
        await stage.reaches(one, "cancelled")


async def changes(system: LocalSystem, user: dict[str, Any], workload_id: str) -> list[Any]:
    """What the team reads of one workload on its results topic, until that is cancelled."""
    consumer = AIOKafkaConsumer(
        user["results_topic"],
        **options(team_access(system.kafka, user)),
        group_id=user["consumer_group"],
        auto_offset_reset="earliest",
    )
    found: list[Any] = []
    async with asyncio.timeout(SECONDS_MAX), consumer:
        while not found or found[-1]["state"] != "cancelled":
            one = json.loads((await consumer.getone()).value)
            if one.get("version") and one["workload_id"] == workload_id:
                found.append(one)
    return found


async def test_the_results_topic_tells_of_the_eviction_with_the_reasons_of_the_api(
    stage: Stage, system: LocalSystem
):
    limits = {"gpu_milli": 8_000, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
    queue = {"team": "told", "flavors": [{"flavor": "default", "nominal": limits}]}
    body = {"default_queue": "told", "kafka_events": True}
    async with stage.api.patch("/v1/teams/told", json=body) as reply:
        user = (await reply.json())["kafka_user"]
    await stage.put("queues/told", queue | {"policy": POLICY})
    low = await submitted(stage, "low-told", 8, "training-batch", team="told")
    await stage.reaches(low, "running")
    high = await submitted(stage, "high-told", 8, "training-interactive", team="told")
    await stage.reaches(high, "running")
    await stage.command(high, "cancel")
    await stage.reaches(low, "running")
    await stage.command(low, "cancel")
    await stage.reaches(low, "cancelled")

    found = await changes(system, user, low)

    fields = ("type", "version", "state", "reason", "message")
    by_http = (await stage.get(f"workloads/{low}/events"))["items"]
    told = [tuple(one.get(name, "") for name in fields) for one in found]
    kinds = {one["type"] for one in found}
    assert told == [tuple(one[name] for name in fields) for one in by_http if one["type"] in kinds]
    began = ["placed", "running"]
    states = [*began, "evicting", "queued", *began, "cancelled"]
    assert states == [one["state"] for one in found]
    evicted, requeued = found[2:4]
    assert ("preempted", "preempted") == (evicted["reason"], requeued["reason"])
    assert high in evicted["message"], "for whom is told"


@pytest.mark.parametrize("victim", ["preemption", "placement"])
async def test_a_service_that_is_killed_while_room_is_vacated_loses_nothing(
    stage: Stage, system: LocalSystem, victim: str
):
    low = await submitted(stage, f"low-{victim}", 8, "training-batch")
    await stage.reaches(low, "running")
    high = await submitted(stage, f"high-{victim}", 8, "training-interactive")

    await stage.until("SELECT count(*) FROM placement.reservation", 1, 60, every_seconds=0.01)
    system.kill(victim)
    await stage.reaches(high, "running", SECONDS_MAX)

    await stage.reaches(low, "queued")
    assert high in await heard(stage, low)
    assert 0 == await stage.rows.fetchval("SELECT count(*) FROM placement.reservation")
    for one in (high, low):
        await stage.command(one, "cancel")
        await stage.reaches(one, "cancelled")


async def a_cohort(stage: Stage) -> None:
    """Two teams whose queues own four GPUs each and may borrow from each other."""
    await stage.put("cohorts/all", {})
    limits = {"gpu_milli": 4_000, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
    for team in ("owner", "borrower"):
        await stage.put(f"teams/{team}", {"default_queue": team})
        flavors = [{"flavor": "default", "nominal": limits}]
        queue = {"team": team, "cohort": "all", "flavors": flavors, "policy": POLICY}
        await stage.put(f"queues/{team}", queue)


async def test_a_queue_gets_its_nominal_quota_back_from_those_who_borrowed_it(stage: Stage):
    await a_cohort(stage)
    borrowers = [await submitted(stage, f"b-{one}", 4, "", team="borrower") for one in range(2)]
    for one in borrowers:
        await stage.reaches(one, "running")

    started = time.monotonic()
    owner = await submitted(stage, "o", 4, "", team="owner")
    await stage.reaches(owner, "running")
    print(f"nominal quota is back {time.monotonic() - started:.2f} s after it was asked for")

    states = [(await stage.get(f"workloads/{one}"))["state"] for one in borrowers]
    assert ["queued", "running"] == sorted(states)
    told = await heard(stage, borrowers[states.index("queued")])
    assert "rule reclaim" in told
    assert owner in told
    for one in (owner, *borrowers):
        await stage.command(one, "cancel")
        await stage.reaches(one, "cancelled")


@pytest.mark.parametrize("how", ["drain", "notice"])
async def test_work_leaves_a_node_and_is_placed_elsewhere_at_once(stage: Stage, how: str):
    await stage.nodes(list(fleet(2)))
    name = await submitted(stage, f"moved-{how}", 8, "training-batch")
    (node,) = (await stage.reaches(name, "running"))["nodes"]

    started, started_ms = time.monotonic(), now_ms()
    if how == "drain":
        async with stage.api.post(f"/v1/nodes/{node}/drain", json={"note": "x"}) as reply:
            assert reply.status == 202
    else:
        gone_at_ms = started_ms + 60_000
        notice = NodeNoticeReported(node=node, gone_at_ms=gone_at_ms, generation=started_ms)
        await stage.publish([record(notice, NODE_FACTS, node, f"notice-{node}", started_ms, 0)])
    placed = "SELECT count(*) FROM placement.audit WHERE subject = '{}' AND after = 'placed'"
    await stage.until(placed.format(name), 2, SECONDS_MAX, every_seconds=0.01)
    own_seconds = time.monotonic() - started - STOP_SECONDS
    print(f"{how}: placed elsewhere {own_seconds:.2f} s later, beside the stop of its pods")

    found = await stage.reaches(name, "running")
    assert [node] != found["nodes"]
    assert own_seconds < OWN_SECONDS_MAX
    await stage.command(name, "cancel")
    await stage.reaches(name, "cancelled")
    async with stage.api.post(f"/v1/nodes/{node}/uncordon", json={}) as reply:
        assert reply.status == 202


async def test_the_checker_finds_nothing(stage: Stage):
    assert "clean" == await asyncio.to_thread(checked, stage)
