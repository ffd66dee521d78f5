"""Idle work is warned of and then released, through every service, while services are killed."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deploy.local.system import LocalSystem
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.support.killing import checked
from tests.support.system import TEAM, UNLIMITED, Stage, launch

WARN_SECONDS, RELEASE_SECONDS = 3, 9
SECONDS_MAX = 40.0
GROUP = {
    "name": "n",
    "count": 2,
    "flavor": "default",
    "product": "NVIDIA-H100-80GB-HBM3",
    "gpus": 4,
    "gpu_memory_mib": 81_559,
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder: Path = tmp_path_factory.mktemp("idle")
    described = folder / "fleet.json"
    described.write_text(json.dumps({"groups": [GROUP]}))
    overrides = {
        "fleet": {
            "MUSTER_FLEET_FILE": str(described),
            "MUSTER_FLEET_USAGE_SECONDS": "0.5",
            "MUSTER_FLEET_FOLLOW_SECONDS": "0.25",
        }
    }
    system = launch(folder / "system", overrides=overrides, leave_out=())
    yield system
    system.discard()


async def organise(stage: Stage, release_seconds: int) -> None:
    """One team whose idle work is warned of and released."""
    idle = {"warn_after_seconds": WARN_SECONDS, "release_after_seconds": release_seconds}
    await stage.put("flavors/default", {})
    await stage.put(f"teams/{TEAM}", {"default_queue": TEAM, "idle": idle})
    limits = {"gpu_milli": UNLIMITED, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
    flavors = [{"flavor": "default", "nominal": limits}]
    await stage.put(f"queues/{TEAM}", {"team": TEAM, "flavors": flavors})
    await stage.until("SELECT count(*) FROM placement.node", 2, 60)


async def use(stage: Stage, identifier: str, percent: int) -> None:
    """Let a workload use so much of its GPUs."""
    async with aiohttp.ClientSession(stage.system.url("fleet")) as fleet:
        path = f"/v1/workloads/{identifier}/use"
        async with fleet.post(path, params={"percent": percent}) as reply:
            assert reply.status == 200


async def started(stage: Stage, name: str, percent: int, kind: WorkloadKind) -> str:
    """Submit a workload that uses so much of its GPUs, and see it run; its id."""
    identifier = workload_id(TEAM, name)
    await use(stage, identifier, percent)
    notebook = kind is WorkloadKind.NOTEBOOK
    gpu = GpuRequest(milli=500, memory_mib=10_000) if notebook else GpuRequest(count=1)
    pods = 1 if notebook else 2
    pod_set = PodSet(count=pods, gpu=gpu, cpu_milli=1_000, memory_mib=1_024)
    spec = WorkloadSpec(name=name, kind=kind, pod_sets=(pod_set,), grace_seconds=2)
    assert await stage.submit_http(spec, name) in (200, 202)
    await stage.reaches(identifier, "running")
    return identifier


async def told(stage: Stage, identifier: str, event: str) -> dict[str, Any]:
    """Wait for an event of a workload."""
    deadline, items = time.monotonic() + SECONDS_MAX, []
    while time.monotonic() < deadline:
        items = (await stage.get(f"workloads/{identifier}/events"))["items"]
        found = [one for one in items if one["type"] == f"muster.{event}.v1"]
        if found:
            return dict(found[-1])
        await asyncio.sleep(0.1)
    raise TimeoutError(f"{event} of {identifier} in {items}")


async def test_idle_work_is_warned_of_and_released_while_services_are_killed(
    stage: Stage, system: LocalSystem
):
    await organise(stage, RELEASE_SECONDS)
    busy = await started(stage, "busy", 100, WorkloadKind.TRAINING)
    idle = await started(stage, "idle", 0, WorkloadKind.NOTEBOOK)  # last: its time begins now
    began = time.monotonic()

    warning = await told(stage, idle, "idleness.noticed")
    why = await stage.get(f"workloads/{idle}/why")
    listed = await stage.get(f"workloads/{idle}")
    system.kill("monitoring")
    system.kill("preemption")
    await stage.until("SELECT count(*) FROM preemption.outbox", 1, SECONDS_MAX, every_seconds=0.01)
    system.kill("placement")
    held = await stage.reaches(idle, "held", SECONDS_MAX)
    print(f"released {time.monotonic() - began:.1f} s after it ran, policy {RELEASE_SECONDS} s")

    assert ("running", "idle") == (warning["state"], warning["reason"])
    assert ("running", "idle", "idle") == (why["state"], why["reason"], listed["reason"])
    assert "if this goes on" in why["message"]
    assert why["evidence"]["percent_below"] == 5
    assert (held["reason"], held["nodes"]) == ("idle", [])
    assert "held until its owner releases it" in held["message"]
    evicted = await told(stage, idle, "workload.evicted")
    seen_ms = evicted["detail"]["idle"]["until_ms"] - evicted["detail"]["idle"]["since_ms"]
    assert seen_ms >= RELEASE_SECONDS * 1000
    (record,) = (await stage.get("preemptions"))["items"]
    assert ("idle", "", "released") == (
        record["rule"],
        record["workload_id"],
        record["outcome"],
    )
    assert [idle] == [one["workload_id"] for one in record["victims"]]
    neighbour = await stage.get(f"workloads/{busy}")
    assert ("running", 1) == (neighbour["state"], neighbour["attempt"])


async def test_its_owner_releases_it_and_it_runs_again(stage: Stage):
    idle = workload_id(TEAM, "idle")
    await use(stage, idle, 100)

    await stage.command(idle, "release")
    again = await stage.reaches(idle, "running")
    await asyncio.sleep(RELEASE_SECONDS + 2)

    assert again["attempt"] == 2
    found = await stage.get(f"workloads/{idle}")
    assert ("running", "", 2) == (found["state"], found["reason"], found["attempt"])


async def test_without_reports_nothing_is_released(stage: Stage, system: LocalSystem):
    unseen = await started(stage, "unseen", 0, WorkloadKind.TRAINING)
    await told(stage, unseen, "idleness.noticed")

    system.send("fleet", signal.SIGSTOP)
    try:
        await asyncio.sleep(RELEASE_SECONDS + 2)
        found = await stage.get(f"workloads/{unseen}")
    finally:
        system.send("fleet", signal.SIGCONT)

    assert ("running", 1) == (found["state"], found["attempt"])
    await stage.reaches(unseen, "held", SECONDS_MAX)


async def test_a_warning_ends_when_the_gpus_are_used_again(stage: Stage):
    name = await started(stage, "pauses", 0, WorkloadKind.TRAINING)
    await told(stage, name, "idleness.noticed")

    await use(stage, name, 100)
    ended = await told(stage, name, "idleness.ended")

    assert ended["message"] == "its GPUs are in use again"
    assert (await stage.get(f"workloads/{name}"))["reason"] == ""
    assert (await stage.get(f"workloads/{name}/why"))["reason"] == "Running"


async def test_the_checker_finds_nothing(stage: Stage):
    assert "clean" == await asyncio.to_thread(checked, stage)
