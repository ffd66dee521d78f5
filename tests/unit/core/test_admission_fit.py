"""What can never run is refused at once, with what would fit."""

import pytest

from shared.core.fleet_shape import FleetShape, summary_of
from shared.core.mig_profiles import (
    known_profiles,
    least_milli,
    profiles_of,
)
from shared.core.mig_reported import table_of
from shared.core.model import (
    GpuChoice,
    GpuRequest,
    Level,
    PodSet,
    Slice,
    TopologyRequest,
    WorkloadKind,
)
from shared.core.static_fit import fitting_flavors, model_error
from shared.core.value import replace
from tests.unit.admission.builders import a_node, a_pod_set, a_spec


def a_fleet(*nodes):
    fleet = FleetShape()
    for node in nodes:
        fleet.put(node.name, summary_of(node))
    return fleet


def ready(spec):
    """As `admit` leaves it for the fit: CPU and memory filled."""
    sets = tuple(
        replace(one, cpu_milli=one.cpu_milli or 0, memory_mib=one.memory_mib or 0)
        for one in spec.pod_sets
    )
    return replace(spec, pod_sets=sets)


def flavors(spec, *nodes):
    found, error = fitting_flavors(ready(spec), a_fleet(*nodes))
    assert error is None, error
    return set(found)


def unfit(spec, *nodes):
    _, error = fitting_flavors(ready(spec), a_fleet(*nodes))
    assert error is not None
    return error


def test_nothing_is_refused_while_no_node_is_known():
    assert flavors(a_spec(gpus=64, count=4096)) == set()


def test_a_gang_as_large_as_the_empty_cluster_fits():
    nodes = [a_node(f"n{i}") for i in range(3)]

    assert flavors(a_spec(gpus=8, count=3), *nodes) == {"h100"}


def test_a_gang_larger_than_the_empty_cluster_is_told_how_many_pods_fit():
    error = unfit(a_spec(gpus=8, count=3), a_node("n1"), a_node("n2"), a_node("n3", gpus=4))

    assert (error.field, error.value) == ("pod_sets[0].count", "3")
    assert "at most 2 such pods fit (h100)" in error.rule


def test_a_gang_does_not_span_flavors():
    unfit(a_spec(gpus=8, count=2), a_node("n1"), a_node("n2", flavor="a100"))


def test_pod_sets_that_need_different_flavors_are_refused():
    sets = (
        PodSet(name="a", gpu=GpuRequest(count=1)),
        PodSet(name="b", cpu_milli=500_000),
    )
    large = a_node("n2", flavor="cpu", gpus=0, cpu_milli=500_000)

    error = unfit(a_spec(pod_sets=sets), a_node("n1"), large)

    assert "no flavor holds every one of them" in error.rule


def test_pod_sets_that_fit_alone_but_not_together_are_refused():
    sets = (
        PodSet(name="a", gpu=GpuRequest(count=8)),
        PodSet(name="b", gpu=GpuRequest(count=1)),
    )

    assert "together" in unfit(a_spec(pod_sets=sets), a_node()).rule


def test_more_gpus_than_a_node_has_names_the_largest_node():
    error = unfit(a_spec(gpus=16), a_node("n1", gpus=4), a_node("n2", gpus=8, product="H200"))

    assert error.field == "pod_sets[0].gpu.count"
    assert error.rule.startswith("must be at most 8:")
    assert "H200" in error.rule


def test_gpus_in_mig_mode_are_not_whole_gpus():
    assert unfit(a_spec(gpus=1), a_node(gpus=0, mig_gpus=8)).field == "pod_sets[0].gpu.count"


def test_an_unknown_product_is_told_which_there_are():
    error = unfit(a_spec(gpu_choice=GpuChoice(products=("B200",))), a_node())

    assert (error.field, error.value) == ("gpu_choice.products", "B200")
    assert error.rule == "no node has it; this fleet has: H100"


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        (GpuChoice(min_memory_mib=90_000), "min_memory_mib"),
        (GpuChoice(min_driver="570.1"), "min_driver"),
        (GpuChoice(cuda="13.0"), "cuda"),
        (GpuChoice(node_pool="gold"), "node_pool"),
    ],
)
def test_each_wish_about_the_gpu_is_checked(choice, field):
    node = a_node(driver="550.54.15", cuda="12.4", pool="silver")

    assert unfit(a_spec(gpu_choice=choice), node).field == f"gpu_choice.{field}"


@pytest.mark.parametrize(("have", "fits"), [("12.10", True), ("12.4", True), ("12.3", False)])
def test_versions_are_compared_as_numbers(have, fits):
    spec = a_spec(gpu_choice=GpuChoice(cuda="12.4"))

    _, error = fitting_flavors(ready(spec), a_fleet(a_node(cuda=have)))

    assert (error is None) is fits


def test_a_node_that_does_not_tell_its_driver_does_not_count():
    unfit(a_spec(gpu_choice=GpuChoice(min_driver="570")), a_node())


def test_a_dedicated_node_takes_only_those_who_name_its_pool():
    node = a_node(pool="research", taints=("dedicated=research:NoSchedule",))

    assert flavors(a_spec(gpu_choice=GpuChoice(node_pool="research")), node) == {"h100"}
    error = unfit(a_spec(), node)
    assert (error.field, "research (name it to use it)" in error.rule) == (
        "gpu_choice.node_pool",
        True,
    )


def test_a_taint_that_may_go_away_refuses_nobody():
    assert flavors(a_spec(), a_node(pool="p", taints=("draining:NoSchedule",))) == {"h100"}


def test_wishes_about_gpus_do_not_bind_pods_without_one():
    spec = a_spec(gpus=0, gpu_choice=GpuChoice(products=("B200",)))

    assert flavors(spec, a_node(gpus=0, flavor="cpu")) == {"cpu"}


def test_a_share_must_fit_the_memory_of_one_gpu():
    share = GpuRequest(milli=100, memory_mib=90_000)

    error = unfit(a_spec(pod_sets=(a_pod_set(gpu=share),)), a_node())

    assert error.field == "pod_sets[0].gpu.memory_mib"
    assert "81559" in error.rule


def test_shares_are_counted_by_milli_and_by_memory():
    by_memory = a_pod_set(gpu=GpuRequest(milli=100, memory_mib=40_000), count=16)
    by_milli = a_pod_set(gpu=GpuRequest(milli=400, memory_mib=1), count=16)

    for pod_set in (by_memory, by_milli):
        assert flavors(a_spec(pod_sets=(pod_set,)), a_node()) == {"h100"}
        one_more = a_pod_set(gpu=pod_set.gpu, count=17)
        assert "at most 16" in unfit(a_spec(pod_sets=(one_more,)), a_node()).rule


def test_a_profile_that_no_gpu_has_is_told_the_nearest():
    wanted = a_pod_set(gpu=GpuRequest(mig_profile="2g.10gb", mig_count=1))

    error = unfit(a_spec(pod_sets=(wanted,)), a_node(gpus=0, mig_gpus=1))

    assert error.field == "pod_sets[0].gpu.mig_profile"
    assert error.rule.endswith("nearest: 1g.10gb")


def test_a_profile_needs_a_gpu_in_mig_mode():
    wanted = a_pod_set(gpu=GpuRequest(mig_profile="1g.10gb", mig_count=1))

    assert "has: none" in unfit(a_spec(pod_sets=(wanted,)), a_node(gpus=8)).rule


def test_more_instances_than_a_node_holds_are_refused_with_the_number():
    def wanted(count):
        gpu = GpuRequest(mig_profile="3g.40gb", mig_count=count)
        return a_spec(pod_sets=(a_pod_set(gpu=gpu),))

    node = a_node(gpus=0, mig_gpus=2)

    assert flavors(wanted(4), node) == {"h100"}
    assert unfit(wanted(5), node).rule.startswith("must be at most 4")


@pytest.mark.parametrize("field", ["cpu_milli", "memory_mib"])
def test_cpu_and_memory_of_one_node_bound_a_pod(field):
    pod_set = a_pod_set(**{field: 2 << 20})

    error = unfit(a_spec(pod_sets=(pod_set,)), a_node())

    assert error.field == f"pod_sets[0].{field}"


def test_cpu_and_gpus_that_no_node_has_together_are_refused():
    pod_set = a_pod_set(cpu_milli=100_000, memory_mib=200_000)
    fast = a_node("n1", cpu_milli=128_000, memory_mib=100_000)
    large = a_node("n2", cpu_milli=64_000, memory_mib=400_000)

    assert "together" in unfit(a_spec(pod_sets=(pod_set,)), fast, large).rule


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


def a_model(kind, gpu, billions, count=1, **rest):
    return a_spec(
        kind,
        pod_sets=(a_pod_set(gpu=gpu, count=count),),
        model_parameters_billions=billions,
        **rest,
    )


def test_a_model_that_its_gpus_cannot_hold_is_refused_with_the_numbers():
    small = GpuRequest(mig_profile="1g.10gb", mig_count=1)

    error = model_error(a_model(WorkloadKind.INFERENCE, small, 7.0), a_fleet(a_node()))

    assert error is not None
    assert "7 billion parameters x 2 bytes = 14 GB of weights" in error.rule
    assert "needs at least 18 GB, the request holds 10.0 GB" in error.rule


@pytest.mark.parametrize(
    ("gpu", "fits"),
    [
        (GpuRequest(mig_profile="2g.20gb", mig_count=1), True),
        (GpuRequest(milli=200, memory_mib=20_000), True),
        (GpuRequest(milli=900, memory_mib=16_000), False),
        (GpuRequest(count=1), True),
    ],
)
def test_every_form_of_request_is_sized(gpu, fits):
    error = model_error(a_model(WorkloadKind.INFERENCE, gpu, 7.0), a_fleet(a_node()))

    assert (error is None) is fits


def test_training_shards_a_model_over_the_gang_and_serving_does_not():
    gpu = GpuRequest(count=1)

    training = a_model(WorkloadKind.TRAINING, gpu, 70.0, count=2)
    serving = a_model(WorkloadKind.INFERENCE, gpu, 70.0, count=2)

    assert model_error(training, a_fleet(a_node())) is None
    assert model_error(serving, a_fleet(a_node())) is not None


def test_a_model_in_training_may_be_spread_over_pod_sets():
    sets = tuple(a_pod_set(gpus=1, name=name) for name in ("a", "b"))
    spec = a_spec(pod_sets=sets, model_parameters_billions=70.0)

    assert model_error(spec, a_fleet(a_node())) is None


def test_a_model_on_whole_gpus_is_not_judged_before_a_node_is_known():
    assert (
        model_error(a_model(WorkloadKind.TRAINING, GpuRequest(count=1), 700.0), a_fleet()) is None
    )


def test_what_an_empty_gpu_holds_is_its_products():
    held = {
        (name, product): table.room(0, name)
        for name, product, memory_mib in (
            ("1g.10gb", "NVIDIA-H100-80GB-HBM3", 81_559),
            ("1g.10gb+me", "NVIDIA-H100-80GB-HBM3", 81_559),
            ("1g.10gb", "NVIDIA-A100-SXM4-40GB", 40_536),
            ("1g.6gb", "NVIDIA-A30", 24_576),
        )
        if (table := table_of(product, memory_mib)) is not None
    }
    assert list(held.values()) == [7, 1, 4, 4]
    assert table_of("Tesla-T4", 15_360) is None
    assert profiles_of("Tesla-T4", 15_360) == ()


def test_every_profile_that_is_known_has_a_size_in_quota():
    assert len(known_profiles()) > 50
    for name in known_profiles():
        assert 125 <= least_milli(name) <= 1000


def test_a_fleet_counts_its_nodes_each_once():
    fleet = a_fleet(a_node("n1"), a_node("n2"), a_node("n1", gpus=4))
    assert len(fleet) == 2

    fleet.remove("n1")

    assert len(fleet) == 1


def test_gpus_that_no_numa_domain_holds_are_refused_at_once_when_alignment_is_required():
    nodes = [a_node(f"n{i}", gpus_per_numa=4) for i in range(2)]
    aligned = TopologyRequest(numa_aligned=True)

    error = unfit(a_spec(gpus=5, topology=aligned), *nodes)

    assert error.field == "pod_sets[0].gpu.count"
    assert error.rule.startswith("must be at most 4 with topology.numa_aligned")
    assert flavors(a_spec(gpus=4, count=4, topology=aligned), *nodes) == {"h100"}
    assert "at most 4 such pods" in unfit(a_spec(gpus=4, count=5, topology=aligned), *nodes).rule
    assert flavors(a_spec(gpus=5), *nodes) == {"h100"}


def test_the_least_of_an_elastic_gang_must_fit_and_no_more():
    nodes = [a_node(f"n{i}") for i in range(3)]

    assert flavors(a_spec(pod_sets=(a_pod_set(8, 9, min_count=3),)), *nodes) == {"h100"}
    error = unfit(a_spec(pod_sets=(a_pod_set(8, 9, min_count=4),)), *nodes)
    assert (error.field, error.value) == ("pod_sets[0].min_count", "4")


def test_a_slice_that_no_domain_holds_is_refused_at_once():
    nodes = [a_node(f"n{i}", rack=f"r{i // 3}") for i in range(6)]

    def asked(pods):
        slices = (Slice(pods=pods, level=Level.RACK),)
        return a_spec(pod_sets=(a_pod_set(8, pods, slices=slices),))

    assert flavors(asked(3), *nodes) == {"h100"}
    error = unfit(asked(4), *nodes)
    assert error.field == "pod_sets[0].slices[0].pods"
    assert error.rule == "no rack holds a slice: at most 3 such pods fit"
