"""The shape of a fleet follows its nodes."""

import pytest

from shared.core.admission.fleet_shape import summary_of
from shared.core.admission.static_fit.fit import fitting_flavors
from shared.core.model.nouns import GpuRequest, Level, PodSet, TopologyRequest
from tests.unit.admission.builders import a_node, a_spec
from tests.unit.admission.fleets import a_fleet, ready


def test_the_shape_of_the_fleet_follows_every_change():
    fleet = a_fleet(a_node("n1"), a_node("n2"))
    before = fleet.version

    same = fleet.put("n1", summary_of(a_node("n1")))
    fleet.put("n1", summary_of(a_node("n1", gpus=4)))
    fleet.remove("n2")

    assert not same
    assert fleet.version == before + 2
    assert [(shape.gpus, nodes) for shape, nodes in fleet.shapes.items()] == [(4, 1)]
    assert not fleet.remove("n2")


def test_a_fleet_counts_its_nodes_each_once():
    fleet = a_fleet(a_node("n1"), a_node("n2"), a_node("n1", gpus=4))
    assert len(fleet) == 2

    fleet.remove("n1")

    assert len(fleet) == 1


A100 = "NVIDIA-A100-SXM4-80GB"
SPLIT = a_node("n1", rack="r1", product=A100, gpus=4, mig_gpus=4, gpus_per_numa=4)
ALL_IN_MIG = GpuRequest(mig_profile="7g.80gb", mig_count=1)


def fits(fleet, count, gpu, **spec):
    request = a_spec(pod_sets=(PodSet(count=count, gpu=gpu, cpu_milli=1, memory_mib=1),), **spec)
    return fitting_flavors(ready(request), fleet)[1] is None


@pytest.mark.parametrize(
    ("count", "gpu", "asks"),
    [
        (1, GpuRequest(count=8), {}),
        (8, ALL_IN_MIG, {}),
        (2, GpuRequest(count=4), {"topology": TopologyRequest(numa_aligned=True)}),
        (2, GpuRequest(count=4), {"topology": TopologyRequest(required=Level.RACK)}),
    ],
)
def test_where_gpus_change_their_mode_each_counts_for_whole_and_for_mig(count, gpu, asks):
    assert not fits(a_fleet(SPLIT), count, gpu, **asks)

    switching = a_fleet(SPLIT, switching=True)
    assert fits(switching, count, gpu, **asks)
    assert not fits(switching, count + 1, gpu, **asks)


def test_but_together_they_are_no_more_than_there_are():
    fleet = a_fleet(SPLIT, switching=True)
    four = PodSet(name="a", count=4, gpu=GpuRequest(count=1))
    sets = [(four, PodSet(name="b", count=count, gpu=ALL_IN_MIG)) for count in (4, 5)]

    found = [fitting_flavors(ready(a_spec(pod_sets=one)), fleet)[1] for one in sets]

    assert [None, "pod_sets"] == [one and one.field for one in found]


def test_gpus_that_have_no_mig_never_count_for_it():
    fleet = a_fleet(a_node(product="Tesla-T4", gpu_memory_mib=15_360), switching=True)

    assert fits(fleet, 8, GpuRequest(count=1))
    assert not fits(fleet, 1, GpuRequest(mig_profile="1g.10gb", mig_count=1))


def test_a_fleet_whose_gpus_change_their_mode_tells_each_report_from_the_one_before():
    fleet = a_fleet(SPLIT, switching=True)
    switched = a_node("n1", rack="r1", product=A100, gpus=3, mig_gpus=5, gpus_per_numa=4)

    assert fleet.put("n1", summary_of(switched)), "the row behind it is another"
    assert not fleet.put("n1", summary_of(switched))
    assert fleet.remove("n1")
    assert not fleet.shapes


def test_nodes_of_one_shape_in_one_place_are_counted_together_and_once_until_a_change():
    fleet = a_fleet(*(a_node(f"n{i}", rack=f"r{i // 2}") for i in range(3)))
    before = fleet.alike()

    assert sorted(before.values()) == [1, 2]
    assert fleet.alike() is before
    fleet.remove("n2")
    assert list(fleet.alike().values()) == [2]
