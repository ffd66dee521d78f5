"""Each rule of placement by an example: whole GPUs, flavors, ranks, gangs of unlike pods."""

from __future__ import annotations

from shared.core.model.decision import Reason
from shared.core.model.nouns import GpuChoice, GpuShare, Placement, Spread
from shared.core.model.units import UNBOUNDED, Resources
from shared.core.model.value import replace
from shared.core.placement.gang.exact import CHARGES_MAX
from shared.core.placement.place import PlacementRequest, helps, place, request_class
from tests.support.placing import (
    cluster,
    gpus_of,
    mig,
    node,
    placed,
    pods,
    refused,
    share,
    where,
    whole,
    workload,
)


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
    assert gpus_of(placed(fleet, workload(pods(whole(1))))) == [0]

    assert gpus_of(placed(fleet, workload(pods(whole(4))))) == [4, 5, 6, 7]


def test_gpus_of_several_numa_domains_are_taken_from_the_freest() -> None:
    fleet = cluster(node("a"))
    placed(fleet, workload(pods(whole(1))))

    assert gpus_of(placed(fleet, workload(pods(whole(5))))) == [1, 4, 5, 6, 7]


def test_a_gpu_in_mig_mode_is_never_given_whole() -> None:
    fleet = cluster(node("a", gpus=2, mig=(0,)))

    assert gpus_of(placed(fleet, workload(pods(whole(1))))) == [1]
    refused(fleet, workload(pods(whole(1))))


def test_pods_without_a_gpu_go_where_no_gpu_waits_for_the_cpu() -> None:
    fleet = cluster(node("gpu"), node("cpu", gpus=0, product=""))

    assert where(placed(fleet, workload(pods(cpu_milli=1000)))) == ["cpu"]


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

    assert helps(fleet, ["a"], workload(pods(whole(4), 9)))
    assert helps(fleet, ("unknown", "h", "a"), workload(pods(whole(4), 9)))
    assert not helps(fleet, ("unknown", "a", "a"), workload(pods(whole(5))))
    assert not helps(fleet, ["a"], workload(pods(whole(5))))
    assert not helps(fleet, ["a"], workload(pods(mig("1g.10gb"))))
    assert not helps(fleet, ["a"], workload(pods(whole(1)), choice=GpuChoice(products=("H100",))))
    assert helps(fleet, ["h"], workload(pods(whole(1)), choice=GpuChoice(products=("H100",))))
    assert not helps(fleet, ["unknown"], workload(pods()))
    fleet.set_gpu_health("a", -1, healthy=False)
    assert not helps(fleet, ["a"], workload(pods(whole(1))))
