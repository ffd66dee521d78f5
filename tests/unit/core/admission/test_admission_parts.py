"""Shares of a GPU and MIG instances that no node could give are refused at once."""

import pytest

from shared.core.admission.admit import AdmissionRefusal, AdmittedWorkload, admit
from shared.core.admission.static_fit.fit import fitting_flavors
from shared.core.model.charges import workload_resources
from shared.core.model.mig.profiles import known_profiles, least_milli, profiles_of
from shared.core.model.mig.reported import table_of
from shared.core.model.nouns import GpuRequest, MigPlacements, WorkloadKind
from shared.core.model.value import replace
from tests.unit.admission.builders import TEAM, a_node, a_pod_set, a_spec, gpu_quota, rules
from tests.unit.admission.fleets import a_fleet, flavors, ready, unfit


def test_gpus_in_mig_mode_are_not_whole_gpus():
    assert unfit(a_spec(gpus=1), a_node(gpus=0, mig_gpus=8)).field == "pod_sets[0].gpu.count"


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


def with_profiles(node, *placements):
    gpus = tuple(replace(gpu, mig_placements=placements) for gpu in node.gpus)
    return replace(node, product="NVIDIA-X500", gpus=gpus)


def refused(spec, judged_by):
    answer = admit(spec, TEAM, judged_by)
    assert isinstance(answer, AdmissionRefusal)
    return answer.errors


X500 = (
    MigPlacements(profile="1g.16gb", compute=1, size=1, starts=(0, 1, 2, 3, 4, 5, 6)),
    MigPlacements(profile="1g.16gb+me.all", compute=1, size=1, starts=(0, 1, 2, 3, 4, 5, 6)),
    MigPlacements(profile="7g.128gb", compute=7, size=8, starts=(0,)),
)


def test_a_profile_that_only_its_driver_knows_may_be_asked_for_and_is_charged():
    nodes = (with_profiles(a_node(gpus=0, mig_gpus=2), *X500), a_node("n2"))
    asked = a_pod_set(gpu=GpuRequest(mig_profile="7g.128gb"), count=2)
    spec = a_spec(kind=WorkloadKind.INFERENCE, pod_sets=(asked,))

    assert isinstance(admit(spec, TEAM, rules(nodes)), AdmittedWorkload)
    assert workload_resources(spec).gpu_milli == 2 * 875
    (error,) = refused(spec, rules(nodes, quota={"h100": gpu_quota(1)}))
    assert "requested: gpu=1.75, used: gpu=0, limited: gpu=1" in error.rule


@pytest.mark.parametrize("name", ["1g.17gb", "1g.16gb+me.all"])
def test_a_profile_that_no_driver_offers_is_refused_with_those_of_the_fleet(name):
    asked = a_pod_set(gpu=GpuRequest(mig_profile=name))
    spec = a_spec(kind=WorkloadKind.INFERENCE, pod_sets=(asked,))
    node = with_profiles(a_node(gpus=0, mig_gpus=2), *X500)

    (error,) = refused(spec, rules([node]))

    assert (error.field, error.value) == ("pod_sets[0].gpu.mig_profile", name)
    assert "this fleet has: 1g.16gb, 7g.128gb; nearest: " in error.rule


def test_gpus_that_change_their_mode_are_known_to_have_the_profiles_of_their_driver():
    asked = a_spec(pod_sets=(a_pod_set(gpu=GpuRequest(mig_profile="1g.16gb", mig_count=7)),))
    fleet = a_fleet(with_profiles(a_node(gpus=1), *X500), switching=True)

    assert fitting_flavors(ready(asked), fleet) == (frozenset(("h100",)), None)


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
