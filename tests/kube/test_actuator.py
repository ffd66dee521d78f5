"""The binder's actuator on a real API server: whole gangs, and nothing of others is touched."""

import asyncio

import pytest

from deploy.kube.nodes import node_name
from shared.events.pods import BindRefused, PodsFinished, PodsGone, PodsResized, PodsRunning
from tests.kube.acting import SECONDS, acting_on, pod_of
from tests.kube.kube_world import KUBELETS, RED, kill_api_server, pod_path


@pytest.fixture
async def acting(kube):
    async with acting_on(kube) as acting:
        yield acting


def service_status(kube, name):
    with kube.client() as admin:
        return admin.request("GET", f"/api/v1/namespaces/{RED}/services/{name}")[0]


async def test_a_gang_runs_whole_under_a_name_of_its_own_and_goes_whole(acting, kube):
    key = acting.bind("gang", 8)
    await acting.told(PodsRunning)
    pods = await acting.world.pods()
    found = service_status(kube, "gang-1")

    acting.actuator.evict(key, 1)
    await acting.told(PodsGone)

    assert {pod.node for pod in pods.values()} == {node_name(3 * rank) for rank in range(8)}
    assert found == 200
    assert [pod for pod in (await acting.world.pods()).values() if not pod.ended] == []
    async with asyncio.timeout(SECONDS):
        while service_status(kube, "gang-1") != 404:
            await asyncio.sleep(0.1)


async def test_a_gang_that_grows_from_one_pod_is_found_by_the_name_of_the_first(acting, kube):
    key = acting.bind("grows", 1, count=4)
    await acting.told(PodsRunning)
    acting.actuator.settled(key)
    pods = tuple(pod_of("grows", rank, 4, count=4) for rank in range(4))

    acting.actuator.resize(key, 1, pods, 1)
    await acting.told(PodsResized)

    with kube.client() as admin:
        found = [admin.demand("GET", pod_path(pod)) for pod in pods]
        of_service = admin.demand("GET", f"/api/v1/namespaces/{RED}/services/grows-1")
    assert {pod["spec"]["subdomain"] for pod in found} == {"grows-1"}
    assert [pod["spec"]["hostname"] for pod in found] == [pod.name for pod in pods]
    selected = of_service["spec"]["selector"].items()
    assert all(selected <= pod["metadata"]["labels"].items() for pod in found)


async def test_a_foreign_service_of_our_name_stays_and_the_gang_is_refused_whole(acting, kube):
    foreign = {"metadata": {"name": "served-1"}, "spec": {"ports": [{"port": 80}]}}
    path = f"/api/v1/namespaces/{RED}/services"
    with kube.client() as admin:
        uid = admin.demand("POST", path, foreign)["metadata"]["uid"]
        try:
            acting.bind("served", 3)

            fact = await acting.told((BindRefused, PodsRunning))

            left = admin.demand("GET", f"{path}/served-1")
            assert (fact.reason, fact.ends) == ("NameTaken", False)
            assert fact.message == "the Service served-1 belongs to somebody else"
            assert left["metadata"]["uid"] == uid
            assert [one for one in (await acting.world.pods()).values() if not one.ended] == []
        finally:
            admin.demand("DELETE", f"{path}/served-1")


async def test_a_foreign_pod_of_our_name_stays_and_the_gang_is_refused_whole(acting, kube):
    foreign = {
        "metadata": {"name": "taken-1-1"},
        "spec": {"schedulerName": "x", "containers": [{"name": "c", "image": "a/b:1"}]},
    }
    path = f"/api/v1/namespaces/{RED}/pods"
    with kube.client() as admin:
        uid = admin.demand("POST", path, foreign)["metadata"]["uid"]
        acting.bind("taken", 3)

        fact = await acting.told(BindRefused)

        left = admin.demand("GET", f"{path}/taken-1-1")
        assert fact.reason == "NameTaken"
        assert left["metadata"]["uid"] == uid
        assert await acting.world.pods() == {}
        admin.demand("DELETE", f"{path}/taken-1-1", {"gracePeriodSeconds": 0})


async def test_a_field_that_the_server_refuses_ends_the_attempt_with_field_and_rule(acting):
    acting.bind("wrong", 2, image="")

    fact = await acting.told((BindRefused, PodsFinished))

    assert "spec.containers[0].image: Required value" in fact.message
    assert await acting.world.pods() == {}


async def test_a_container_that_fails_ends_the_attempt_with_its_exit_code(acting, kube):
    acting.bind("greedy", 2)
    await acting.told(PodsRunning)
    with kube.client() as admin:
        path = f"/api/v1/namespaces/{RED}/pods/greedy-1-1"
        change = {"metadata": {"annotations": KUBELETS["runs-out-of-memory"]}}
        admin.demand("PATCH", path, change)

    fact = await acting.told((BindRefused, PodsFinished))

    assert (fact.pod_reason, fact.exit_code) == ("OOMKilled", 137)


async def test_a_gang_that_meets_a_dead_api_server_is_bound_whole_when_it_is_back(acting, kube):
    acting.bind("early", 2)
    await acting.told(PodsRunning)
    acting.facts.clear()
    start = await asyncio.to_thread(kill_api_server, kube)
    acting.bind("late", 8)
    await asyncio.sleep(2)

    await asyncio.to_thread(start)
    fact = await acting.told((PodsRunning, BindRefused))

    phases = [pod.phase for pod in (await acting.world.pods()).values()]
    assert isinstance(fact, PodsRunning), acting.facts
    assert phases.count("Running") == 10
