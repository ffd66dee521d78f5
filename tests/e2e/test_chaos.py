"""Chaos through every service: a scenario, a Friday, a spot notice, and a node that is real."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from deploy.local.system import LocalSystem
from operations.topic_tail import TopicTail
from shared.core.model.nouns import Gpu, GpuRequest, Node, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from shared.events.grants import READER
from shared.events.nodes import NodeHeard, NodeInventoryReported, NodeSilent
from shared.events.topics import HEALTH_FACTS, NODE_FACTS
from tests.support.killing import checked
from tests.support.system import TEAM, Stage, launch, now_ms
from tests.support.work import record

NODES = 8
STOP_SECONDS, START_SECONDS = 2, 1
SILENT_SECONDS = 45
NOTICE_SECONDS = 120
"""Between a spot notice and the end of the node, as the fleet tells it."""
SPOT_SECONDS_MAX, OWN_SECONDS_MAX = 90.0, 2.0
REAL = "real-1"
GROUP = {
    "name": "n",
    "count": NODES,
    "flavor": "default",
    "product": "NVIDIA-H100-80GB-HBM3",
    "gpus": 8,
    "gpu_memory_mib": 81_559,
    "cpu_milli": 192_000,
    "memory_mib": 2_064_384,
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder: Path = tmp_path_factory.mktemp("chaos")
    described = folder / "fleet.json"
    described.write_text(json.dumps({"groups": [GROUP]}))
    overrides = {
        "fleet": {
            "MUSTER_FLEET_FILE": str(described),
            "MUSTER_FLEET_USAGE_SECONDS": "0.5",
            "MUSTER_FLEET_FOLLOW_SECONDS": "0.25",
        },
        "simulated-cluster": {
            "MUSTER_CLUSTER_STOP_DELAY_SECONDS": str(STOP_SECONDS),
            "MUSTER_CLUSTER_START_DELAY_SECONDS": str(START_SECONDS),
        },
    }
    system = launch(folder / "system", overrides=overrides, leave_out=())
    yield system
    system.discard()


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """With an organisation and its nodes."""
    await stage.organise()
    await stage.until("SELECT count(*) FROM placement.node", NODES, 60)
    return stage


async def chaos(system: LocalSystem, *arguments: str) -> tuple[int, str, str]:
    """`muster-ops chaos ...` as a person on this machine calls it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "operations", "chaos", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "MUSTER_HOME": str(system.folder)},
    )
    out, wrong = await process.communicate()
    return process.returncode or 0, out.decode(), wrong.decode()


async def run(stage: Stage, name: str, **shape: Any) -> tuple[str, list[str]]:
    """Submit a training and see it run; its id and its nodes."""
    identifier = workload_id(TEAM, name)
    pod_set = PodSet(cpu_milli=1_000, memory_mib=1_024, **shape)
    spec = WorkloadSpec(name=name, kind=WorkloadKind.TRAINING, pod_sets=(pod_set,))
    assert await stage.submit_http(spec, name) in (200, 202)
    found = await stage.reaches(identifier, "running", 30)
    return identifier, sorted(set(found["nodes"]))


async def cancel(stage: Stage, identifier: str) -> None:
    await stage.command(identifier, "cancel")
    await stage.reaches(identifier, "cancelled", 30)


async def devices(stage: Stage, node: str) -> list[str]:
    return [one["health"] for one in (await stage.get(f"nodes/{node}"))["devices"]]


async def devices_are(stage: Stage, node: str, gpu: int, state: str) -> None:
    deadline = time.monotonic() + 60
    while (found := await devices(stage, node))[gpu] != state:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.1)


async def held_gpu(stage: Stage, identifier: str) -> int:
    """Index of the one GPU that a workload holds."""
    gpu: int = await stage.rows.fetchval(
        "SELECT gpu FROM placement.allocation WHERE workload_id = $1 AND gpu >= 0", identifier
    )
    return gpu


async def test_a_scenario_quarantines_one_gpu_leaves_another_and_silences_a_node(
    stage: Stage, system: LocalSystem, tmp_path: Path
):
    identifier, (node,) = await run(stage, "victim", gpu=GpuRequest(count=1))
    bystander, (beside,) = await run(stage, "bystander", gpu=GpuRequest(count=1))
    gpu, other = await held_gpu(stage, identifier), await held_gpu(stage, bystander)
    mute = next(name for name in (f"n-{at:04d}" for at in range(NODES)) if name != node)
    document = tmp_path / "chaos.yaml"
    document.write_text(
        f"- {{at_s: 0, do: silent, node: {mute}, for_s: {SILENT_SECONDS}}}\n"
        f"- {{at_s: 0.5, do: xid, node: {node}, gpu: {gpu}, code: 48}}\n"
        f"- {{at_s: 1, do: xid, node: {beside}, gpu: {other}, code: 13}}\n"
    )

    async with TopicTail(system.kafka.access(READER), "muster", [HEALTH_FACTS.name]) as tail:
        code, out, wrong = await chaos(system, "--scenario", str(document), "--seed", "1")
        await devices_are(stage, node, gpu, "quarantined")
        moved = await stage.reaches(identifier, "running", 30)
        told: list[Any] = []
        async with asyncio.timeout(SILENT_SECONDS + 45):
            async for batch in tail.batches():
                told += [received.event.payload for received, _ in batch]
                if any(isinstance(one, NodeHeard) for one in told):
                    break

    assert (code, wrong, len(out.splitlines())) == (0, "", 3)
    assert moved["attempt"] == 2
    assert (moved["nodes"], await held_gpu(stage, identifier)) != ([node], gpu)
    assert any("XID 48" in one for one in (await stage.get(f"nodes/{node}"))["health_messages"])
    assert (await devices(stage, beside))[other] == "healthy"
    stayed = await stage.get(f"workloads/{bystander}")
    assert ("running", 1) == (stayed["state"], stayed["attempt"])
    assert [(NodeSilent, mute), (NodeHeard, mute)] == [(type(one), one.node) for one in told]
    await cancel(stage, identifier)
    await cancel(stage, bystander)


async def test_a_friday_moves_a_gang_and_tells_what_it_cost(
    stage: Stage, system: LocalSystem, tmp_path: Path
):
    identifier, nodes = await run(stage, "gang", count=2, gpu=GpuRequest(count=8))
    document = tmp_path / "friday.yaml"
    days = "[monday, tuesday, wednesday, thursday, friday, saturday, sunday]"
    document.write_text(
        f'time_zone: UTC\ndays: {days}\nfrom: "00:00"\nto: "24:00"\nnodes: {json.dumps(nodes)}\n'
    )
    arguments = ("friday", "--document", str(document), "-o", "json")

    _, dry, _ = await chaos(system, *arguments, "--dry-run")
    before = (await stage.get(f"workloads/{identifier}"))["attempt"]
    began = time.monotonic()
    code, out, wrong = await chaos(system, *arguments, "--wait", "60")
    took = time.monotonic() - began

    report = json.loads(out)
    print(f"Friday: {report['seconds_until_elsewhere']} s, {report['gpu_hours_lost']} GPU-hours")
    assert (code, before, json.loads(dry)["workloads"]) == (0, 1, [identifier])
    assert report["node"] == json.loads(dry)["node"]
    assert (1, 1, 0, True) == tuple(
        report[name] for name in ("workloads", "moved", "waiting", "back")
    )
    (line,) = report["work"]
    assert (identifier, 16.0, "running") == (line["workload_id"], line["gpus"], line["state"])
    assert report["node"] not in line["nodes"]
    assert START_SECONDS <= line["seconds_until_elsewhere"] < took
    assert 16 * 0.5 / 3600 < report["gpu_hours_lost"] < 16 * 120 / 3600
    assert "is back" in wrong
    async with aiohttp.ClientSession(system.url("fleet")) as fleet:
        told = (await (await fleet.get("/v1/nodes")).json())["nodes"]
    assert all(one["ready"] for one in told)
    assert 2 == (await stage.get(f"workloads/{identifier}"))["attempt"]
    await cancel(stage, identifier)


async def test_from_a_spot_notice_to_running_elsewhere(stage: Stage, system: LocalSystem):
    identifier, (node,) = await run(stage, "spot", gpu=GpuRequest(count=8))

    code, _, wrong = await chaos(system, "spot", "--node", node)
    deadline = time.monotonic() + SPOT_SECONDS_MAX
    found: dict[str, Any] = {}
    while (found.get("state"), found.get("attempt")) != ("running", 2):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.05)
        found = await stage.get(f"workloads/{identifier}")

    noticed_ms = (await stage.get(f"nodes/{node}"))["gone_at_ms"] - NOTICE_SECONDS * 1000
    total = (found["running_at_ms"] - noticed_ms) / 1000
    own = total - STOP_SECONDS - START_SECONDS
    print(f"spot notice to running elsewhere: {total:.2f} s, of Muster's own {own:.2f} s")
    assert (code, wrong) == (0, "")
    assert node not in found["nodes"]
    assert total < SPOT_SECONDS_MAX
    assert own < OWN_SECONDS_MAX
    await cancel(stage, identifier)


async def real_node(stage: Stage, generation: int, *, chaos: bool) -> None:
    """A cluster watcher tells of a node that the simulated fleet does not have."""
    gpus = tuple(Gpu(index=index, uuid=f"GPU-real-{index}", memory_mib=80_000) for index in (0, 1))
    node = Node(
        name=REAL, flavor="default", product="H100", cpu_milli=8_000, memory_mib=80_000,
        pool="real", gpus=gpus, chaos=chaos,
    )  # fmt: skip
    fact = NodeInventoryReported(node=node, generation=generation)
    cause = f"{REAL}-{generation}"
    await stage.publish([record(fact, NODE_FACTS, REAL, cause, now_ms(), generation)])
    await stage.until(
        f"SELECT coalesce(max(generation), 0) FROM gateway.node WHERE name = '{REAL}'",
        generation,
        20,
    )


async def test_a_real_node_is_left_alone_until_it_carries_the_label(
    stage: Stage, system: LocalSystem
):
    error = ("xid", "--node", REAL, "--gpu", "1", "--code", "48")
    await real_node(stage, 1, chaos=False)
    refused = await chaos(system, *error)
    untouched = await devices(stage, REAL)
    await real_node(stage, 2, chaos=True)
    told = await chaos(system, *error)
    await devices_are(stage, REAL, 1, "quarantined")
    down = await chaos(system, "node", "--node", REAL)

    assert (refused[0], untouched) == (2, ["healthy", "healthy"])
    assert f"{REAL} is a real node: faults are made there only while it carries" in refused[2]
    assert (0, "") == (told[0], told[2])
    assert "healthy" == (await devices(stage, REAL))[0]
    assert down[0] == 2
    assert "node needs a simulated one" in down[2]


async def test_the_checker_finds_nothing(stage: Stage):
    assert "clean" == await asyncio.to_thread(checked, stage)
