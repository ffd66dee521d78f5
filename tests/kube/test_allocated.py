"""A kubelet of a device plugin says which GPUs it chose, and the binder tells it."""

import asyncio

import pytest

from shared.core.model.nouns import WHOLE_MASK, GpuRequest, GpuShare
from shared.events.pods import PodDevices, PodDevicesTold, PodsRunning
from tests.kube.acting import SECONDS, acting_on
from tests.kube.kube_world import choose_gpus, pod_path

QUIET_SECONDS = 1
TWO = tuple(GpuShare(index=index, mask=WHOLE_MASK, milli=1000, memory_mib=0) for index in range(2))


@pytest.fixture
async def acting(kube):
    async with acting_on(kube) as acting:
        yield acting


async def test_what_kubelets_chose_is_told_by_rank(acting, kube):
    acting.bind("gang", 2, shares=TWO, gpu=GpuRequest(count=2))
    await acting.told(PodsRunning)
    pods = await acting.world.pods()
    choose_gpus(kube, pod_path(pods["gang-1-1"]), "GPU-b", "GPU-c")
    fact = await acting.told(PodDevicesTold)
    choose_gpus(kube, pod_path(pods["gang-1-0"]), "GPU-a", "GPU-d")
    async with asyncio.timeout(SECONDS):
        while acting.facts[-1] is fact:
            await asyncio.sleep(0.05)
    count = len(acting.facts)
    await asyncio.sleep(QUIET_SECONDS)

    assert fact.pods == (PodDevices(rank=1, devices=("GPU-b", "GPU-c")),)
    assert acting.facts[-1].pods == (PodDevices(rank=0, devices=("GPU-a", "GPU-d")),)
    assert count == len(acting.facts)
