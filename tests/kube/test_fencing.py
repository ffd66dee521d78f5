"""A dead node on a real API server: what is ours there goes by force, once an operator says so."""

import asyncio

import pytest

from shared.events.pods import PodsGone, PodsRunning
from tests.kube.acting import acting_on
from tests.kube.kube_world import RED

STUCK_SECONDS = 3
FOREIGN = f"/api/v1/namespaces/{RED}/pods/somebody"


@pytest.fixture
async def acting(kube):
    async with acting_on(kube) as acting:
        yield acting


def a_pod_of_others(admin, node):
    """One that is being deleted on the same node."""
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "a/b:1"}]}
    body = {"metadata": {"name": "somebody"}, "spec": {**spec, "schedulerName": "x"}}
    admin.demand("POST", FOREIGN.removesuffix("/somebody"), body)
    admin.demand("DELETE", FOREIGN, {"gracePeriodSeconds": 1})


async def test_only_ours_that_are_being_deleted_there_go_by_force(acting, kube):
    world, (living, dead) = acting.world, acting.world.nodes
    key = acting.bind("gang", 2)
    runs_on = acting.bind("stays", 2)
    await acting.told(PodsRunning, workload_id="gang")
    await acting.told(PodsRunning, workload_id="stays")
    await world.node(dead, "silent")
    with kube.client() as admin:
        a_pod_of_others(admin, dead)
    acting.actuator.evict(key, 1)
    await world.until("gang-1-0", lambda pod: pod is None)
    await asyncio.sleep(STUCK_SECONDS)
    stuck = {pod.name: (pod.node, pod.deleting) for pod in (await world.pods()).values()}

    acting.actuator.evict(key, 1, (dead,))
    await acting.told(PodsGone, workload_id="gang")
    left = {pod.name: pod.deleting for pod in (await world.pods()).values()}
    with kube.client() as admin:
        others = admin.request("GET", FOREIGN)[0]
        admin.request("DELETE", FOREIGN, {"gracePeriodSeconds": 0})

    assert stuck["gang-1-1"] == (dead, True)
    assert "gang-1-0" not in stuck
    assert living != dead
    assert left == {"stays-1-0": False, "stays-1-1": False}
    assert others == 200
    assert runs_on in acting.actuator.gangs.by_key
