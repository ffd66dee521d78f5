"""Small work goes on elsewhere for a gang, through all services, also while some are killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from deploy.local.system import LocalSystem
from shared.core.model import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from tests.support.killing import checked
from tests.support.system import TEAM, UNLIMITED, Stage, launch
from tests.support.work import fleet

SECONDS_MAX = 20.0
RESERVATIONS = "SELECT count(*) FROM placement.reservation"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    system = launch(tmp_path_factory.mktemp("moves") / "system", leave_out=("fleet",))
    yield system
    system.discard()


async def submitted(stage: Stage, name: str, gpus: int) -> str:
    """Submit; the id of the workload."""
    pod_set = PodSet(gpu=GpuRequest(count=gpus), cpu_milli=1_000, memory_mib=1_024)
    spec = WorkloadSpec(
        name=name, kind=WorkloadKind.TRAINING, pod_sets=(pod_set,), grace_seconds=5
    )
    assert await stage.submit_http(spec, name) in (200, 202)
    found = await stage.get("workloads?limit=200")
    (one,) = [one for one in found["items"] if one["name"] == name]
    return str(one["id"])


async def broken_up(stage: Stage, kind: str) -> list[str]:
    """Two GPUs in use on each of two nodes; both workloads."""
    found = []
    for name, gpus in (("a", 2), ("filler", 6), ("b", 2)):
        found.append(await submitted(stage, f"{name}-{kind}", gpus))
        await stage.reaches(found[-1], "running")
    await stage.command(found[1], "cancel")
    await stage.reaches(found[1], "cancelled")
    return [found[0], found[2]]


async def organise(stage: Stage) -> None:
    """One queue that owns two machines with eight GPUs each."""
    await stage.organise()
    limits = {"gpu_milli": 16_000, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
    policy = {"min_runtime_seconds": 0, "cooldown_seconds": 0}
    flavors = [{"flavor": "default", "nominal": limits}]
    await stage.put(f"queues/{TEAM}", {"team": TEAM, "flavors": flavors, "policy": policy})
    await stage.nodes(list(fleet(2)))


@pytest.mark.parametrize("victim", ["nobody", "preemption", "placement", "quota", "binder"])
async def test_small_work_goes_on_elsewhere_and_the_gang_starts(
    stage: Stage, system: LocalSystem, victim: str
):
    if victim == "nobody":
        await organise(stage)
    small = await broken_up(stage, victim)

    started = time.monotonic()
    wide = await submitted(stage, f"wide-{victim}", 8)
    if victim != "nobody":
        await stage.until(RESERVATIONS, 2, 15, every_seconds=0.01)
        system.kill(victim)
    await stage.reaches(wide, "running", SECONDS_MAX)
    print(f"running {time.monotonic() - started:.2f} s after it was submitted, grace and start in")

    told = []
    for one in small:
        await stage.reaches(one, "running")
        items = (await stage.get(f"workloads/{one}/events"))["items"]
        told += [each["message"] for each in items if each["reason"] == "moved"]
    assert any(f"for workload {wide}" in one and "it goes on at" in one for one in told), told
    assert 0 == await stage.rows.fetchval(RESERVATIONS)
    for one in (*small, wide):
        await stage.command(one, "cancel")
        await stage.reaches(one, "cancelled")


async def test_the_checker_finds_nothing(stage: Stage):
    assert "clean" == await asyncio.to_thread(checked, stage)
