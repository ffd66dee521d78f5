"""All of Muster on real kubelets: submissions by Kafka, pods as the API server shows them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deploy.kubelets.cluster import KubeletCluster
from deploy.kubelets.gpus import NAMES
from deploy.kubelets.images import IMAGE
from deploy.local.processes import Program
from deploy.local.system import LocalSystem
from shared.adapters.kubernetes import naming
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.fixtures.kube import make_namespace
from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

SECONDS = 60
POLL_SECONDS = 0.1
GO = "/tmp/go"
UNTIL_TOLD = f"until test -e {GO}; do sleep 0.1; done; sleep 0.5"
"""A shell waits for `World.go`, and stays while the command that told it ends."""
COMMAND = str(Path(sys.executable).with_name("muster"))
_numbers = itertools.count(1)

Object = dict[str, Any]


def launched(kubelets: KubeletCluster, folder: Path) -> LocalSystem:
    """All services, each with its own identity at the API server; the caller discards it."""
    return launch_on(kubelets.folder, folder)


class World(Stage):
    """A system, and what only the cluster knows."""

    def __init__(self, kubelets: KubeletCluster, system: LocalSystem) -> None:
        super().__init__(system)
        self.kubelets = kubelets
        self._submitted: list[str] = []

    async def enter(self) -> None:
        """A team with its namespace, and nodes that are known and free."""
        await self.connect()
        await self.organise()
        with self.kubelets.client() as admin:
            make_namespace(admin, TEAM)
        await self.until("SELECT count(*) FROM placement.node", len(NAMES), SECONDS)

    async def leave(self) -> None:
        """End what a test has left, and wait until nodes are as before."""
        for one in self._submitted:
            if not self.is_over(await self.get(f"workloads/{one}")):
                await self.command(one, "cancel")
        await self.eventually(lambda: not self.all_pods(), what="all pods to be gone")
        await self._forgive()
        await self.disconnect()

    async def _forgive(self) -> None:
        """No node rests because of what a test has done to it."""
        for node in NAMES:
            if (await self.get(f"nodes/{node}"))["shunned_until_ms"]:
                async with self.api.post(f"/v1/nodes/{node}/uncordon", json={}) as reply:
                    assert reply.status == 202, await reply.text()

    async def by_kafka(self, spec: WorkloadSpec) -> str:
        """Submit on the team's topic; the id."""
        prefix = f"{spec.name}-{next(_numbers)}"
        await self.submit([spec], prefix)
        one = workload_id(TEAM, f"{prefix}-0")
        self._submitted.append(one)
        await self.eventually(lambda: self.known(one), what=f"{one} to be known")
        return one

    async def known(self, one: str) -> bool:
        """Whether the gateway has heard of it."""
        async with self.api.get(f"/v1/workloads/{one}") as reply:
            return reply.status == 200

    @staticmethod
    def is_over(workload: Mapping[str, Any]) -> bool:
        return workload["state"] in ("succeeded", "failed", "cancelled", "rejected")

    async def ended(self, one: str) -> Object:
        """The workload when it has ended."""
        found: Object = {}

        async def over() -> bool:
            found.update(await self.get(f"workloads/{one}"))
            return self.is_over(found)

        await self.eventually(over, what=f"{one} to end")
        return found

    async def told(self, one: str) -> str:
        """All that was told of it, by lines."""
        query = "SELECT message FROM gateway.event WHERE workload_id = $1 ORDER BY seq"
        return "\n".join(row["message"] for row in await self.rows.fetch(query, one))

    async def runs(self, one: str, pods: int = 1) -> list[Object]:
        """Its pods, by rank, when all are Running."""
        try:
            await self.reaches(one, "running", SECONDS)
        except TimeoutError as late:
            late.add_note(f"nodes: {await self.get('nodes')}")
            devices = await self.rows.fetch("SELECT body FROM placement.node_devices")
            late.add_note(f"devices: {[row['body'] for row in devices]}")
            raise
        await self.eventually(
            lambda: [pod["status"]["phase"] for pod in self.pods(one)] == ["Running"] * pods,
            what=f"{pods} pods of {one} to run",
        )
        return self.pods(one)

    def pods(self, one: str) -> list[Object]:
        """The pods of a workload, by rank."""
        return self.all_pods(f"{naming.WORKLOAD}={one}")

    def bound(self, one: str) -> int:
        """How many of its pods are on a node."""
        return sum(bool(pod["spec"].get("nodeName")) for pod in self.pods(one))

    def all_pods(self, selector: str = naming.WORKLOAD) -> list[Object]:
        """Muster's pods, by name."""
        with self.kubelets.client() as admin:
            path = f"/api/v1/namespaces/{TEAM}/pods?labelSelector={selector}"
            found: list[Object] = admin.demand("GET", path)["items"]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    def _environment(self) -> dict[str, str]:
        client = json.loads((self.system.folder / "client.json").read_text())
        return {
            **os.environ,
            "MUSTER_ADDRESS": client["address"],
            "MUSTER_KEY": client["key"],
        }

    async def muster(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the user's command."""
        return await asyncio.to_thread(
            subprocess.run,
            [COMMAND, *words],
            capture_output=True,
            text=True,
            env=self._environment(),
            timeout=SECONDS,
        )

    async def allocated(self, one: str) -> list[tuple[int, str, int]]:
        """Rank, node and index of each GPU that it has in the ledger."""
        query = (
            "SELECT rank, node, gpu FROM placement.allocation WHERE workload_id = $1"
            " ORDER BY rank, gpu"
        )
        return [tuple(row) for row in await self.rows.fetch(query, one)]

    async def logs(self, one: str, rank: int = 0) -> str:
        """What a pod has written, by the user's command."""
        done = await self.muster("logs", one, "--rank", str(rank))
        assert done.returncode == 0, done.stderr
        return done.stdout

    async def written(self, one: str, rank: int = 0) -> str:
        """The same once there is anything: a container runs before it has written."""

        async def some() -> bool:
            return bool(await self.logs(one, rank))

        await self.eventually(some, what=f"rank {rank} of {one} to write")
        return await self.logs(one, rank)

    async def go(self, one: str, ranks: int = 1) -> None:
        """Let pods that run UNTIL_TOLD go on."""
        calls = (
            self.muster("exec", "--rank", str(rank), one, "--", "touch", GO)
            for rank in range(ranks)
        )
        for done in await asyncio.gather(*calls):
            assert done.returncode == 0, done.stderr

    def start_muster(self, *words: str) -> subprocess.Popen[str]:
        """Start the user's command, for `finish`."""
        return subprocess.Popen(
            [COMMAND, *words],
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment(),
        )

    async def finish(self, command: subprocess.Popen[str]) -> tuple[int, str]:
        """Its exit code and what it wrote."""
        written, _ = await asyncio.to_thread(command.communicate, timeout=SECONDS)
        return command.returncode, written

    @contextlib.contextmanager
    def unwatched(self) -> Iterator[None]:
        """Nobody tells Muster what others do on nodes."""
        self.system.send("cluster-watcher", signal.SIGSTOP)
        try:
            yield
        finally:
            self.system.send("cluster-watcher", signal.SIGCONT)

    async def next_life(self, name: str, failpoints: str) -> None:
        """Start a process anew with these failpoints; when it dies of them it has none."""
        process = self.system._keepers[name].process
        assert isinstance(process, Program)
        before = process.environment
        process.environment = {**before, "MUSTER_FAILPOINTS": failpoints}
        self.system.kill(name)
        await self.eventually(lambda: process.pid, what=f"{name} to be started again")
        process.environment = before
        await self.eventually(lambda: self.system.ready(name), what=f"{name} to be ready")

    def is_ready(self, node: str) -> bool:
        """Whether the API server takes a node for Ready."""
        with self.kubelets.client() as admin:
            found = admin.demand("GET", f"/api/v1/nodes/{node}")["status"]["conditions"]
        return any(one["type"] == "Ready" and one["status"] == "True" for one in found)

    async def eventually(
        self, holds: Callable[[], Any], *, what: str, seconds: float = SECONDS
    ) -> None:
        """Poll, in a thread or as a coroutine; raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while True:
            found = holds()
            if await found if asyncio.iscoroutine(found) else found:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds} s for {what}")
            await asyncio.sleep(POLL_SECONDS)


def a_workload(
    name: str, script: str, *, pods: int = 1, gpus: int = 1, **more: Any
) -> WorkloadSpec:
    """A shell script in the image of tests; nothing is retried."""
    fields: Object = {
        "image": IMAGE, "cpu_milli": 100, "memory_mib": 64, "shm_mib": 16,
    }  # fmt: skip
    fields |= more.pop("pod_set", {})
    pod_set = PodSet(
        count=pods, gpu=GpuRequest(count=gpus), command=("sh", "-c", script), **fields
    )
    return WorkloadSpec(
        name=name,
        kind=WorkloadKind.TRAINING,
        pod_sets=(pod_set,),
        grace_seconds=1,
        **({"max_retries": 0} | more),
    )
