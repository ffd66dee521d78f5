"""Devices by their names, claims as they are known, and the bodies that pin a pod."""

import json

import pytest

from deploy.kube.slices import mig_slices, whole_slice
from shared.adapters.kubernetes.nodes.objects import ClaimObject, SliceObject
from shared.adapters.kubernetes.objects import decoder
from shared.adapters.kubernetes.pins.claims import Claim, allocation_patch, read_claim
from shared.adapters.kubernetes.pins.devices import (
    EVERYTHING,
    DeviceId,
    devices_of_share,
    newest,
    read_names,
)
from shared.adapters.kubernetes.pins.known import Claims, KnownObjects, Slices
from shared.core.model.nouns import GpuRequest, GpuShare, PodSet
from shared.ports.cluster import Pod, PodTemplate

UUIDS = ["GPU-a", "GPU-b"]
OURS = {"app.kubernetes.io/managed-by": "muster", "muster.dev/instance": "default"}


def parsed(kind, document):
    return decoder(kind).decode(json.dumps(document))


def names(*documents):
    return [read_names(parsed(SliceObject, one)) for one in documents]


def share(index, mask=255):
    return GpuShare(index=index, mask=mask, milli=1000, memory_mib=1)


def whole_devices():
    return newest(names(whole_slice("n", UUIDS)))


def mig_devices():
    return newest(names(*mig_slices("n", UUIDS)))


def test_a_whole_gpu_is_the_device_of_its_minor_number_whatever_else_there_is():
    for devices in (whole_devices(), mig_devices()):
        (place,) = devices_of_share(share(1), "", devices.items())

        assert place == DeviceId("n", "gpu-1")
        assert (devices[place].uuid, devices[place].mask) == ("GPU-b", EVERYTHING)


@pytest.mark.parametrize(
    ("profile", "mask", "placed"),
    [
        ("1g.10gb", 0b1, ["gpu-1-mig-1g10gb-19-0"]),
        ("1g.10gb+me", 0b1, ["gpu-1-mig-1g10gb-me-20-0"]),
        ("2g.20gb", 0b110000, ["gpu-1-mig-2g20gb-14-4"]),
        ("7g.80gb", 0b11111111, ["gpu-1-mig-7g80gb-0-0"]),
        ("1g.10gb", 0b101, ["gpu-1-mig-1g10gb-19-0", "gpu-1-mig-1g10gb-19-2"]),
        ("3g.40gb", 0b11111111, ["gpu-1-mig-3g40gb-9-0", "gpu-1-mig-3g40gb-9-4"]),
    ],
)
def test_a_share_is_the_devices_of_its_profile_that_begin_in_it(profile, mask, placed):
    devices = mig_devices()

    found = devices_of_share(share(1, mask), profile, devices.items())

    assert found == [DeviceId("n", name) for name in placed]
    assert mask == sum(devices[one].mask for one in found)


def test_instances_are_counted_though_they_lie_in_one_share():
    def count(gpu, *shares):
        template = PodTemplate(pod_set=PodSet(gpu=gpu))
        pod = Pod(
            name="p", workload_id="w", attempt=1, rank=0, size=1, epoch=1, shares=shares,
            template=template,
        )  # fmt: skip
        return pod.device_count

    two = GpuRequest(mig_profile="1g.10gb", mig_count=2)
    assert 2 == count(two, share(1, 0b11))
    assert 1 == count(GpuRequest(mig_profile="1g.10gb"), share(1, 0b1))
    assert 3 == count(GpuRequest(count=3), share(0), share(1), share(2))
    assert 0 == count(two)


@pytest.mark.parametrize(
    ("index", "profile", "mask"), [(2, "", 255), (1, "9g.90gb", 1), (1, "3g.40gb", 0b10)]
)
def test_what_no_slice_has_is_no_device(index, profile, mask):
    assert [] == devices_of_share(share(index, mask), profile, mig_devices().items())


def test_of_a_pool_that_is_written_anew_the_newest_devices_count():
    old, new = whole_slice("n", UUIDS), whole_slice("n", UUIDS[:1])
    new["spec"]["pool"]["generation"] = 2

    assert list(newest(names(old, new))) == [DeviceId("n", "gpu-0")]


def test_slices_of_other_drivers_and_of_no_node_are_passed_over():
    other, nowhere = whole_slice("n", UUIDS), whole_slice("n", UUIDS)
    other["spec"]["driver"] = "x"
    del nowhere["spec"]["nodeName"]

    assert names(other, nowhere) == [None, None]


def test_slices_follow_their_node_and_are_gone_with_their_key():
    [one] = names(whole_slice("n", UUIDS))
    slices = Slices()

    slices.known.changed("s", one, 1)
    before = {node: list(found) for node, found in slices.of_node.items()}
    slices.known.changed("s", None, 2)

    assert (before, slices.of_node["n"]) == ({"n": ["s"]}, {})


# ── claims ───────────────────────────────────────────────────────────────────


def claim_document(*devices, labels=OURS, owner="u1", reserved=("u1",)):
    results = [
        {"request": "r", "driver": driver, "pool": "n", "device": name, "adminAccess": admin}
        for driver, name, admin in devices
    ]
    return {
        "metadata": {
            "name": "c", "uid": "cu", "resourceVersion": "9", "labels": labels,
            "ownerReferences": [{"uid": owner}],
        },
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"uid": uid} for uid in reserved],
        },
    }  # fmt: skip


def test_a_claim_holds_the_devices_of_the_driver_that_nobody_else_may_have():
    document = claim_document(
        ("gpu.nvidia.com", "gpu-1", None), ("gpu.nvidia.com", "gpu-2", True), ("x", "gpu-3", None)
    )

    claim = read_claim(parsed(ClaimObject, document), "default")

    assert claim.devices == (DeviceId("n", "gpu-1"),)
    assert (claim.ours, claim.pod_uids, claim.reserved) == (True, ("u1",), ("u1",))
    assert (claim.allocated, claim.deleting, claim.used_by_others) == (True, False, False)


@pytest.mark.parametrize(
    ("labels", "reserved", "ours", "shared"),
    [({}, ("u1",), False, False), (OURS, ("u1", "u2"), True, True)],
)
def test_a_claim_of_others_and_one_that_others_use_are_told_apart(labels, reserved, ours, shared):
    document = claim_document(labels=labels, reserved=reserved)

    claim = read_claim(parsed(ClaimObject, document), "default")

    assert (claim.ours, claim.used_by_others) == (ours, shared)


def held(*device_names, version=5):
    return Claim(version=version, devices=tuple(DeviceId("n", name) for name in device_names))


def holders(claims, name):
    return sorted(key for key, _ in claims.holders(DeviceId("n", name)))


def test_the_holders_of_a_gpu_are_those_of_it_and_of_its_parts():
    claims = Claims()
    claims.known.changed("whole", held("gpu-1"), 5)
    claims.known.changed("parts", held("gpu-1-mig-a-19-0", "gpu-1-mig-a-19-1", "gpu-11"), 5)

    assert holders(claims, "gpu-1") == ["parts", "whole"]
    assert (holders(claims, "gpu-11"), holders(claims, "gpu-0")) == (["parts"], [])


def test_a_claim_that_let_go_holds_nothing():
    claims = Claims()
    claims.known.changed("c", held("gpu-1-mig-a-19-0", "gpu-1-mig-a-19-1"), 5)

    claims.known.changed("c", Claim(version=6), 6)

    assert holders(claims, "gpu-1") == []


def test_old_news_do_not_undo_what_was_just_written():
    known = KnownObjects[str]()
    known.changed("c", "written", 7)

    known.changed("c", "before", 6)
    known.listed({"d": "other"}, 6)
    known.changed("c", None, 5)

    assert (known.items, known.complete) == ({"c": "written", "d": "other"}, True)


def test_a_newer_list_and_an_answer_of_the_server_take_away():
    known = KnownObjects[str]()
    for key in ("a", "b"):
        known.changed(key, key, 7)

    known.listed({"b": "b"}, 8)
    known.forget("b")

    assert known.items == {}


def test_an_interruption_is_told_until_the_next_list():
    known = KnownObjects[str]()
    known.interrupted("down")
    told = known.problem

    known.listed({}, 1)

    assert (told, known.problem) == ("down", "")


def test_an_allocation_has_copies_of_the_configuration_of_its_class():
    pod = Pod(name="w-1-0", namespace="red", workload_id="w", attempt=1, rank=0, size=1, epoch=1,
              node="n1")  # fmt: skip
    opaque = {"opaque": {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig"}}}

    patch = allocation_patch(
        Claim(version=3, uid="cu"), pod, "pu", devices=[DeviceId("n1", "gpu-1")], config=[opaque]
    )

    assert patch["metadata"] == {"uid": "cu", "resourceVersion": "3"}
    allocation = patch["status"]["allocation"]
    assert allocation["devices"]["config"] == [
        {**opaque, "source": "FromClass", "requests": ["gpus"]}
    ]
