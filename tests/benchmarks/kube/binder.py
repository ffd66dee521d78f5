"""How fast the binder's actuator binds pods: many gangs of eight, and one gang of 256."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from deploy.kube.nodes import GPUS_A_NODE, node_name
from services.binder.actuator import Actuator
from services.binder.gang import Gang
from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.model import GpuRequest, GpuShare, PodSet
from shared.events.pods import BindRefused, PodsFinished, PodsRunning
from shared.ports.cluster import Missing, Operation, Pod, PodTemplate, Result
from tests.benchmarks.kube.place import Place, now, per_second, used
from tests.kube.pins_fill import nodes_with_slices
from tests.support.costs import cpu_seconds

NAMESPACE = "binder"
GANG = 8
LARGE = 256
SECONDS_MAX = 600


class TimedCluster(KubernetesCluster):
    """Notes when each binding was answered."""

    def __init__(self, settings: KubernetesSettings) -> None:
        super().__init__(settings)
        self.bound_at: list[float] = []

    async def _carry_out(  # type: ignore[explicit-override]  # new in Python 3.12
        self, operation: Operation, absent: frozenset[Missing]
    ) -> Result:
        result = await super()._carry_out(operation, absent)
        if operation.verb == "bind":
            self.bound_at.append(now())
        return result


class Binding:
    """An actuator, and the facts that it told."""

    def __init__(self, place: Place, instance: str) -> None:
        config = str(place.kube.kubeconfig("binder"))
        self.cluster = TimedCluster(KubernetesSettings(config=config, instance=instance))
        self.facts: list[Any] = []
        self.actuator = Actuator(
            cluster=self.cluster,
            clock=SystemClock(),
            tell=lambda fact, _: self.facts.append(fact),
        )
        self.actuator.start(())

    async def run(self, gangs: Sequence[tuple[Pod, ...]]) -> dict[str, float]:
        """Bind them all; seconds from the start to what is named, and between two bindings."""
        start = now()
        for pods in gangs:
            first = pods[0]
            self.actuator.add(
                Gang(workload_id=first.workload_id, attempt=1, size=len(pods), pods=pods)
            )
        async with asyncio.timeout(SECONDS_MAX):
            while len(self.facts) < len(gangs):
                self.actuator.check()
                await asyncio.sleep(0.01)
                self.facts = [one for one in self.facts if _counts(one)]
        bound = self.cluster.bound_at
        return {
            "bound_seconds": round(max(bound) - start, 2),
            "first_to_last_bound_seconds": round(max(bound) - min(bound), 2),
            "running_told_seconds": round(now() - start, 2),
        }

    async def stop(self) -> None:
        """Leave the pods as they are."""
        await self.actuator.stop()
        await self.cluster.close()


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """Gangs of eight, one of 256, and one of 256 whose devices are pinned by claims."""
    gangs = [
        _gang(f"eight-{number}", GANG, [node_name(number % place.nodes)])
        for number in range(pods // GANG)
    ]
    async with place.namespace(NAMESPACE):
        before, own = place.cpu(), cpu_seconds([os.getpid()])
        eights = await _alone(place, "eights", gangs)
        spent = used(before, place.cpu(), pods)
        spent["binder"] = round(1000 * (cpu_seconds([os.getpid()]) - own) / pods, 2)
        count = min(LARGE, GPUS_A_NODE * len(nodes_with_slices(place.nodes)))
        plain = await _alone(place, "large", [_gang("large", count, _names(place, count))])
        pinned = await _alone(
            place, "pinned", [_gang("pinned", count, _names(place, count), pinned=True)]
        )
    return {
        "pods": pods,
        "pods_per_second": per_second(pods, eights["bound_seconds"]),
        "cpu_ms_per_pod": spent,
        f"gang_of_{count}": plain,
        f"gang_of_{count}_pinned": pinned,
    }


async def _alone(
    place: Place, instance: str, gangs: Sequence[tuple[Pod, ...]]
) -> dict[str, float]:
    binding = Binding(place, f"bench-{instance}")
    try:
        return await binding.run(gangs)
    finally:
        await binding.stop()


def _counts(fact: Any) -> bool:
    assert not isinstance(fact, BindRefused | PodsFinished), f"a gang does not run: {fact}"
    return isinstance(fact, PodsRunning)


def _names(place: Place, count: int) -> list[str]:
    """Nodes with slices, as many as are needed for so many GPUs."""
    return nodes_with_slices(place.nodes)[: -(-count // GPUS_A_NODE)]


def _gang(name: str, size: int, nodes: Sequence[str], *, pinned: bool = False) -> tuple[Pod, ...]:
    """Eight pods on each of its nodes, of a GPU each where devices are pinned."""
    gpu = GpuRequest(count=int(pinned))
    template = PodTemplate(pod_set=PodSet(image="registry.example.org/a/b:1", gpu=gpu))
    return tuple(
        Pod(
            name=f"{name}-1-{rank}", namespace=NAMESPACE, workload_id=name, attempt=1,
            rank=rank, size=size, epoch=1, node=nodes[rank // GPUS_A_NODE % len(nodes)],
            shares=(_share(rank % GPUS_A_NODE),) if pinned else (), template=template,
        )
        for rank in range(size)
    )  # fmt: skip


def _share(index: int) -> GpuShare:
    return GpuShare(index=index, mask=255, milli=1000, memory_mib=81_559)
