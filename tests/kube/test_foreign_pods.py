"""Pods of others on a real API server are never touched, whatever their names and labels are."""

import asyncio

import pytest

from services.binder import orphans
from shared.core.nodes.pod_failures import FailureCause
from shared.events.pods import BindRefused, PodsFinished, PodsRunning
from tests.kube.acting import SECONDS, acting_on
from tests.kube.kube_world import RED

PATH = f"/api/v1/namespaces/{RED}/pods"
GRACE_MS = 500
OURS = {"app.kubernetes.io/managed-by": "muster"}


@pytest.fixture
async def acting(kube, monkeypatch):
    monkeypatch.setattr(orphans, "GRACE_MS", GRACE_MS)
    async with acting_on(kube) as acting:
        yield acting


def of_workload(workload_id, rank):
    return {
        "muster.dev/workload": workload_id,
        "muster.dev/attempt": "1",
        "muster.dev/rank": str(rank),
    }


def plant(admin, name, labels):
    """A pod of somebody, not bound; its uid."""
    metadata = {"name": name, "labels": labels, "annotations": {"muster.dev/size": "1"}}
    spec = {"schedulerName": "x", "containers": [{"name": "c", "image": "a/b:1"}]}
    return admin.demand("POST", PATH, {"metadata": metadata, "spec": spec})["metadata"]["uid"]


def uid_of(admin, name):
    """Of the pod that has the name and is not on its way out."""
    status, pod = admin.request("GET", f"{PATH}/{name}")
    there = status == 200 and "deletionTimestamp" not in pod["metadata"]
    return pod["metadata"]["uid"] if there else None


def remove(admin, *names):
    for name in names:
        admin.request("DELETE", f"{PATH}/{name}", {"gracePeriodSeconds": 0})


INSTANCE = "muster.dev/instance"
OTHERS = {
    "of another Muster": {**OURS, INSTANCE: "another"},
    "of no Muster by name": OURS,
    "of another manager": {"app.kubernetes.io/managed-by": "helm", INSTANCE: "{ours}"},
    "of no manager": {INSTANCE: "{ours}"},
    "without a label of ours": {},
}


def labels_of(whose, acting):
    """Of a pod of others; one may name our instance."""
    ours = acting.world.instance
    return {key: value.format(ours=ours) for key, value in OTHERS[whose].items()}


@pytest.mark.parametrize("whose", OTHERS)
async def test_who_has_the_name_of_one_of_our_pods_keeps_it(acting, kube, whose):
    with kube.client() as admin:
        uid = plant(admin, "theirs-1-1", {**of_workload("theirs", 1), **labels_of(whose, acting)})
        try:
            acting.bind("theirs", 3)
            fact = await acting.told((BindRefused, PodsRunning))
            await asyncio.sleep(4 * GRACE_MS / 1000)

            assert (fact.reason, fact.ends) == ("NameTaken", False)
            assert uid_of(admin, "theirs-1-1") == uid
            assert await acting.world.pods() == {}
        finally:
            remove(admin, "theirs-1-1")


async def test_what_nobody_wants_is_deleted_if_it_is_ours_and_left_if_it_is_not(acting, kube):
    instance = acting.world.instance
    names = [f"stray-{number}" for number in range(len(OTHERS))]
    with kube.client() as admin:
        try:
            uids = [
                plant(admin, name, {**of_workload("stray", 0), **labels_of(whose, acting)})
                for name, whose in zip(names, OTHERS, strict=True)
            ]
            mine = {**of_workload("stray", 0), **OURS, INSTANCE: instance}
            plant(admin, "stray-ours", mine)
            async with asyncio.timeout(SECONDS):
                while uid_of(admin, "stray-ours"):
                    await asyncio.sleep(0.1)
            await asyncio.sleep(4 * GRACE_MS / 1000)

            assert [uid_of(admin, name) for name in names] == uids
        finally:
            remove(admin, "stray-ours", *names)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        pytest.param("unlabelled", {"app.kubernetes.io/managed-by": None}, id="no label"),
        pytest.param("robbed", {INSTANCE: "another"}, id="another Muster"),
    ],
)
async def test_a_pod_that_is_ours_no_more_is_left_and_its_gang_ends_as_robbed(
    acting, kube, name, change
):
    first, second = f"{name}-1-0", f"{name}-1-1"
    acting.bind(name, 3)
    await acting.told(PodsRunning)
    with kube.client() as admin:
        uid = uid_of(admin, second)
        try:
            admin.demand("PATCH", f"{PATH}/{second}", {"metadata": {"labels": change}})
            fact = await acting.told(PodsFinished)
            acting.actuator.close((name, 1))
            async with asyncio.timeout(SECONDS):
                while uid_of(admin, first):
                    await asyncio.sleep(0.1)
            await asyncio.sleep(4 * GRACE_MS / 1000)

            assert (fact.succeeded, fact.cause) == (False, FailureCause.TAKEN_AWAY)
            assert uid_of(admin, second) == uid
        finally:
            remove(admin, second)
