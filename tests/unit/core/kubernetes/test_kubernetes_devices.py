"""The GPUs of a node, from the slices of NVIDIA's driver or from a device plugin's count."""

from __future__ import annotations

import pytest

from shared.core.kubernetes.counted import counted_gpus
from shared.core.kubernetes.devices import (
    NO_DEVICES,
    Devices,
    DeviceSlice,
    MigPart,
    WholeGpu,
    devices_of,
    minor_of,
    place_of,
)
from shared.core.model.mig.reported import table_of
from shared.core.model.nouns import MigInstance, MigPlacements

PRODUCT = "NVIDIA H100 80GB HBM3"


def whole(minor, **others):
    told = {"uuid": f"GPU-{minor}", "product": PRODUCT, "memory_mib": 81_559, **others}
    return WholeGpu(minor=minor, **told)


def part(minor=0, profile="1g.10gb", start=0, size=1, **others):
    told = {"parent_uuid": f"GPU-{minor}", "profile_id": 19, **others}
    return MigPart(minor=minor, profile=profile, start=start, size=size, **told)


def a_slice(gpus=(), parts=(), generation=1, total=1, pool="n"):
    return DeviceSlice(
        node="n", pool=pool, generation=generation, total=total, gpus=tuple(gpus),
        parts=tuple(parts),
    )  # fmt: skip


def read(*slices, uses_mig=False, memory_mib=0, taken=()) -> Devices | None:
    return devices_of(slices, uses_mig=uses_mig, memory_mib=memory_mib, taken=frozenset(taken))


def gpus(*slices, **others):
    found = read(*slices, **others)
    assert found is not None
    return found.gpus


@pytest.mark.parametrize(
    ("device", "minor", "place"),
    [
        ("gpu-0", 0, None),
        ("gpu-12", 12, None),
        ("gpu-3-mig-1g10gb-19-6", 3, (19, 6)),
        ("gpu-3-mig-1g10gb-me-20-0", 3, (20, 0)),
        ("gpu-x", None, None),
        ("gpu-99999", None, None),
        ("channel-0", None, None),
    ],
)
def test_a_device_is_known_by_its_name(device, minor, place):
    assert (minor, place) == (minor_of(device), place_of(device))


def test_whole_gpus_are_told_by_their_minor_number_whatever_their_order():
    found = read(
        a_slice([whole(2, driver="580.1", cuda="13.0.0"), whole(0, driver="580.1", cuda="13.0.0")])
    )

    assert found is not None
    assert [(0, "GPU-0", 81_559), (2, "GPU-2", 81_559)] == [
        (gpu.index, gpu.uuid, gpu.memory_mib) for gpu in found.gpus
    ]
    assert ("NVIDIA-H100-80GB-HBM3", "580.1", "13.0.0") == (
        found.product, found.driver, found.cuda,
    )  # fmt: skip


def test_a_tainted_gpu_and_one_that_others_hold_take_no_work():
    found = gpus(a_slice([whole(0), whole(1, healthy=False), whole(2)]), taken={2})

    assert [True, False, False] == [gpu.healthy for gpu in found]


def test_memory_comes_from_the_label_where_the_slice_has_none():
    found = gpus(a_slice([whole(0, memory_mib=0)]), memory_mib=40_960)

    assert [40_960] == [gpu.memory_mib for gpu in found]


def test_only_the_newest_generation_of_a_pool_counts_in_whatever_order_it_comes():
    old, new = a_slice([whole(0), whole(1)]), a_slice([whole(1)], generation=2)

    assert [1] == [gpu.index for gpu in gpus(old, new)]
    assert [1] == [gpu.index for gpu in gpus(new, old)]


def test_nothing_is_said_while_a_pool_is_incomplete():
    first, second = a_slice([whole(0)], total=2), a_slice([whole(1)], total=2)

    assert read(first) is None
    assert [0, 1] == [gpu.index for gpu in gpus(first, second)]


def test_no_slices_are_no_gpus():
    assert NO_DEVICES == read()


def test_placements_that_may_be_made_leave_the_gpu_whole_unless_the_node_uses_mig():
    parts = [
        *(part(start=start) for start in range(7)),
        part(profile="7g.80gb", profile_id=0, size=8),
        part(profile="4g.40gb+x", profile_id=5, size=4),
        part(profile="unnamed", profile_id=7, size=4),
    ]
    one = a_slice([whole(0)], parts)

    (gpu,), (cut,) = gpus(one), gpus(one, uses_mig=True)

    assert (False, True) == (gpu.mig, cut.mig)
    assert (
        MigPlacements(
            profile="1g.10gb", compute=1, size=1, starts=(0, 1, 2, 3, 4, 5, 6), profile_id=19
        )
        in gpu.mig_placements
    )
    assert {"1g.10gb", "7g.80gb", "4g.40gb+x"} == {one.profile for one in gpu.mig_placements}
    assert table_of(PRODUCT, 81_559) is not None


def test_placements_that_reach_no_boards_end_are_not_told():
    (gpu,) = gpus(a_slice([whole(0)], [part(start=0), part(start=4)]))

    assert () == gpu.mig_placements


def test_a_part_whose_memory_slices_are_unknown_is_no_placement():
    (gpu,) = gpus(a_slice([whole(0)], [part(size=0)]))

    assert () == gpu.mig_placements


def test_instances_that_exist_make_up_a_gpu_that_is_not_told_itself():
    parts = [
        part(1, "3g.40gb", 4, 4, uuid="MIG-b", product=PRODUCT, driver="580.1", cuda="13.0"),
        part(1, "1g.10gb", 0, 1, uuid="MIG-a", product=PRODUCT, driver="580.1", cuda="13.0"),
    ]

    found = read(a_slice((), parts), memory_mib=81_559)

    assert found is not None
    (gpu,) = found.gpus
    assert (1, "GPU-1", True, True, 81_559) == (
        gpu.index, gpu.uuid, gpu.mig, gpu.healthy, gpu.memory_mib,
    )  # fmt: skip
    assert gpu.mig_instances == (
        MigInstance(profile="1g.10gb", start=0, size=1, uuid="MIG-a"),
        MigInstance(profile="3g.40gb", start=4, size=4, uuid="MIG-b"),
    )
    assert "NVIDIA-H100-80GB-HBM3" == found.product


def test_an_unhealthy_instance_keeps_new_work_off_its_gpu():
    parts = [part(uuid="MIG-a"), part(start=1, uuid="MIG-b", healthy=False)]

    assert [False] == [gpu.healthy for gpu in gpus(a_slice((), parts))]


def usable(**amounts):
    told = {"capacity": 4, "allocatable": 4, "others": 0, "held": frozenset[int](), **amounts}
    return [gpu.healthy for gpu in counted_gpus(memory_mib=1, **told)]


def test_a_count_of_gpus_is_so_many_places():
    assert [True] * 4 == usable()


def test_unhealthy_devices_and_those_of_other_pods_take_the_last_places():
    assert [True, False, False, False] == usable(allocatable=3, others=2)


def test_a_place_that_a_pod_of_ours_holds_is_never_marked():
    assert [False, False, True, True] == usable(others=2, held=frozenset({2, 3}))


def test_more_devices_than_the_capacity_mark_nothing():
    assert [True] * 4 == usable(allocatable=9)
    assert [True, True, True, False] == usable(allocatable=9, others=1)
