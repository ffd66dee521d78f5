"""What a submission names and is not there, on a real API server: named in time, then an end."""

import pytest

from services.binder.gang import BoundGang
from shared.events.pods import BindRefused, PodsRunning
from tests.kube.acting import acting_on, pod_of
from tests.kube.kube_world import RED

NAMED_SECONDS = 2.0
NAMES_ALL = {"secrets": ("token",), "volumes": ("data:/data:ro",)}


@pytest.fixture
async def acting(kube):
    async with acting_on(kube) as acting:
        yield acting


@pytest.mark.parametrize(
    ("fields", "reason", "words", "ends"),
    [
        ({"secrets": ("no-token",)}, "SecretNotFound",
         "Secret no-token does not exist in namespace red; ", True),
        ({"volumes": ("no-data:/data",)}, "PersistentVolumeClaimNotFound",
         "PersistentVolumeClaim no-data does not exist in namespace red; ", True),
        ({"kubernetes_priority_class": "no-class"}, "PriorityClassNotFound",
         "PriorityClass no-class does not exist; ", True),
        ({"service_account": "no-account"}, "ServiceAccountNotFound",
         "ServiceAccount no-account does not exist in namespace red; ", False),
        ({"namespace": "no-namespace"}, "NamespaceNotFound",
         "Namespace no-namespace does not exist; ", False),
        ({"namespace": "no-namespace", "secrets": ("no-token",)}, "NamespaceNotFound",
         "Namespace no-namespace does not exist; ", False),
    ],
)  # fmt: skip
async def test_it_is_named_with_its_kind_in_time_and_ends_or_waits(
    acting, fields, reason, words, ends
):
    acting.bind("lacks", 2, **fields)

    fact = await acting.told((BindRefused, PodsRunning), seconds=NAMED_SECONDS)

    assert (fact.reason, fact.ends) == (reason, ends)
    assert fact.message.startswith(words)
    assert await acting.world.pods() == {}


async def test_of_a_gang_in_which_one_pod_names_it_nothing_is_left(acting):
    pods = (pod_of("half", 0, 2), pod_of("half", 1, 2, secrets=("no-token",)))
    acting.actuator.add(BoundGang(workload_id="half", attempt=1, size=2, pods=pods))

    fact = await acting.told((BindRefused, PodsRunning), seconds=NAMED_SECONDS)

    assert fact.reason == "SecretNotFound"
    assert await acting.world.pods() == {}


async def test_who_names_what_is_there_runs(acting, kube):
    secret = {"metadata": {"name": "token"}, "stringData": {"KEY": "value"}}
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }
    place = f"/api/v1/namespaces/{RED}"
    with kube.client() as admin:
        admin.demand("POST", f"{place}/secrets", secret)
        admin.demand("POST", f"{place}/persistentvolumeclaims", claim)
        try:
            acting.bind("has", 2, **NAMES_ALL)
            await acting.told(PodsRunning)
        finally:
            admin.demand("DELETE", f"{place}/secrets/token")
            admin.demand("DELETE", f"{place}/persistentvolumeclaims/data")

    assert [one for one in acting.facts if isinstance(one, BindRefused)] == []


async def test_a_full_namespace_is_told_as_its_quota_and_waited_for(acting):
    await acting.world.limit(RED, 1)
    acting.bind("much", 2)

    fact = await acting.told((BindRefused, PodsRunning), seconds=NAMED_SECONDS)

    assert (fact.reason, fact.ends) == ("ExceededQuota", False)
    assert fact.message.startswith("exceeded quota: pods, requested: pods=1")
