"""A gang that no domain of the empty fleet holds is refused at once."""

from shared.core.model import (
    Level,
    Slice,
    TopologyRequest,
)
from tests.unit.admission.builders import a_node, a_pod_set, a_spec
from tests.unit.admission.fleets import a_fleet, flavors, unfit


def racks(*sizes):
    return [
        a_node(f"r{rack}n{i}", rack=f"r{rack}")
        for rack, size in enumerate(sizes)
        for i in range(size)
    ]


def test_a_required_level_bounds_the_gang_by_its_largest_domain():
    spec = a_spec(gpus=8, count=3, topology=TopologyRequest(required=Level.RACK))

    assert flavors(spec, *racks(2, 3)) == {"h100"}
    error = unfit(spec, *racks(2, 2))
    assert "larger than one rack: at most 2" in error.rule


def test_a_required_node_holds_the_whole_gang():
    spec = a_spec(gpus=4, count=2, topology=TopologyRequest(required=Level.NODE))

    assert flavors(spec, a_node()) == {"h100"}
    unfit(spec, a_node("n1", gpus=4), a_node("n2", gpus=4))


def test_a_node_without_a_rack_is_a_rack_of_its_own():
    spec = a_spec(gpus=8, count=1, topology=TopologyRequest(required=Level.RACK))

    assert flavors(spec, a_node()) == {"h100"}


def test_a_node_without_a_rack_belongs_to_its_tighter_domain():
    spec = a_spec(gpus=8, count=2, topology=TopologyRequest(required=Level.RACK))
    nodes = [a_node(f"n{i}", nvlink_domain="d1") for i in range(2)]

    assert flavors(spec, *nodes) == {"h100"}


def test_equal_domains_are_kept_once():
    fleet = a_fleet(*racks(2, 2, 2, 3))

    assert len(fleet.compositions(Level.RACK)) == 2
    assert fleet.compositions(Level.RACK) is fleet.compositions(Level.RACK)


def test_gpus_that_no_numa_domain_holds_are_refused_at_once_when_alignment_is_required():
    nodes = [a_node(f"n{i}", gpus_per_numa=4) for i in range(2)]
    aligned = TopologyRequest(numa_aligned=True)

    error = unfit(a_spec(gpus=5, topology=aligned), *nodes)

    assert error.field == "pod_sets[0].gpu.count"
    assert error.rule.startswith("must be at most 4 with topology.numa_aligned")
    assert flavors(a_spec(gpus=4, count=4, topology=aligned), *nodes) == {"h100"}
    assert "at most 4 such pods" in unfit(a_spec(gpus=4, count=5, topology=aligned), *nodes).rule
    assert flavors(a_spec(gpus=5), *nodes) == {"h100"}


def test_a_slice_that_no_domain_holds_is_refused_at_once():
    nodes = [a_node(f"n{i}", rack=f"r{i // 3}") for i in range(6)]

    def asked(pods):
        slices = (Slice(pods=pods, level=Level.RACK),)
        return a_spec(pod_sets=(a_pod_set(8, pods, slices=slices),))

    assert flavors(asked(3), *nodes) == {"h100"}
    error = unfit(asked(4), *nodes)
    assert error.field == "pod_sets[0].slices[0].pods"
    assert error.rule == "no rack holds a slice: at most 3 such pods fit"
