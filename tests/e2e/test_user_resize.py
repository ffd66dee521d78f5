"""The owner resizes a running gang through every service; wrong sizes are refused at the door."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from deploy.local.system import LocalSystem
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.support.killing import checked
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet

ALLOCATED = "SELECT count(*) FROM placement.allocation WHERE workload_id = '{}'"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    system = launch(tmp_path_factory.mktemp("resize") / "system")
    yield system
    system.discard()


def a_gang(name: str, count: int, least: int) -> WorkloadSpec:
    pod_set = PodSet(
        count=count,
        min_count=least,
        gpu=GpuRequest(count=1),
        cpu_milli=1_000,
        memory_mib=1_024,
    )
    return WorkloadSpec(
        name=name, kind=WorkloadKind.TRAINING, pod_sets=(pod_set,), labels={"sweep": "7"}
    )


async def holds(stage: Stage, name: str, pods: int) -> None:
    """Wait until the ledger has so many pods of a workload."""
    for _ in range(1200):
        if await stage.rows.fetchval(ALLOCATED.format(workload_id(TEAM, name))) == pods:
            return
        await asyncio.sleep(0.05)
    raise TimeoutError(f"{name} has not {pods} pods")


async def test_a_gang_follows_its_owner_while_placement_is_killed(
    stage: Stage, system: LocalSystem
):
    await stage.organise()
    await stage.nodes(list(fleet(2)))
    for name in ("one", "two"):
        assert await stage.submit_http(a_gang(name, 8, 2), name) in (200, 202)
        await stage.reaches(workload_id(TEAM, name), "running")
        await holds(stage, name, 8)

    await stage.command(workload_id(TEAM, "one"), "resize", pods=3)
    system.kill("placement")
    await holds(stage, "one", 3)
    await stage.command(workload_id(TEAM, "one"), "resize", pods=6)
    system.kill("binder")
    await holds(stage, "one", 6)
    body = {"labels": {"sweep": "7"}, "pods": 2}
    async with stage.api.post("/v1/workloads:resize", params={}, json={**body, "team": TEAM}) as r:
        assert r.status == 202, await r.text()
        assert 2 == len((await r.json())["ids"])
    for name in ("one", "two"):
        await holds(stage, name, 2)

    events: list[dict[str, Any]] = []
    async with asyncio.timeout(30):  # the read model comes behind the ledger
        while (asked := _sizes_asked(events)) != [3, 6, 2]:
            events = (await stage.get(f"workloads/{workload_id(TEAM, 'one')}/events"))["items"]
            assert len(asked) <= 3, asked
            await asyncio.sleep(0.1)
    told = [one["message"] for one in events if one["type"] == "muster.workload.resized.v1"]
    assert "3 of 3 pods: its owner asked for this size" in told


def _sizes_asked(events: list[dict[str, Any]]) -> list[int]:
    asked = [one["message"] for one in events if one["type"] == "muster.resize.workload.v1"]
    return [int(one.split()[0]) for one in asked]


@pytest.mark.parametrize(
    ("pods", "rule"),
    [(1, "may have 2 to 8 pods"), (9, "may have 2 to 8 pods"), (0, ">= 1")],
)
async def test_a_size_out_of_bounds_is_refused_with_the_bounds(stage: Stage, pods: int, rule: str):
    path = f"/v1/workloads/{workload_id(TEAM, 'one')}/resize"
    async with stage.api.post(path, json={"pods": pods}) as reply:
        answer = await reply.json()

    assert reply.status == 400
    assert "pods" in str(answer["errors"])
    assert rule in str(answer["errors"])


async def test_a_gang_that_is_not_elastic_keeps_its_size(stage: Stage):
    assert await stage.submit_http(a_gang("fixed", 2, 2), "fixed") in (200, 202)
    name = workload_id(TEAM, "fixed")
    await stage.reaches(name, "running")

    async with stage.api.post(f"/v1/workloads/{name}/resize", json={"pods": 1}) as reply:
        answer = await reply.json()

    assert reply.status == 400
    assert "always has 2 pods" in str(answer["errors"])


async def test_the_checker_finds_nothing(stage: Stage):
    assert "clean" == await asyncio.to_thread(checked, stage)
