"""Nodes with ResourceSlices: a container has the very devices of the ledger, by its claim."""

from __future__ import annotations

import asyncio

import pytest

from deploy.kubelets.gpus import CLAIMED, POOL
from shared.core.model.nouns import GpuChoice
from tests.kubelet.world import UNTIL_TOLD, World, a_workload
from tests.support.gpu_plugin import uuids_of
from tests.support.killing import checked

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(240, func_only=True)]

TELLS = f"echo $NVIDIA_VISIBLE_DEVICES; {UNTIL_TOLD}"
OF_POOL = GpuChoice(node_pool=POOL)
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"


async def test_a_gang_has_exactly_the_devices_of_the_ledger_and_its_claims_go_with_it(
    world: World,
) -> None:
    both = [
        await world.by_kafka(a_workload(name, TELLS, pods=2, gpus=gpus, gpu_choice=OF_POOL))
        for name, gpus in (("five", 5), ("three", 3))
    ]
    for one in both:
        await world.runs(one, pods=2)
    pods = [(one, rank) for one in both for rank in range(2)]
    has = [await _devices(world, *pod) for pod in pods]
    wanted = [await _of_ledger(world, *pod) for pod in pods]
    nodes = {node for _, node, _ in await world.allocated(both[0])}
    kubeconfig = str(world.kubelets.kubeconfig("checker"))
    check = await asyncio.to_thread(checked, world, "--kubeconfig", kubeconfig)
    for one in both:
        await world.go(one, ranks=2)
        await world.ended(one)
    await world.eventually(lambda: not _claims(world), what="all claims to be gone")

    assert wanted == has
    assert set(CLAIMED) == nodes
    assert "clean" == check


async def _devices(world: World, one: str, rank: int) -> list[str]:
    """The UUIDs that its container was given."""
    return sorted((await world.written(one, rank)).strip().split(","))


async def _of_ledger(world: World, one: str, rank: int) -> list[str]:
    rows = [(node, gpu) for number, node, gpu in await world.allocated(one) if number == rank]
    return sorted(uuids_of(node)[gpu] for node, gpu in rows)


def _claims(world: World) -> int:
    with world.kubelets.client() as admin:
        return len(admin.demand("GET", CLAIMS)["items"])
