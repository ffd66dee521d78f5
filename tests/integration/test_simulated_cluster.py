"""The simulated cluster as a process: answers and timers survive `kill -9`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import aiohttp
import pytest

from deploy.local.processes import free_port
from shared.adapters.simulated_cluster import SimulatedCluster
from shared.ports.cluster import UNKNOWN, Pod, PodOperation, PodResult
from shared.ports.errors import ResourceVersionExpired, Transient


class Process:
    """The process with a client; `restart` kills it first."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = SimulatedCluster(self.url)
        self.environment = os.environ | {
            "MUSTER_CLUSTER_STATE": str(folder),
            "MUSTER_CLUSTER_PORT": str(self.port),
            "MUSTER_CLUSTER_START_DELAY_SECONDS": "0.2",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    async def restart(self) -> None:
        self.kill()
        command = [sys.executable, "-m", "shared.simulator.cluster"]
        self.process = subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL)
        async with asyncio.timeout(60):
            while True:
                try:
                    await self.client.list_pods()
                except Transient:
                    await asyncio.sleep(0.05)
                else:
                    return

    async def phases(self, wanted: Sequence[str]) -> list[Pod]:
        """Wait until the pods are in `wanted` phases."""
        async with asyncio.timeout(40):
            while True:
                pods, _ = await self.client.list_pods()
                if sorted(pod.phase for pod in pods) == sorted(wanted):
                    return pods
                await asyncio.sleep(0.05)


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    process = Process(tmp_path)
    await process.restart()
    yield process
    await process.client.close()
    process.kill()


def creates(names: Sequence[str], seconds: float | None = None) -> list[PodOperation]:
    pods = [
        Pod(
            name=name,
            workload_id=name[:-4],
            attempt=1,
            rank=0,
            size=1,
            epoch=1,
            duration_seconds=seconds,
        )
        for name in names
    ]
    return [PodOperation(verb="create", name=pod.name, pod=pod) for pod in pods]


def binds(results: Sequence[PodResult]) -> list[PodOperation]:
    pods = [result.pod for result in results if result.pod is not None]
    return [PodOperation(verb="bind", name=pod.name, uid=pod.uid, node="n1") for pod in pods]


async def test_every_answer_survives_a_kill_and_timers_go_on(process: Process) -> None:
    names = [f"w{number}-1-0" for number in range(300)]
    _, version = await process.client.list_pods()
    created = await process.client.apply(creates(names, seconds=0.5))
    await process.client.apply(binds(created))
    before, _ = await process.client.list_pods()

    await process.restart()
    after = await process.phases(["Succeeded"] * 300)
    again = await process.client.apply(creates(names))

    assert {pod.uid for pod in after} == {pod.uid for pod in before}
    assert {result.status for result in again} == {409}
    # Each was created, bound, started and ended once.
    assert (await process.client.list_pods())[1] == version + 4 * 300


async def test_versions_go_on_after_a_kill_and_old_watches_must_list(process: Process) -> None:
    await process.client.apply(creates(["w1-1-0"]))
    (pod,), version = await process.client.list_pods()

    await process.restart()
    (result,) = await process.client.apply(creates(["w2-1-0"]))

    assert result.pod is not None
    assert result.pod.resource_version == version + 1
    assert result.pod.uid != pod.uid
    with pytest.raises(ResourceVersionExpired):
        async for _ in process.client.watch(version - 1):
            pass


async def test_a_node_that_is_down_stays_down_over_a_kill(process: Process) -> None:
    async with aiohttp.ClientSession(process.url) as session:
        await process.client.apply(binds(await process.client.apply(creates(["w1-1-0"]))))
        await process.phases(["Running"])
        down = await (await session.post("/v1/nodes/n1/down")).json()
        await process.restart()
        await process.client.apply(binds(await process.client.apply(creates(["w2-1-0"]))))
        await asyncio.sleep(0.4)
        waiting = await process.phases(["Pending"])
        await session.post("/v1/nodes/n1/up")
        await process.phases(["Running"])

    assert down == {"pods": 1}
    assert waiting[0].node == "n1"


async def test_faults_are_set_over_http_and_bad_ones_refused(process: Process) -> None:
    async with aiohttp.ClientSession(process.url) as session:
        bad = await session.put("/v1/faults", json={"reply_lost": 2})
        good = await session.put("/v1/faults", json={"reply_lost": 1})

        (result,) = await process.client.apply(creates(["w1-1-0"]))
        failed = await session.post("/v1/pods/w1-1-0/fail?reason=OOMKilled")
        missing = await session.post("/v1/pods/none/fail")

    assert result.status == UNKNOWN
    assert (bad.status, good.status, failed.status, missing.status) == (400, 200, 200, 404)
    pods, _ = await process.client.list_pods()
    assert [(pod.phase, pod.reason) for pod in pods] == [("Failed", "OOMKilled")]


async def test_two_processes_cannot_share_a_store(process: Process) -> None:
    environment = process.environment | {"MUSTER_CLUSTER_PORT": "0"}

    second = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shared.simulator.cluster", env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, errors = await asyncio.wait_for(second.communicate(), 60)

    assert second.returncode != 0
    assert b"locked" in errors
