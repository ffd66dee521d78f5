"""The binder's actuator at work on the real API server, and the facts that it told."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from deploy.kube.nodes import node_name
from services.binder.actuator import Actuator
from services.binder.gang import BoundGang
from shared.adapters.clock import SystemClock
from shared.core.model.nouns import PodSet
from shared.ports.cluster import Pod, PodTemplate
from tests.fixtures.kube import KubeCluster
from tests.kube.kube_world import RED, on_kubernetes

SECONDS = 40
_numbers = itertools.count(1)


class Acting:
    """An actuator that works, and the facts that it told."""

    def __init__(self, world):
        self.world = world
        self.facts: list[Any] = []
        self.actuator = Actuator(
            cluster=world.cluster,
            clock=SystemClock(),
            tell=lambda fact, _: self.facts.append(fact),
        )
        self.actuator.start(())

    def bind(self, workload_id, size, *, namespace=RED, service_account="", **pod_set):
        pods = tuple(
            pod_of(
                workload_id, rank, size,
                namespace=namespace, service_account=service_account, **pod_set,
            )
            for rank in range(size)
        )  # fmt: skip
        gang = BoundGang(workload_id=workload_id, attempt=1, size=size, pods=pods)
        self.actuator.add(gang)
        return gang.key

    async def told(self, kind, *, workload_id="", seconds=SECONDS):
        """The first fact of a kind (of one workload)."""

        def found():
            return (
                one
                for one in self.facts
                if isinstance(one, kind) and workload_id in ("", one.workload_id)
            )

        try:
            async with asyncio.timeout(seconds):
                while next(found(), None) is None:
                    self.actuator.check()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"no {kind.__name__} in {seconds} s: {self.facts}") from None
        return next(found())


def pod_of(workload_id, rank, size, *, namespace=RED, service_account="", shares=(), **pod_set):
    fields = {"image": "registry.example.org/a/b:1", **pod_set}
    template = PodTemplate(pod_set=PodSet(**fields), service_account=service_account)
    return Pod(
        name=f"{workload_id}-1-{rank}", namespace=namespace, workload_id=workload_id, attempt=1,
        rank=rank, size=size, epoch=1, team="red", node=node_name(3 * rank), template=template,
        shares=shares,
    )  # fmt: skip


@asynccontextmanager
async def acting_on(kube: KubeCluster) -> AsyncIterator[Acting]:
    """One with an instance of its own."""
    async with on_kubernetes(kube, f"actuator-{os.getpid()}-{next(_numbers)}") as world:
        acting = Acting(world)
        try:
            yield acting
        finally:
            await acting.actuator.stop()
