"""A whole system on a real API server, with a proxy between it and the binder; and its faults."""

import asyncio
import contextlib
import os
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from deploy.kube.__main__ import down, up
from operations.check.pods import check_pods
from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from shared.events.envelope import workload_id
from tests.e2e.kill_test import Load
from tests.fixtures.kube import NODES, KubeCluster, make_namespace
from tests.kube.faulty_api import Faults, FaultyApi
from tests.kube.kube_world import kill_api_server
from tests.kube.pod_census import Census, whole
from tests.support.killing import TERMINAL
from tests.support.kube_system import launch_on
from tests.support.system import TEAM, Stage

RATE: Final = 8
OPEN_MAX: Final = 100
"""So many that are not over, and no more are submitted: a backlog is nothing to judge."""
OPEN: Final = f"SELECT count(*) FROM gateway.workload WHERE state NOT IN {TERMINAL}"
GANGS: Final = 0.3
SHARE: Final = 0.2
SHARE_SECONDS_MAX: Final = 30.0
MET_MIN: Final = 5
FAULTS: Final = {
    "lost": Faults(lost=SHARE),
    "409": Faults(refused=SHARE, status=409),
    "429": Faults(refused=SHARE, status=429),
    "500": Faults(refused=SHARE, status=500),
}
KINDS: Final = ("binder", "api server", "watch", *FAULTS)
LASTING: Final = 12
"""Gangs without an end."""
SIZE: Final = 3
EVICTED: Final = 2
"""Of them as each fault begins."""
ROBBED: Final = 4
"""Of how many somebody deletes a pod."""
SETTLE_SECONDS: Final = 120.0
FROZEN_SECONDS: Final = 60.0
"""In an outage of at least so long a watch falls silent; in a shorter one it is broken off."""


@dataclass
class Place:
    """The system, its cluster and what stands between them."""

    stage: Stage
    kube: KubeCluster
    api: FaultyApi
    instance: str
    random: random.Random
    load: Load
    lasting: list[str] = field(default_factory=list)

    def census(self) -> Census:
        """Of the pods of this system."""
        return Census(self.kube, self.instance)

    async def feed(self) -> None:
        """Submit until told to stop, as fast as it is worked off."""
        feeding = asyncio.create_task(self.load.run())
        while not self.load.stopping:
            self.load.rate = RATE if await self.stage.rows.fetchval(OPEN) < OPEN_MAX else 0
            await asyncio.sleep(0.5)
        await feeding

    async def round(self, kind: str) -> None:
        """One fault, to its end, while gangs are being evicted."""
        for one in self.random.sample(self.lasting, EVICTED):
            await self.stage.command(one, "evict")
        if kind == "binder":
            self.stage.system.kill("binder")
        elif kind == "api server":
            start = await asyncio.to_thread(kill_api_server, self.kube)
            await asyncio.sleep(self.random.uniform(0.2, 2))
            await asyncio.to_thread(start)
        elif kind == "watch":
            await self._cut()
        else:
            await self._share(kind)

    def met(self) -> dict[str, int]:
        """How often a fault of each kind did something."""
        done, restarts = self.api.done, self.stage.system.restarts("binder")
        of_proxy = {kind: done[kind] for kind in ("watch", *FAULTS)}
        return {"binder": restarts, "api server": done["upstream away"], **of_proxy}

    async def _cut(self) -> None:
        """The binder's watches, once it has any."""
        deadline = time.monotonic() + SHARE_SECONDS_MAX
        while not self.api.cut() and time.monotonic() < deadline:
            await asyncio.sleep(0.1)

    async def _share(self, kind: str) -> None:
        """A fault of some requests, until it has met a few (on a busy machine they are rare)."""
        enough = self.api.done[kind] + MET_MIN
        deadline = time.monotonic() + SHARE_SECONDS_MAX
        self.api.faults = FAULTS[kind]
        await asyncio.sleep(self.random.uniform(2, 4))
        while self.api.done[kind] < enough and time.monotonic() < deadline:
            await asyncio.sleep(0.2)
        self.api.faults = Faults()

    async def start_lasting(self) -> None:
        """Gangs that run for ever."""
        pod_set = PodSet(
            name="worker", count=SIZE, gpu=GpuRequest(count=1), cpu_milli=1_000, memory_mib=1_024,
            image="registry.local/train:1",
        )  # fmt: skip
        spec = WorkloadSpec(name="lasting", kind=WorkloadKind.TRAINING, pod_sets=(pod_set,))
        await self.stage.submit([spec] * LASTING, "lasting")
        self.lasting = [workload_id(TEAM, f"lasting-{n}") for n in range(LASTING)]
        await self.all_whole()

    async def outage(self, seconds: float) -> float:
        """No API server for the binder, no broker; seconds until all runs again afterwards."""
        system = self.stage.system
        self.api.away = True
        if seconds < FROZEN_SECONDS:
            self.api.cut()
        system.send("kafka", signal.SIGSTOP)
        await asyncio.sleep(seconds / 2)
        await asyncio.to_thread(self._rob)
        await asyncio.sleep(seconds / 2)
        system.send("kafka", signal.SIGCONT)
        self.api.away = False
        return await self.all_whole()

    def _rob(self) -> None:
        found = self.census().read()
        wanted = set(self.lasting[:ROBBED])
        with self.kube.client() as admin:
            for (workload, _), pods in found.items():
                if workload in wanted:
                    path = f"/api/v1/namespaces/{TEAM}/pods/{pods[-1]['metadata']['name']}"
                    admin.demand("DELETE", path, {"gracePeriodSeconds": 0})

    async def all_whole(self) -> float:
        """Seconds until each lasting gang runs whole and the ledger says what the API says."""
        started = time.monotonic()
        while time.monotonic() < started + SETTLE_SECONDS:
            found = await asyncio.to_thread(self.census().read)
            if all(whole(found, one) for one in self.lasting) and not await self.differences():
                break
            await asyncio.sleep(0.5)
        return time.monotonic() - started

    async def differences(self) -> list[str]:
        """Between ledger and API server, at this moment."""
        url = self.stage.system.postgres.url("operations", "muster")
        kubeconfig = self.kube.kubeconfig("checker")
        result = await check_pods(url, kubeconfig, self.instance, settle_seconds=0)
        return [f"{one.subject}: {one.detail}" for one in result.violations]


@contextlib.asynccontextmanager
async def placed(cluster: Path | None, seed: int) -> AsyncIterator[Place]:
    """A system of its own, on the cluster in that folder or on one of its own."""
    generator = random.Random(seed)
    instance = f"kill-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="muster-kube-kill-", dir="/var/tmp") as name:
        folder = Path(name)
        own = folder / "kube"
        if cluster is None and await asyncio.to_thread(up, own) != 0:
            raise SystemExit(1)
        kube = KubeCluster(cluster or own)
        try:
            with kube.client() as admin:
                make_namespace(admin, TEAM)
            api = FaultyApi(kube.kubeconfig("binder"), seed)
            proxied = folder / "proxy.kubeconfig"
            async with (
                api.serving(proxied),
                _staged(folder, kube, proxied, instance) as stage,
            ):
                load = Load(stage, generator, rate=RATE, gangs=GANGS)
                yield Place(stage, kube, api, instance, generator, load)
        finally:
            _clear(kube, instance)
            if cluster is None:
                await asyncio.to_thread(down, own)


@contextlib.asynccontextmanager
async def _staged(
    folder: Path, kube: KubeCluster, binders: Path, instance: str
) -> AsyncIterator[Stage]:
    """The system as `make up CLUSTER=kube` starts it, its binder with another kubeconfig."""
    system = await asyncio.to_thread(
        launch_on,
        kube.folder,
        folder / "system",
        instance=instance,
        binder={"MUSTER_KUBE_CONFIG": str(binders)},
    )
    stage = Stage(system)
    try:
        await stage.connect()
        await stage.organise()
        await stage.until("SELECT count(*) FROM placement.node", NODES, SETTLE_SECONDS)
        yield stage
    finally:
        await stage.disconnect()
        await asyncio.to_thread(system.discard)


def _clear(kube: KubeCluster, instance: str) -> None:
    path = f"/api/v1/namespaces/{TEAM}/pods?labelSelector=muster.dev%2Finstance%3D{instance}"
    with contextlib.suppress(OSError), kube.client() as admin:
        admin.request("DELETE", path, {"gracePeriodSeconds": 0})
