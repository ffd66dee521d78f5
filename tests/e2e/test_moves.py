"""Small work goes on elsewhere for a gang, through all services, also while some are killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from deploy.local.system import LocalSystem
from tests.support.at_once import organise, submitted
from tests.support.killing import checked
from tests.support.system import Stage, launch

SECONDS_MAX = 20.0
RESERVATIONS = "SELECT count(*) FROM placement.reservation"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    system = launch(tmp_path_factory.mktemp("moves") / "system", leave_out=("fleet",))
    yield system
    system.discard()


async def broken_up(stage: Stage, kind: str) -> list[str]:
    """Two GPUs in use on each of two nodes; both workloads."""
    found = []
    for name, gpus in (("a", 2), ("filler", 6), ("b", 2)):
        found.append(await submitted(stage, f"{name}-{kind}", gpus))
        await stage.reaches(found[-1], "running")
    await stage.command(found[1], "cancel")
    await stage.reaches(found[1], "cancelled")
    return [found[0], found[2]]


@pytest.mark.parametrize("victim", ["nobody", "preemption", "placement", "quota", "binder"])
async def test_small_work_goes_on_elsewhere_and_the_gang_starts(
    stage: Stage, system: LocalSystem, victim: str
):
    if victim == "nobody":
        await organise(stage, nodes=2, gpu_milli=16_000)
    small = await broken_up(stage, victim)

    started = time.monotonic()
    wide = await submitted(stage, f"wide-{victim}", 8)
    if victim != "nobody":
        await stage.until(RESERVATIONS, 2, SECONDS_MAX, every_seconds=0.01)
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
