"""What can never run is refused at once, with what would fit."""

import pytest

from shared.core.admission.static_fit.fit import fitting_flavors
from shared.core.model.nouns import (
    GpuChoice,
    GpuRequest,
    PodSet,
)
from shared.core.model.value import replace
from tests.unit.admission.builders import a_node, a_pod_set, a_spec
from tests.unit.admission.fleets import a_fleet, flavors, ready, unfit


def test_nothing_is_refused_while_no_node_is_known():
    assert flavors(a_spec(gpus=64, count=4096)) == set()


def test_a_gang_as_large_as_the_empty_cluster_fits():
    nodes = [a_node(f"n{i}") for i in range(3)]

    assert flavors(a_spec(gpus=8, count=3), *nodes) == {"h100"}


def test_a_gang_larger_than_the_empty_cluster_is_told_how_many_pods_fit():
    error = unfit(a_spec(gpus=8, count=3), a_node("n1"), a_node("n2"), a_node("n3", gpus=4))

    assert (error.field, error.value) == ("pod_sets[0].count", "3")
    assert "at most 2 such pods fit (h100)" in error.rule
    assert error.remedy == "ask for at most 2 pods (pod_sets[0].count)"


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
    assert error.remedy == "ask for at most 8 GPUs in a pod, and for more pods"


def test_an_unknown_product_is_told_which_there_are():
    error = unfit(a_spec(gpu_choice=GpuChoice(products=("B200",))), a_node())

    assert (error.field, error.value) == ("gpu_choice.products", "B200")
    assert error.rule == "no node has it; this fleet has: H100"
    assert error.remedy == "set gpu_choice.products to what the fleet has: H100"


def test_a_version_that_only_nodes_of_another_product_have_is_told_of_the_product_asked_for():
    old, new = a_node("n1", cuda="12.2"), a_node("n2", product="H200", cuda="12.8")
    asked = GpuChoice(products=("H100",), cuda="12.4")

    error = unfit(a_spec(gpu_choice=asked), old, new)

    assert (error.field, error.value) == ("gpu_choice.cuda", "12.4")
    assert error.rule == "no node with H100 has it; these have: 12.2; nodes with H200 have it"
    assert error.remedy == (
        "set gpu_choice.cuda to what these nodes have: 12.2; or allow nodes with H200"
    )
    nowhere = unfit(a_spec(gpu_choice=replace(asked, min_driver="1", cuda="13.0")), old, new)
    assert nowhere.field == "gpu_choice.min_driver"
    assert nowhere.rule == "no node with H100 has it; these have: none"


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


def test_the_least_of_an_elastic_gang_must_fit_and_no_more():
    nodes = [a_node(f"n{i}") for i in range(3)]

    assert flavors(a_spec(pod_sets=(a_pod_set(8, 9, min_count=3),)), *nodes) == {"h100"}
    error = unfit(a_spec(pod_sets=(a_pod_set(8, 9, min_count=4),)), *nodes)
    assert (error.field, error.value) == ("pod_sets[0].min_count", "4")
