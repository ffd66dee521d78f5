"""Fills all GPUs of nodes with slices and empties them, and compares every claim with the ledger.

As a command, on the cluster of `make kube-up` (two nodes of three have slices):

    KUBE_NODES=1500 make kube-up && .venv/bin/python -m tests.kube.pins_fill --nodes 1000
"""

import argparse
import asyncio
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.kube import state
from deploy.kube.nodes import GPUS_A_NODE, PLUGIN, node_name, way_of
from deploy.local.cache import CHECKOUT
from operations.check.api_pods import read_api_claims, read_api_pods
from operations.check.claims import differences
from services.binder.actuator import Actuator
from services.binder.gang import BoundGang
from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.model.nouns import GpuRequest, GpuShare, PodSet
from shared.events.pods import BindRefused, PodsFinished, PodsGone, PodsRunning
from shared.ports.cluster import Pod, PodTemplate
from tests.fixtures.kube import KubeCluster, make_namespace

SECONDS_MAX = 600
NAMESPACE = "fill"


@dataclass(frozen=True, slots=True)
class Round:
    """What one filling and emptying came to."""

    pods: int
    devices: int
    running_seconds: float
    differences: tuple[str, ...]
    emptied_seconds: float
    claims_gone_seconds: float
    """After the last pod was gone."""


class Filling:
    """An actuator, and the facts that it told by kind."""

    def __init__(self, kube: KubeCluster, instance: str, nodes: Sequence[str]) -> None:
        self.kube, self.instance, self.nodes = kube, instance, nodes
        settings = KubernetesSettings(config=str(kube.kubeconfig("binder")), instance=instance)
        self.cluster = KubernetesCluster(settings)
        self.facts: list[Any] = []
        self.actuator = Actuator(
            cluster=self.cluster,
            clock=SystemClock(),
            tell=lambda fact, _: self.facts.append(fact),
        )

    async def round(self, attempt: int) -> Round:
        """Fill all, compare, empty all, wait until no claim is left."""
        pods = [pod for pods in self._gangs(attempt) for pod in pods]
        started = time.monotonic()
        for gang in self._gangs(attempt):
            self.actuator.add(
                BoundGang(
                    workload_id=gang[0].workload_id, attempt=attempt, size=len(gang), pods=gang
                )
            )
        keys = {(pod.workload_id, attempt) for pod in pods}
        await self._told(PodsRunning, len(keys))
        running = time.monotonic()
        found = await self._compared(pods)
        started_emptying = time.monotonic()
        for key in keys:
            self.actuator.evict(key, 1)
        await self._told(PodsGone, len(keys))
        emptied = time.monotonic()
        for key in keys:
            self.actuator.close(key)
        self.facts.clear()
        gone = await self._claims_gone(emptied) if attempt % 2 == 0 else emptied
        return Round(
            pods=len(pods),
            devices=sum(len(pod.shares) for pod in pods),
            running_seconds=running - started,
            differences=found,
            emptied_seconds=emptied - started_emptying,
            claims_gone_seconds=gone - emptied,
        )

    def _gangs(self, attempt: int) -> list[tuple[Pod, ...]]:
        """A gang of eight pods of a GPU each on one node, a pod of eight GPUs on the next."""
        gangs = []
        for number, node in enumerate(self.nodes):
            size = GPUS_A_NODE if (number + attempt) % 2 else 1
            each = GPUS_A_NODE // size
            gangs.append(
                tuple(
                    _pod((f"{self.instance}-{number}", attempt, rank), size, node,
                         range(rank * each, (rank + 1) * each))
                    for rank in range(size)
                )
            )  # fmt: skip
        return gangs

    async def _told(self, kind: type[Any], count: int) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while sum(isinstance(fact, kind) for fact in self.facts) < count:
                self.actuator.check()
                wrong = [one for one in self.facts if isinstance(one, BindRefused | PodsFinished)]
                if wrong:
                    raise AssertionError(f"{len(wrong)} gangs did not run: {wrong[0]}")
                await asyncio.sleep(0.05)

    async def _compared(self, pods: Sequence[Pod]) -> tuple[str, ...]:
        rows = [
            {"workload_id": pod.workload_id, "attempt": pod.attempt, "rank": pod.rank,
             "node": pod.node, "gpu": share.index, "mask": share.mask}
            for pod in pods
            for share in pod.shares
        ]  # fmt: skip
        checker = self.kube.kubeconfig("checker")
        claims = await read_api_claims(checker)
        held = sum(len(one.held) for one in claims if self._is_ours(one))
        found = differences(rows, claims, await read_api_pods(checker), self.instance)
        told = [f"{one.subject}: {one.detail}" for one in found.violations]
        if held != len(rows):
            told.append(f"claims hold {held} devices, the ledger {len(rows)}")
        return tuple(told)

    async def _claims_gone(self, since: float) -> float:
        while time.monotonic() - since < SECONDS_MAX:
            claims = await read_api_claims(self.kube.kubeconfig("checker"))
            if not any(map(self._is_ours, claims)):
                return time.monotonic()
            await asyncio.sleep(0.25)
        raise AssertionError("claims are left")

    def _is_ours(self, claim: Any) -> bool:
        return bool(claim.metadata.labels.get("muster.dev/instance") == self.instance)


def _pod(key: tuple[str, int, int], size: int, node: str, indexes: Sequence[int]) -> Pod:
    workload, attempt, rank = key
    shares = tuple(GpuShare(index=n, mask=255, milli=1000, memory_mib=81_559) for n in indexes)
    pod_set = PodSet(image="a/b:1", gpu=GpuRequest(count=len(shares)))
    return Pod(
        name=f"{workload}-{attempt}-{rank}", namespace=NAMESPACE, workload_id=workload,
        attempt=attempt, rank=rank, size=size, epoch=1, node=node, shares=shares,
        template=PodTemplate(pod_set=pod_set),
    )  # fmt: skip


def nodes_with_slices(count: int) -> list[str]:
    """The names of those among the first so many nodes."""
    return [node_name(number) for number in range(count) if way_of(number) != PLUGIN]


async def fill(
    kube: KubeCluster, instance: str, nodes: Sequence[str], rounds: int = 2
) -> list[Round]:
    """Fill and empty so often, without a pause for the claims between two rounds."""
    with kube.client() as admin:
        make_namespace(admin, NAMESPACE)
    filling = Filling(kube, instance, nodes)
    filling.actuator.start(())
    try:
        return [await filling.round(number) for number in range(1, rounds + 1)]
    finally:
        await filling.actuator.stop()
        await filling.cluster.close()


def main() -> None:
    """Print what each round came to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=CHECKOUT / ".kube")
    parser.add_argument("--nodes", type=int, default=1000, help="nodes with slices to fill")
    arguments = parser.parse_args()
    noted = state.read(arguments.folder)
    if noted is None:
        parser.error("nothing is up (make kube-up)")
    nodes = nodes_with_slices(noted.nodes)[: arguments.nodes]
    for one in asyncio.run(fill(KubeCluster(arguments.folder), "fill", nodes)):
        print(one, flush=True)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{len(nodes)} nodes, {usage.ru_maxrss >> 10} MiB, {usage.ru_utime:.1f} s of CPU")


if __name__ == "__main__":
    main()
