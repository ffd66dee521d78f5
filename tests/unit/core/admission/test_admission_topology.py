"""A gang that no domain of the empty fleet holds is refused at once."""

import pytest

from shared.core.model.nouns import Level, PodSet, Slice, Spread, TopologyRequest
from shared.core.model.value import replace
from tests.unit.admission.builders import QUEUE, a_node, a_pod_set, a_spec, rules
from tests.unit.admission.fleets import a_fleet, flavors, ready, unfit


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
    assert error.remedy.startswith("ask for at most 4 GPUs in a pod, or leave")
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
    assert error.remedy == "ask for slices of at most 3 pods, or for a wider level than rack"


def in_slices(pods, *slices, **rest):
    of = tuple(Slice(pods=size, level=level) for size, level in slices)
    return a_spec(pod_sets=(a_pod_set(8, pods, slices=of),), **rest)


def test_slices_that_fit_alone_but_not_together_are_refused_with_how_many_pods_do():
    asked = in_slices(6, (2, Level.RACK))

    assert flavors(asked, *racks(4, 3)) == {"h100"}
    error = unfit(asked, *racks(3, 3))
    assert (error.field, error.value) == ("pod_sets[0].count", "6")
    assert error.rule == (
        "the gang is larger than the empty cluster: at most 4 such pods fit in whole slices of 2 "
        "in one rack"
    )


def test_slices_of_which_none_fits_get_the_advice_to_ask_for_smaller_ones():
    zones = {"r0": "z0", "r1": "z1", "r2": "z1", "r3": "z1", "r4": "z1"}
    nodes = [replace(one, zone=zones[one.rack]) for one in racks(2, 1, 1, 1, 1)]

    error = unfit(in_slices(4, (4, Level.ZONE), (2, Level.RACK)), *nodes)

    assert "at most 0 such pods fit in whole slices of 4 in one zone" in error.rule
    assert error.remedy.startswith("ask for smaller pods or slices")


def test_slices_are_counted_inside_the_slices_around_them():
    nodes = [replace(one, zone="z") for one in racks(3, 3)]

    assert flavors(in_slices(4, (4, Level.ZONE), (2, Level.RACK)), *nodes) == {"h100"}
    assert unfit(in_slices(6, (6, Level.ZONE), (2, Level.RACK)), *nodes).field.endswith("count")


@pytest.mark.parametrize(("block", "fits"), [("b0", True), ("b1", False)])
def test_slices_lie_in_one_domain_of_the_level_that_is_required(block, fits):
    nodes = [replace(one, block="b0" if one.rack == "r0" else block) for one in racks(2, 2)]
    asked = in_slices(4, (2, Level.RACK), topology=TopologyRequest(required=Level.BLOCK))

    if fits:
        assert flavors(asked, *nodes) == {"h100"}
    else:
        assert "larger than one block: at most 2 such pods" in unfit(asked, *nodes).rule


def test_slices_of_a_required_block_are_whole_in_it():
    nodes = [replace(one, block="b") for one in racks(3, 3)]
    asked = in_slices(6, (2, Level.RACK), topology=TopologyRequest(required=Level.BLOCK))

    error = unfit(asked, *nodes)

    assert "larger than one block: at most 4 such pods fit in whole slices of 2" in error.rule


def test_whole_slices_of_two_blocks_are_not_those_of_one():
    blocks = {"r0": "b0", "r1": "b0", "r2": "b1", "r3": "b1"}
    nodes = [replace(one, block=blocks[one.rack]) for one in racks(3, 1, 3, 1)]
    asked = in_slices(4, (2, Level.RACK))

    assert flavors(asked, *nodes) == {"h100"}
    in_a_block = replace(asked, topology=TopologyRequest(required=Level.BLOCK))
    assert "larger than one block: at most 2 such pods" in unfit(in_a_block, *nodes).rule


def test_slices_of_a_node_are_whole_on_each():
    nodes = [a_node(f"n{i}", gpus=3) for i in range(2)]
    halves = (Slice(pods=2, level=Level.NODE),)

    def asked(count):
        return a_spec(pod_sets=(a_pod_set(1, count, slices=halves),))

    assert flavors(asked(4), *nodes) == {"h100"}
    assert (
        "at most 4 such pods fit in whole slices of 2 in one node" in unfit(asked(6), *nodes).rule
    )


def test_the_least_of_an_elastic_gang_in_slices_must_fit_and_no_more():
    elastic = a_pod_set(8, 8, min_count=4, slices=(Slice(pods=2, level=Level.RACK),))

    assert flavors(a_spec(pod_sets=(elastic,)), *racks(3, 3)) == {"h100"}
    error = unfit(a_spec(pod_sets=(replace(elastic, min_count=6),)), *racks(3, 3))
    assert (error.field, error.value) == ("pod_sets[0].min_count", "6")


def test_racks_of_one_name_in_two_zones_are_two():
    nodes = [a_node(f"n{i}", rack="r1", zone=f"z{i}") for i in range(2)]
    asked = a_spec(gpus=8, count=2, topology=TopologyRequest(required=Level.RACK))

    assert "larger than one rack: at most 1" in unfit(asked, *nodes).rule


def test_replicas_that_must_be_apart_need_a_node_each():
    asked = a_spec(gpus=1, count=3, spread=Spread.REQUIRED)

    assert flavors(asked, *racks(3)) == {"h100"}
    error = unfit(asked, *racks(2))
    assert (error.field, error.value) == ("pod_sets[0].count", "3")
    assert "at most 2 such pods fit, each on a node of its own (h100)" in error.rule
    assert flavors(replace(asked, spread=Spread.PREFERRED), *racks(2)) == {"h100"}


def test_pod_sets_that_must_be_apart_need_a_node_for_each_pod_of_all():
    sets = (a_pod_set(1, 2, name="a"), a_pod_set(1, 2, name="b"))
    asked = a_spec(pod_sets=sets, spread=Spread.REQUIRED)

    assert flavors(asked, *racks(4)) == {"h100"}
    error = unfit(asked, *racks(3))
    assert error.field == "pod_sets"
    assert "larger than the empty cluster, each on a node of its own" in error.rule


def test_what_is_remembered_of_a_request_is_not_told_of_one_that_must_be_apart():
    judged = rules(racks(2))
    asked = ready(a_spec(gpus=1, count=3))
    queue = judged.queues[QUEUE]

    assert judged.fit_errors(asked, queue) == ()
    assert judged.fit_errors(replace(asked, spread=Spread.REQUIRED), queue)


TAINT = "nvidia.com/gpu=present:"


def test_work_without_gpus_is_refused_where_all_nodes_are_kept_for_gpu_work():
    spec = a_spec(pod_sets=(PodSet(cpu_milli=1000),))
    kept = a_node("n1", taints=(TAINT + "NoSchedule",))

    error = unfit(spec, kept)

    assert (error.field, error.value) == ("pod_sets[0].gpu", "")
    assert "all have the taint nvidia.com/gpu" in error.rule
    assert error.remedy.startswith("ask for a GPU, or an operator for a node without the taint")
    assert flavors(a_spec(), kept) == {"h100"}
    assert flavors(spec, kept, a_node("n2", flavor="cpu", gpus=0)) == {"cpu"}
    assert flavors(spec, a_node(taints=(TAINT + "PreferNoSchedule",))) == {"h100"}


def test_nodes_that_are_kept_for_gpu_work_hold_no_pods_without_gpus():
    spec = a_spec(pod_sets=(PodSet(cpu_milli=100_000, count=2),))
    nodes = [a_node("n1"), a_node("n2", taints=(TAINT + "NoSchedule",))]

    assert "at most 1 such pods fit" in unfit(spec, *nodes).rule
