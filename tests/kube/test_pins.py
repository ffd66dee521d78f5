"""Pods get the very devices of the ledger by ResourceClaims, on a real API server."""

import asyncio
import itertools
import os
import time

import pytest

from deploy.kube.nodes import node_name
from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.settings import KubernetesSettings
from shared.core.model.nouns import GpuRequest, GpuShare, PodSet
from shared.ports.cluster import Pod, PodOperation, PodTemplate
from tests.fixtures.kube import NODES
from tests.kube.kube_world import RED, on_kubernetes
from tests.kube.pins_fill import fill, nodes_with_slices

COUNTED, WHOLE, MIG = node_name(6), node_name(7), node_name(8)
LAST_OF_OTHERS = node_name(36)
SECONDS = 40
GONE_SECONDS_MAX = 30
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{RED}/resourceclaims"
_numbers = itertools.count(1)


def whole(*indexes):
    return tuple(GpuShare(index=n, mask=255, milli=1000, memory_mib=81_559) for n in indexes)


def a_pod(name, shares, node=WHOLE, **gpu):
    workload, attempt, rank = name.rsplit("-", 2)
    pod_set = PodSet(image="a/b:1", gpu=GpuRequest(**(gpu or {"count": len(shares)})))
    return Pod(
        name=name, namespace=RED, workload_id=workload, attempt=int(attempt), rank=int(rank),
        size=1, epoch=1, node=node, shares=shares, template=PodTemplate(pod_set=pod_set),
    )  # fmt: skip


class Pinning:
    """Pods of one Muster, and what an administrator sees of their claims."""

    def __init__(self, world, kube, admin):
        self.world, self.kube, self.admin = world, kube, admin

    async def created(self, pod):
        result = await self.world.one(
            PodOperation(verb="create", namespace=RED, name=pod.name, pod=pod)
        )
        assert result.status == 201, result
        return result.pod

    async def pin(self, pod, uid, cluster=None):
        operation = PodOperation(
            verb="pin", namespace=RED, name=pod.name, uid=uid, node=pod.node, pod=pod
        )
        return (await (cluster or self.world.cluster).apply([operation]))[0]

    async def pinned(self, pod):
        """The uid of a pod that was created and pinned, after some tries if need be."""
        uid = (await self.created(pod)).uid
        await self.until(lambda: self.pin(pod, uid), lambda result: result.status == 200)
        return uid

    async def bound(self, pod):
        uid = await self.pinned(pod)
        bind = PodOperation(verb="bind", namespace=RED, name=pod.name, uid=uid, node=pod.node)
        assert (await self.world.one(bind)).status == 201
        await self.world.until(pod.name, lambda one: one.phase == "Running")
        return uid

    async def deleted(self, name, uid):
        await self.world.one(PodOperation(verb="delete", namespace=RED, name=name, uid=uid))
        await self.world.until(name, lambda one: one is None)

    async def until(self, ask, condition):
        answer = None
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            answer = await ask()
            if condition(answer):
                return answer
            await asyncio.sleep(0.1)
        raise AssertionError(f"it did not come to that: {answer}")

    def claim(self, name):
        status, claim = self.admin.request("GET", f"{CLAIMS}/{name}")
        return claim if status == 200 else None

    def held(self, name):
        claim = self.claim(name) or {}
        allocation = claim.get("status", {}).get("allocation", {})
        return [
            (one["driver"], one["pool"], one["device"])
            for one in allocation.get("devices", {}).get("results", [])
        ]

    def plant(self, name, *devices, owner=None, finalizers=(), node=WHOLE):
        """A claim of somebody else, with these devices."""
        exactly = {"deviceClassName": "gpu.nvidia.com", "count": max(1, len(devices))}
        metadata = {"name": name, "finalizers": list(finalizers)}
        if owner is not None:
            metadata["labels"] = {
                "app.kubernetes.io/managed-by": "muster",
                "muster.dev/instance": self.world.instance,
            }
            metadata["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": owner}
            ]
        spec = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
        uid = self.admin.demand("POST", CLAIMS, {"metadata": metadata, "spec": spec})["metadata"]
        if devices:
            results = [
                {"request": "gpus", "driver": "gpu.nvidia.com", "pool": node, "device": one}
                for one in devices
            ]
            status = {"allocation": {"devices": {"results": results}}}
            self.admin.demand("PATCH", f"{CLAIMS}/{name}/status", {"status": status})
        return uid["uid"]

    def remove(self, name):
        self.admin.demand("PATCH", f"{CLAIMS}/{name}", {"metadata": {"finalizers": None}})
        self.admin.demand("DELETE", f"{CLAIMS}/{name}")


@pytest.fixture
async def pinning(kube):
    async with on_kubernetes(kube, f"pins-{os.getpid()}-{next(_numbers)}") as world:
        with kube.client() as admin:
            pinning = Pinning(world, kube, admin)
            yield pinning
            for name in list(await world.pods()):
                admin.request("DELETE", f"/api/v1/namespaces/{RED}/pods/{name}",
                              {"gracePeriodSeconds": 0})  # fmt: skip
            await pinning.until(
                lambda: asyncio.to_thread(admin.demand, "GET", CLAIMS),
                lambda found: not found["items"],
            )


async def test_a_pod_has_the_very_devices_of_its_shares_before_it_is_bound(pinning):
    pod = a_pod("exact-1-0", whole(6, 3))

    uid = await pinning.pinned(pod)

    claim = pinning.claim(pod.name)
    assert pinning.held(pod.name) == [
        ("gpu.nvidia.com", WHOLE, "gpu-6"), ("gpu.nvidia.com", WHOLE, "gpu-3")
    ]  # fmt: skip
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": pod.name, "uid": uid}]
    assert claim["metadata"]["ownerReferences"][0]["uid"] == uid
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    terms = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert terms[0]["matchFields"][0]["values"] == [WHOLE]


async def test_a_pod_that_runs_is_read_with_the_uuids_of_its_devices(pinning):
    pod = a_pod("reads-1-0", whole(2, 5))
    await pinning.bound(pod)
    uuids = tuple(f"GPU-{7:08x}-0000-4000-8000-{n:012x}" for n in (2, 5))

    again = KubernetesCluster(
        KubernetesSettings(
            config=str(pinning.kube.kubeconfig("binder")), instance=pinning.world.instance
        )
    )
    pods, _ = await again.list_pods()
    await again.close()
    document = pinning.admin.demand("GET", f"/api/v1/namespaces/{RED}/pods/{pod.name}")

    assert (await pinning.world.pods())[pod.name].devices == uuids
    assert [(one.devices, one.unpinned) for one in pods] == [(uuids, False)]
    container = document["spec"]["containers"][0]
    assert "nvidia.com/gpu" not in container["resources"].get("limits", {})
    assert container["resources"]["claims"] == [{"name": "gpus"}]


async def test_a_pin_may_be_repeated_by_a_binder_that_knows_nothing(pinning):
    pod = a_pod("again-1-0", whole(1))
    created = await pinning.created(pod)
    pinning.plant(pod.name, owner=created.uid)
    listed = (await pinning.world.pods())[pod.name]
    restarted = KubernetesCluster(
        KubernetesSettings(
            config=str(pinning.kube.kubeconfig("binder")), instance=pinning.world.instance
        )
    )

    first = await pinning.pin(pod, created.uid)
    second = await pinning.pin(pod, created.uid)
    third = await pinning.pin(pod, created.uid, restarted)
    other = await pinning.pin(a_pod(pod.name, whole(2)), created.uid, restarted)
    await restarted.close()

    assert (created.unpinned, listed.unpinned) == (True, True)
    assert [one.status for one in (first, second, third)] == [200, 200, 200]
    assert (other.status, other.reason) == (422, "OtherDevices")
    assert pinning.held(pod.name) == [("gpu.nvidia.com", WHOLE, "gpu-1")]


async def test_the_claim_of_a_former_pod_of_the_name_is_not_used_and_goes(pinning):
    pod = a_pod("former-1-0", whole(1))
    old = pinning.plant(pod.name, owner="11111111-1111-4111-8111-111111111111",
                        finalizers=("example.org/slow",))  # fmt: skip
    created = await pinning.created(pod)

    early = await pinning.pin(pod, created.uid)
    pinning.admin.demand("PATCH", f"{CLAIMS}/{pod.name}", {"metadata": {"finalizers": None}})
    await pinning.until(lambda: pinning.pin(pod, created.uid), lambda result: result.status == 200)

    assert (early.status, early.reason) == (503, "DevicesNotReady")
    assert "former pod" in early.message
    assert pinning.claim(pod.name)["metadata"]["uid"] != old


async def test_a_claim_of_others_with_our_name_is_never_touched(pinning):
    pod = a_pod("name-1-0", whole(1))
    uid = pinning.plant(pod.name)
    created = await pinning.created(pod)

    result = await pinning.pin(pod, created.uid)
    left = pinning.claim(pod.name)
    pinning.remove(pod.name)

    assert (result.status, result.reason) == (422, "NameTaken")
    assert (left["metadata"]["uid"], pinning.held(pod.name)) == (uid, [])


@pytest.mark.parametrize("held", ["gpu-4", "gpu-4-mig-1g10gb-19-0"])
async def test_a_gpu_of_a_claim_of_others_is_not_given_even_if_it_came_just_now(pinning, held):
    warm = a_pod("warm-1-0", whole(0), MIG)
    await pinning.pinned(warm)
    pod = a_pod("taken-1-0", whole(3, 4), MIG)
    free = a_pod("free-1-0", whole(5), MIG)
    pinning.plant("foreign", held, node=MIG)
    created = await pinning.created(pod)

    result = await pinning.until(
        lambda: pinning.pin(pod, created.uid), lambda one: one.status != 503
    )
    await pinning.pinned(free)
    pinning.remove("foreign")

    assert (result.status, result.reason) == (422, "DeviceTaken")
    assert f"{RED}/foreign" in result.message
    assert pinning.claim(pod.name) is None


async def test_a_device_of_a_pod_that_ended_is_given_when_its_claim_has_let_it_go(pinning):
    first = a_pod("first-1-0", whole(1))
    second = a_pod("second-1-0", whole(1))
    first_uid = await pinning.bound(first)
    created = await pinning.created(second)

    early = await pinning.pin(second, created.uid)
    started = time.monotonic()
    await pinning.deleted(first.name, first_uid)
    await pinning.until(
        lambda: pinning.pin(second, created.uid), lambda result: result.status == 200
    )
    seconds = time.monotonic() - started

    assert (early.status, early.reason) == (503, "DevicesNotReady")
    assert f"{RED}/first-1-0" in early.message
    assert seconds < GONE_SECONDS_MAX
    assert pinning.held(first.name) == []
    assert pinning.held(second.name) == [("gpu.nvidia.com", WHOLE, "gpu-1")]


async def test_claims_are_gone_soon_after_their_pods(pinning):
    pod = a_pod("gone-1-0", whole(1))
    uid = await pinning.bound(pod)

    await pinning.deleted(pod.name, uid)
    started = time.monotonic()
    await pinning.until(
        lambda: asyncio.to_thread(pinning.claim, pod.name), lambda claim: claim is None
    )

    assert time.monotonic() - started < GONE_SECONDS_MAX


async def test_a_mig_placement_is_the_device_of_its_profile_and_start(pinning):
    share = GpuShare(index=2, mask=0b1100, milli=250, memory_mib=20_480)
    beside = GpuShare(index=2, mask=0b110000, milli=250, memory_mib=20_480)
    pod = a_pod("mig-1-0", (share,), MIG, mig_profile="2g.20gb", mig_count=1)
    other = a_pod("mig-1-1", (beside,), MIG, mig_profile="2g.20gb", mig_count=1)

    await pinning.pinned(pod)
    await pinning.pinned(other)

    assert pinning.held("mig-1-0") == [("gpu.nvidia.com", MIG, "gpu-2-mig-2g20gb-14-2")]
    assert pinning.held("mig-1-1") == [("gpu.nvidia.com", MIG, "gpu-2-mig-2g20gb-14-4")]
    spec = pinning.claim("mig-1-0")["spec"]["devices"]["requests"][0]
    assert spec["exactly"]["deviceClassName"] == "mig.nvidia.com"


async def test_a_share_that_overlaps_a_placement_waits_for_it(pinning):
    half = GpuShare(index=3, mask=0b1111, milli=500, memory_mib=40_960)
    quarter = GpuShare(index=3, mask=0b1100, milli=250, memory_mib=20_480)
    await pinning.pinned(a_pod("half-1-0", (half,), MIG, mig_profile="3g.40gb", mig_count=1))
    late = a_pod("late-1-0", (quarter,), MIG, mig_profile="2g.20gb", mig_count=1)
    created = await pinning.created(late)

    result = await pinning.pin(late, created.uid)

    assert result.status == 503
    assert "gpu-3-mig-2g20gb-14-2 is in the claim red/half-1-0" in result.message


async def test_a_node_of_a_device_plugin_gets_a_count_and_no_claim(pinning):
    pod = a_pod("count-1-0", whole(1, 2), COUNTED)

    created = await pinning.created(pod)

    document = pinning.admin.demand("GET", f"/api/v1/namespaces/{RED}/pods/{pod.name}")
    assert not created.unpinned
    assert "resourceClaims" not in document["spec"]
    assert document["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


async def test_a_node_that_shows_no_gpus_is_waited_for(pinning):
    pod = a_pod("none-1-0", whole(1), "no-such-node")

    result = await pinning.world.one(
        PodOperation(verb="create", namespace=RED, name=pod.name, pod=pod)
    )

    assert (result.status, result.reason) == (503, "DevicesNotReady")
    assert "no-such-node shows no GPUs" in result.message


@pytest.mark.timeout(300)
async def test_all_gpus_filled_and_emptied_twice_are_those_of_the_ledger(kube):
    """Nodes that other tests use are left out."""
    nodes = [node for node in nodes_with_slices(NODES) if node > LAST_OF_OTHERS]

    rounds = await fill(kube, f"fill-{os.getpid()}-{next(_numbers)}", nodes)

    for one in rounds:
        assert one.differences == ()
        assert one.devices == 8 * len(nodes)
        assert one.claims_gone_seconds < GONE_SECONDS_MAX


def a_share(name, index=6, milli=250):
    share = GpuShare(index=index, mask=0, milli=milli, memory_mib=20_000)
    return a_pod(name, (share,), milli=milli, memory_mib=20_000)


async def test_pods_of_a_namespace_share_a_gpu_by_one_claim_which_goes_with_the_last(pinning):
    first, second = a_share("shared-1-0"), a_share("shared-1-1")
    claim = f"gpu-6.{WHOLE}"
    uids = await asyncio.gather(pinning.bound(first), pinning.bound(second))
    both = pinning.claim(claim)
    devices = {pod.devices for pod in (await pinning.world.pods()).values()}

    await pinning.deleted(first.name, uids[0])
    one = await pinning.until(
        lambda: asyncio.to_thread(pinning.claim, claim),
        lambda found: len(found["status"]["reservedFor"]) == 1,
    )
    third = a_share("shared-1-2")
    third_uid = await pinning.bound(third)
    await pinning.deleted(second.name, uids[1])
    await pinning.deleted(third.name, third_uid)
    await pinning.until(
        lambda: asyncio.to_thread(pinning.claim, claim), lambda found: found is None
    )

    assert {user["uid"] for user in both["status"]["reservedFor"]} == set(uids)
    assert {owner["uid"] for owner in both["metadata"]["ownerReferences"]} == set(uids)
    assert devices == {(f"GPU-{7:08x}-0000-4000-8000-{6:012x}",)}
    assert one["status"]["reservedFor"][0]["uid"] == uids[1]


async def test_a_shared_gpu_is_not_given_whole_and_a_whole_one_is_not_shared(pinning):
    await pinning.pinned(a_share("part-1-0", index=5))
    await pinning.pinned(a_pod("whole-1-0", whole(4)))
    late, share = a_pod("late-1-0", whole(5)), a_share("late-1-1", index=4)

    results = [await pinning.pin(pod, (await pinning.created(pod)).uid) for pod in (late, share)]

    assert [result.status for result in results] == [503, 503]
    assert [result.message.partition(" until")[0] for result in results] == [
        f"gpu-5 is in the claim {RED}/gpu-5.{WHOLE}", f"gpu-4 is in the claim {RED}/whole-1-0",
    ]  # fmt: skip
