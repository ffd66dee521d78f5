"""Each rule of placement by an example."""

from __future__ import annotations

import pytest

from shared.core.cluster import Cluster
from shared.core.decision import Reason, Refusal
from shared.core.exact import CHARGES_MAX
from shared.core.feasibility import PLANS_MAX, version
from shared.core.model import GpuChoice, GpuRequest, GpuShare, Placement, Spread, Workload
from shared.core.placement import PlacementRequest, helps, helps_any, place, request_class
from shared.core.units import UNBOUNDED, Resources
from shared.core.value import replace
from tests.support.placing import cluster, mig, node, pods, request, share, whole, workload


def placed(fleet: Cluster, asked: Workload, *flavors: str) -> Placement:
    answer = place(fleet, request(asked, *flavors))
    assert isinstance(answer, Placement), answer
    return answer


def refused(fleet: Cluster, asked: Workload, *flavors: str) -> Refusal:
    answer = place(fleet, request(asked, *flavors))
    assert isinstance(answer, Refusal), answer
    return answer


def where(placement: Placement) -> list[str]:
    return [pod.node for pod in placement.pods]


def gpus(placement: Placement, pod: int = 0) -> list[int]:
    return [each.index for each in placement.pods[pod].shares]


# ── whole GPUs ──


def test_whole_gpus_are_charged_whole_with_their_memory() -> None:
    answer = placed(cluster(node("a")), workload(pods(whole(2), cpu_milli=5, memory_mib=7)))

    assert answer.pods[0].shares == (
        GpuShare(index=0, mask=255, milli=1000, memory_mib=81_920),
        GpuShare(index=1, mask=255, milli=1000, memory_mib=81_920),
    )
    assert answer.charge == Resources(gpu_milli=2000, cpu_milli=5, memory_mib=7)
    assert answer.flavor == "a100"


def test_the_node_with_the_fewest_free_gpus_that_suffice_is_taken() -> None:
    fleet = cluster(node("eight"), node("four", gpus=4), node("two", gpus=2))

    assert where(placed(fleet, workload(pods(whole(3))))) == ["four"]


def test_cpu_stays_beside_the_gpus_left_free() -> None:
    fleet = cluster(node("poor", gpus=2), node("rich", gpus=2))
    fleet.charge(
        "x", placed(cluster(node("poor")), workload(pods())).pods, (pods(cpu_milli=50_000),)
    )

    assert where(placed(fleet, workload(pods(whole(1), cpu_milli=40_000)))) == ["rich"]


def test_cpu_beside_free_gpus_counts_for_more_than_a_tight_fit_also_between_kinds() -> None:
    fleet = cluster(node("poor", gpus=2, cpu_milli=46_000), node("rich", gpus=2))

    assert where(placed(fleet, workload(pods(whole(1), cpu_milli=40_000)))) == ["rich"]


def test_the_order_of_reports_decides_nothing_between_kinds() -> None:
    boards = [node(f"n{i}", gpus=1, mig=(0,), cpu_milli=1000 + i) for i in range(4)]
    asked = workload(pods(mig("2g.20gb")))

    assert placed(cluster(*boards), asked) == placed(cluster(*reversed(boards)), asked)


def test_gpus_of_one_numa_domain_go_together() -> None:
    fleet = cluster(node("a"))
    assert gpus(placed(fleet, workload(pods(whole(1))))) == [0]

    assert gpus(placed(fleet, workload(pods(whole(4))))) == [4, 5, 6, 7]


def test_gpus_of_several_numa_domains_are_taken_from_the_freest() -> None:
    fleet = cluster(node("a"))
    placed(fleet, workload(pods(whole(1))))

    assert gpus(placed(fleet, workload(pods(whole(5))))) == [1, 4, 5, 6, 7]


def test_a_gpu_in_mig_mode_is_never_given_whole() -> None:
    fleet = cluster(node("a", gpus=2, mig=(0,)))

    assert gpus(placed(fleet, workload(pods(whole(1))))) == [1]
    refused(fleet, workload(pods(whole(1))))


def test_pods_without_a_gpu_go_where_no_gpu_waits_for_the_cpu() -> None:
    fleet = cluster(node("gpu"), node("cpu", gpus=0, product=""))

    assert where(placed(fleet, workload(pods(cpu_milli=1000)))) == ["cpu"]


# ── shares ──


def test_a_share_goes_to_the_tightest_gpu_of_its_team() -> None:
    fleet = cluster(node("a", gpus=3))
    for milli in (300, 800):
        placed(fleet, workload(pods(share(milli))))

    answer = placed(fleet, workload(pods(share(200, 10))))

    assert answer.pods[0].shares == (GpuShare(index=1, mask=0, milli=200, memory_mib=10),)


def test_a_gpu_is_shared_by_one_team_only() -> None:
    fleet = cluster(node("a", gpus=2))
    first = placed(fleet, workload(pods(share(300)), team="red"))
    second = placed(fleet, workload(pods(share(300)), team="blue"))

    assert gpus(first) != gpus(second)
    refused(fleet, workload(pods(share(300)), team="green"))


def test_memory_of_a_shared_gpu_is_never_over_sold() -> None:
    fleet = cluster(node("a", gpus=1, gpu_memory_mib=100))
    placed(fleet, workload(pods(share(100, 60))))

    refused(fleet, workload(pods(share(100, 41))))
    placed(fleet, workload(pods(share(100, 40))))
    assert helps(fleet, "a", workload(pods(share(100, 0))))
    assert not helps(fleet, "a", workload(pods(share(100, 1))))


def test_the_last_share_makes_the_gpu_whole_again() -> None:
    fleet = cluster(node("a", gpus=1))
    asked = workload(pods(share(300)))
    answer = placed(fleet, asked)

    fleet.release("red", answer.pods, asked.spec.pod_sets)

    placed(fleet, workload(pods(whole(1)), team="blue"))


# ── MIG ──


def test_instances_are_placed_by_exact_position_and_charged_by_slices() -> None:
    fleet = cluster(node("a", gpus=1, mig=(0,)))

    assert placed(fleet, workload(pods(mig("3g.40gb")))).pods[0].shares == (
        GpuShare(index=0, mask=0xF0, milli=500, memory_mib=40_960),
    )
    answer = placed(fleet, workload(pods(mig("4g.40gb"))))
    assert answer.pods[0].shares[0].mask == 0x0F
    assert answer.charge.gpu_milli == 500


def test_several_instances_of_a_pod_on_one_gpu_are_one_row() -> None:
    fleet = cluster(node("a", gpus=2, mig=(0, 1)))

    answer = placed(fleet, workload(pods(mig("3g.40gb", 3))))

    assert [each.mask.bit_count() for each in answer.pods[0].shares] == [8, 4]
    assert answer.charge.gpu_milli == 1500
    refused(fleet, workload(pods(mig("3g.40gb", 2))))


def test_a_used_gpu_is_filled_before_an_empty_one_is_opened() -> None:
    fleet = cluster(*(node(f"n{number}", gpus=1, mig=(0,)) for number in range(6)))
    first = placed(fleet, workload(pods(mig("1g.10gb"))))

    for _ in range(6):
        assert where(placed(fleet, workload(pods(mig("1g.10gb"))))) == where(first)


def test_a_whole_gpu_of_mig_slices_on_an_a30_is_a_thousand_milli() -> None:
    fleet = cluster(node("a", gpus=1, mig=(0,), product="NVIDIA-A30", gpu_memory_mib=24_576))

    for _ in range(2):
        assert placed(fleet, workload(pods(mig("2g.12gb")))).charge.gpu_milli == 500
    refused(fleet, workload(pods(mig("1g.6gb"))))


def test_an_ambiguous_profile_goes_where_quota_can_pay_for_it() -> None:
    dear = node("dear", gpus=1, mig=(0,), product="A100-40GB", gpu_memory_mib=40_960)
    cheap = node("cheap", gpus=1, mig=(0,), product="A100-80GB")
    preferring = GpuChoice(preferred_products={"A100-40GB": 1})
    asked = workload(pods(mig("1g.10gb")), choice=preferring)

    assert placed(cluster(dear, cheap), asked).charge.gpu_milli == 250
    tight = PlacementRequest(
        workload=asked, flavors=("a100",), headroom={"a100": Resources(gpu_milli=125)}
    )
    answer = place(cluster(dear, cheap), tight)
    assert isinstance(answer, Placement)
    assert where(answer) == ["cheap"]
    none = place(cluster(dear), tight)
    assert isinstance(none, Refusal)
    assert none.reason is Reason.WAITING_FOR_QUOTA


# ── filters ──


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (GpuChoice(products=("H100",)), "h"),
        (GpuChoice(min_memory_mib=80_000), "h"),
        (GpuChoice(min_driver="535.54"), "h"),
        (GpuChoice(cuda="12.4"), "h"),
        (GpuChoice(node_pool="research"), "h"),
        (GpuChoice(products=("A100", "H100"), preferred_products={"H100": 2, "A100": 1}), "h"),
        (GpuChoice(preferred_products={"A100": 1}), "a"),
    ],
)
def test_the_choice_of_gpus_filters_and_prefers(choice: GpuChoice, expected: str) -> None:
    fleet = cluster(
        node("a", product="A100", gpu_memory_mib=40_000, driver="470.1", cuda="11.8"),
        node("h", product="H100", driver="535.104.05", cuda="12.4", pool="research"),
    )

    assert where(placed(fleet, workload(pods(whole(1)), choice=choice))) == [expected]


def test_gpu_filters_do_not_concern_a_leader_without_gpus() -> None:
    fleet = cluster(node("c", gpus=0, product=""), node("h", product="H100"))
    choice = GpuChoice(products=("H100",))

    answer = placed(
        fleet, workload(pods(count=1, name="leader"), pods(whole(1), name="w"), choice=choice)
    )

    assert where(answer) == ["c", "h"]


@pytest.mark.parametrize(
    ("taint", "gpu", "pool", "allowed"),
    [
        ("nvidia.com/gpu=present:NoSchedule", 1, "", True),
        ("nvidia.com/gpu=present:NoSchedule", 0, "", False),
        ("dedicated=research:NoSchedule", 1, "", False),
        ("dedicated=research:NoSchedule", 1, "research", True),
        ("maintenance:NoExecute", 1, "", False),
        ("busy:PreferNoSchedule", 0, "", True),
    ],
)
def test_taints_keep_away_all_but_those_meant(
    taint: str, gpu: int, pool: str, *, allowed: bool
) -> None:
    fleet = cluster(node("a", taints=(taint,), pool="research"))
    asked = workload(pods(GpuRequest(count=gpu)), choice=GpuChoice(node_pool=pool))

    assert isinstance(place(fleet, request(asked)), Placement) == allowed


def test_a_soft_taint_only_makes_a_node_the_last_choice() -> None:
    fleet = cluster(node("soft", gpus=1, taints=("busy:PreferNoSchedule",)), node("plain"))

    assert where(placed(fleet, workload(pods(whole(1))))) == ["plain"]


def test_versions_are_compared_as_numbers_and_an_unknown_one_is_the_oldest() -> None:
    assert version("535.104.05") > version("535.54") > version("9") > version("")


def test_answers_of_filters_are_kept_within_a_bound() -> None:
    fleet = cluster(node("a"))
    for number in range(PLANS_MAX + 10):
        refused(fleet, workload(pods(), choice=GpuChoice(node_pool=f"p{number}")))

    assert len(fleet.plans) <= PLANS_MAX


# ── flavors and quota ──


def test_flavors_are_tried_in_the_order_of_quota_and_a_gang_stays_in_one() -> None:
    fleet = cluster(node("a", gpus=2, flavor="spot"), node("b", flavor="reserved"))

    assert placed(fleet, workload(pods(whole(1), 2)), "spot", "reserved").flavor == "spot"
    answer = placed(fleet, workload(pods(whole(1), 3)), "spot", "reserved")
    assert answer.flavor == "reserved"
    assert set(where(answer)) == {"b"}


def test_a_flavor_without_headroom_is_skipped() -> None:
    fleet = cluster(node("a", flavor="spot"), node("b", flavor="reserved"))
    asked = PlacementRequest(
        workload=workload(pods(whole(1))),
        flavors=("spot", "reserved"),
        headroom={"spot": Resources(gpu_milli=999), "reserved": UNBOUNDED},
    )

    answer = place(fleet, asked)

    assert isinstance(answer, Placement)
    assert answer.flavor == "reserved"


# ── gangs ──


def test_ranks_count_over_the_pod_sets_in_their_order() -> None:
    fleet = cluster(node("a"), node("b"))

    answer = placed(
        fleet, workload(pods(count=1, name="leader"), pods(whole(8), 2, name="worker"))
    )

    assert [(pod.pod_set, pod.rank) for pod in answer.pods] == [
        ("leader", 0),
        ("worker", 1),
        ("worker", 2),
    ]


def test_a_gang_that_does_not_fit_whole_leaves_nothing_behind() -> None:
    fleet = cluster(node("a"), node("b"))
    before = fleet.digest()

    refused(fleet, workload(pods(whole(8), 3)))

    assert fleet.digest() == before


def test_required_spread_refuses_what_preferred_spread_allows() -> None:
    fleet = cluster(node("a"), node("b"))

    refused(fleet, workload(pods(whole(1), 3), spread=Spread.REQUIRED))
    answer = placed(fleet, workload(pods(whole(1), 3), spread=Spread.PREFERRED))
    assert set(where(answer)) == {"a", "b"}


def test_unlike_pods_in_each_others_way_are_placed_in_another_order() -> None:
    fleet = cluster(node("a", gpus=2, cpu_milli=4_000), node("b", gpus=1, cpu_milli=10_000))

    answer = placed(
        fleet,
        workload(
            pods(whole(1), 2, name="worker", cpu_milli=2_000),
            pods(count=1, name="leader", cpu_milli=9_000),
        ),
    )

    assert where(answer) == ["a", "a", "b"]


def test_unlike_instances_in_each_others_way_are_placed_at_other_starts() -> None:
    fleet = cluster(node("a", gpus=1, mig=(0,), cpu_milli=2_000), node("b", gpus=1, mig=(0,)))

    answer = placed(
        fleet,
        workload(
            pods(mig("3g.40gb"), 2, name="large"),
            pods(mig("2g.20gb"), 2, name="medium"),
            pods(mig("1g.10gb", 2), 2, name="small", cpu_milli=1_000),
        ),
    )

    assert len(answer.pods) == 6


def test_the_search_among_unlike_pods_is_bounded() -> None:
    fleet = cluster(*(node(f"n{number}", gpus=4, cpu_milli=9_000) for number in range(12)))
    asked = workload(
        pods(whole(1), 30, name="a", cpu_milli=2_000),
        pods(count=10, name="b", cpu_milli=5_500),
    )

    assert refused(fleet, asked).reason is Reason.GANG_SHORT
    assert len(fleet.changes) < 3 * CHARGES_MAX + 400


# ── classes and waking up ──


def test_a_class_is_what_placement_looks_at() -> None:
    asked = workload(pods(whole(1)))
    named = replace(asked, id="other", spec=replace(asked.spec, name="other"))

    assert request_class(asked) == request_class(named)
    assert request_class(asked) == request_class(workload(pods(whole(1)), team="blue"))
    assert request_class(asked) != request_class(workload(pods(whole(1)), spread=Spread.REQUIRED))
    assert request_class(workload(pods(share(1)))) != request_class(
        workload(pods(share(1)), team="blue")
    )


def test_a_node_helps_only_if_a_pod_fits_on_it() -> None:
    fleet = cluster(node("a", gpus=4), node("h", flavor="h100", product="H100"))

    assert helps(fleet, "a", workload(pods(whole(4), 9)))
    assert helps_any(fleet, ("unknown", "h", "a"), workload(pods(whole(4), 9)))
    assert not helps_any(fleet, ("unknown", "a", "a"), workload(pods(whole(5))))
    assert not helps(fleet, "a", workload(pods(whole(5))))
    assert not helps(fleet, "a", workload(pods(mig("1g.10gb"))))
    assert not helps(fleet, "a", workload(pods(whole(1)), choice=GpuChoice(products=("H100",))))
    assert helps(fleet, "h", workload(pods(whole(1)), choice=GpuChoice(products=("H100",))))
    assert not helps(fleet, "unknown", workload(pods()))
    fleet.set_gpu_health("a", -1, healthy=False)
    assert not helps(fleet, "a", workload(pods(whole(1))))
