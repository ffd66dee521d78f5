"""The simulated nodes carry what real ones carry, within the bounds of the API server."""

from itertools import combinations

from deploy.kube.nodes import GPUS_A_NODE, objects_of, way_of

PLUGIN_NODE, WHOLE_NODE, MIG_NODE = 0, 1, 2


def slices_of(number):
    return [one["spec"] for one in objects_of(number) if one["kind"] == "ResourceSlice"]


def devices_of(number):
    return [device for one in slices_of(number) for device in one.get("devices", ())]


def places(device):
    return {
        (taken["counterSet"], counter)
        for taken in device["consumesCounters"]
        for counter in taken["counters"]
    }


def test_a_third_of_the_nodes_is_of_each_kind():
    assert [way_of(number) for number in range(4)] == [
        "device-plugin", "dra", "dra-mig", "device-plugin",
    ]  # fmt: skip


def test_a_node_of_a_device_plugin_counts_its_gpus_and_has_no_slice():
    node = next(iter(objects_of(PLUGIN_NODE)))

    assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(GPUS_A_NODE)
    assert slices_of(PLUGIN_NODE) == []


def test_a_node_of_whole_devices_has_one_slice_with_eight_gpus():
    node = next(iter(objects_of(WHOLE_NODE)))

    assert "nvidia.com/gpu" not in node["status"]["allocatable"]
    assert [device["name"] for device in devices_of(WHOLE_NODE)] == [
        f"gpu-{minor}" for minor in range(GPUS_A_NODE)
    ]


def test_counters_and_devices_are_in_slices_apart_and_within_their_bounds():
    slices = slices_of(MIG_NODE)

    assert {one["pool"]["resourceSliceCount"] for one in slices} == {len(slices)}
    assert not [one for one in slices if "sharedCounters" in one and "devices" in one]
    assert max(len(one.get("devices", ())) for one in slices) <= 64
    assert [len(one["sharedCounters"]) for one in slices if "sharedCounters" in one] == [8]


def test_the_placements_of_one_gpu_are_those_of_an_h100():
    names = [device["name"] for device in devices_of(MIG_NODE) if device["name"][4] == "0"]

    assert len(names) == 26  # the whole GPU, 7 + 7 + 4 + 3 + 2 + 1 + 1 placements
    assert {"gpu-0", "gpu-0-mig-1g10gb-19-3", "gpu-0-mig-3g40gb-9-4", "gpu-0-mig-7g80gb-0-0"} <= {
        *names
    }


def test_every_name_is_there_once_and_the_whole_gpu_excludes_every_placement():
    devices = devices_of(MIG_NODE)
    whole = next(one for one in devices if one["name"] == "gpu-0")
    cut = [one for one in devices if one["name"].startswith("gpu-0-mig")]

    assert len({one["name"] for one in devices}) == len(devices)
    assert all(places(whole) & places(one) for one in cut)
    assert any(not places(one) & places(other) for one, other in combinations(cut, 2))
