"""How fast the binder's actuator binds pods: many gangs of eight, and one gang of 256."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from deploy.kube.nodes import GPUS_A_NODE, node_name
from services.binder.actuator import Actuator
from services.binder.gang import BoundGang
from shared.adapters.clock import SystemClock
from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.model.nouns import GpuRequest, GpuShare, PodSet
from shared.events.pods import BindRefused, PodsFinished, PodsRunning
from shared.ports.cluster import MissingObject, Pod, PodOperation, PodResult, PodTemplate
from tests.benchmarks.kube.place import Place, asked, now, per_second, used
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
        self, operation: PodOperation, absent: frozenset[MissingObject]
    ) -> PodResult:
        result = await super()._carry_out(operation, absent)
        if operation.verb == "bind":
            self.bound_at.append(now())
        return result


class Binding:
    """An actuator, and the facts that it told."""

    def __init__(self, place: Place, instance: str) -> None:
        self._place = place
        config = str(place.kube.kubeconfig("binder"))
        self.cluster = TimedCluster(KubernetesSettings(config=config, instance=instance))
        self.facts: list[Any] = []
        self.actuator = Actuator(
            cluster=self.cluster,
            clock=SystemClock(),
            tell=lambda fact, _: self.facts.append(fact),
        )
        self.actuator.start(())

    async def run(self, gangs: Sequence[tuple[Pod, ...]]) -> dict[str, Any]:
        """Bind them all; seconds from the start to what is named, and between two bindings.

        CPU is what was used until the last of them was bound.
        """
        self.facts, self.cluster.bound_at = [], []
        pods_count = sum(map(len, gangs))
        before, start = self._cpu(), now()
        for pods in gangs:
            first = pods[0]
            self.actuator.add(
                BoundGang(workload_id=first.workload_id, attempt=1, size=len(pods), pods=pods)
            )
        spent: dict[str, float] = {}
        async with asyncio.timeout(SECONDS_MAX):
            while len(self.facts) < len(gangs):
                self.actuator.check()
                await asyncio.sleep(0.01)
                self.facts = [one for one in self.facts if _counts(one)]
                if not spent and len(self.cluster.bound_at) >= pods_count:
                    spent = used(before, self._cpu(), pods_count)
        bound = self.cluster.bound_at
        return {
            "pods_per_second": per_second(pods_count, max(bound) - start),
            "bound_seconds": round(max(bound) - start, 2),
            "first_to_last_bound_seconds": round(max(bound) - min(bound), 2),
            "running_told_seconds": round(now() - start, 2),
            "cpu_ms_per_pod": spent,
        }

    def _cpu(self) -> dict[str, float]:
        return self._place.cpu() | {"binder": cpu_seconds([os.getpid()])}

    async def stop(self) -> None:
        """Leave the pods as they are."""
        await self.actuator.stop()
        await self.cluster.close()


async def measure(place: Place, pods: int) -> dict[str, Any]:
    """Gangs of eight, single pods, a gang of 256, and one whose devices are pinned by claims."""
    few, *others = nodes_with_slices(place.nodes)
    count = min(LARGE, GPUS_A_NODE * len(others))
    wide = others[: -(-count // GPUS_A_NODE)]
    async with place.namespace(NAMESPACE):
        gangs = await _alone(place, "gangs", _many(place, "gang", pods // GANG, GANG))
        singles = await _alone(place, "singles", _many(place, "single", pods, 1))
        large = await _alone(place, "large", [_gang("large", count, wide)])
        pinned = await _alone(
            place,
            "pinned",
            [_gang("pinned", count, wide, pinned=True)],
            before=[_gang("first", GANG, [few], pinned=True)],
        )
    return {
        "pods": pods,
        "pods_per_second": gangs["pods_per_second"],
        "gangs": gangs,
        "singles": singles,
        "pods_of_the_large_gang": count,
        "large_gang": large,
        "large_gang_pinned": pinned,
    }


async def _alone(
    place: Place,
    instance: str,
    gangs: Sequence[tuple[Pod, ...]],
    *,
    before: Sequence[tuple[Pod, ...]] = (),
) -> dict[str, Any]:
    """By a binder of its own; `before` is bound first, so that it knows all devices."""
    binding = Binding(place, f"bench-{instance}")
    try:
        if before:
            await binding.run(before)
        told = await place.requests()
        figures = await binding.run(gangs)
        pods = sum(map(len, gangs))
        return figures | {"requests_per_pod": asked(told, await place.requests(), pods)}
    finally:
        await binding.stop()


def _counts(fact: Any) -> bool:
    assert not isinstance(fact, BindRefused | PodsFinished), f"a gang does not run: {fact}"
    return isinstance(fact, PodsRunning)


def _many(place: Place, name: str, count: int, size: int) -> list[tuple[Pod, ...]]:
    """So many of one size, each on one node."""
    names = [node_name(number % place.nodes) for number in range(count)]
    return [_gang(f"{name}-{number}", size, [node]) for number, node in enumerate(names)]


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
