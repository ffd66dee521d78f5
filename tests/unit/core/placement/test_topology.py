"""Gangs in the smallest span of the fabric, and why there is none."""

from __future__ import annotations

from shared.core.model.decision import Reason, Refusal
from shared.core.model.nouns import GpuChoice, Level, Placement, Spread, TopologyRequest
from shared.core.placement.place import place
from shared.core.scoring.cluster import Cluster
from tests.support.placing import cluster, node, pods, racks, request, share, whole, workload

IN_RACK = TopologyRequest(required=Level.RACK)


def placed(fleet: Cluster, *sets: object, **rest: object) -> Placement:
    answer = place(fleet, request(workload(*sets, **rest)))  # type: ignore[arg-type]
    assert isinstance(answer, Placement), answer
    return answer


def nodes_of(placement: Placement) -> list[str]:
    return sorted({pod.node for pod in placement.pods})


def test_one_node_is_tried_before_one_rack() -> None:
    fleet = cluster(*racks(2, 4))

    answer = placed(fleet, pods(whole(2), 4), topology=IN_RACK)

    assert len(nodes_of(answer)) == 1
    assert answer.span is Level.NODE


def test_the_rack_with_least_room_that_suffices_is_taken() -> None:
    fleet = cluster(*racks(6, 3, 9, racks_of_block=3))

    answer = placed(fleet, pods(whole(8), 3), topology=IN_RACK)

    assert nodes_of(answer) == ["r1-n0", "r1-n1", "r1-n2"]
    assert answer.span is Level.RACK


def test_an_nvlink_domain_is_tighter_than_a_rack() -> None:
    fleet = cluster(
        *(node(f"a{i}", rack="r") for i in range(2)),
        *(node(f"b{i}", rack="r", nvlink_domain="v") for i in range(2)),
    )

    answer = placed(fleet, pods(whole(8), 2), topology=IN_RACK)

    assert nodes_of(answer) == ["b0", "b1"]
    assert answer.span is Level.NVLINK_DOMAIN


def test_a_gang_across_racks_touches_the_fewest() -> None:
    fleet = cluster(*racks(2, 5, 3, racks_of_block=3))

    answer = placed(fleet, pods(whole(8), 7), topology=TopologyRequest(required=Level.BLOCK))

    used = {name.split("-")[0] for name in nodes_of(answer)}
    assert used == {"r1", "r0"}, "the largest whole, then the tightest that holds the rest"
    assert answer.span is Level.BLOCK


def test_a_required_level_that_no_domain_holds_is_a_refusal_with_the_nearest_miss() -> None:
    fleet = cluster(*racks(3, 2))

    answer = place(fleet, request(workload(pods(whole(8), 4), topology=IN_RACK)))

    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.TOPOLOGY
    assert answer.evidence["pods_needed"] == 4
    assert "in one rack" in answer.message
    assert "best, rack r0, has room for 3" in answer.message


def test_the_nearest_miss_names_the_free_gpus_of_the_next_node() -> None:
    fleet = cluster(*racks(4))
    state = fleet.nodes["r0-n3"]
    fleet.put_node(node("r0-n3", rack="r0", block="b0", zone="z", unhealthy=(0, 1)))
    assert state.free_count == 6
    fleet.put_node(node("far", zone="z"))

    answer = place(fleet, request(workload(pods(whole(8), 4), topology=IN_RACK)))

    assert isinstance(answer, Refusal)
    assert answer.message == (
        "Needs 4 pods with 8 free GPUs in one rack; the best, rack r0, has room for 3; "
        "the next node there has 6 GPUs free."
    )


def test_at_equal_room_the_nearest_miss_is_the_wider_domain() -> None:
    fleet = cluster(node("a", rack="r"), node("b", rack="r", unhealthy=range(4)), node("alone"))

    answer = place(fleet, request(workload(pods(whole(8), 2), topology=IN_RACK)))

    assert isinstance(answer, Refusal)
    assert "the best, rack r, has room for 1; the next node there has 4" in answer.message


def test_a_preferred_level_gives_way_when_it_must() -> None:
    fleet = cluster(*(node(f"n{i}") for i in range(3)))
    prefer = TopologyRequest(preferred=Level.RACK)

    answer = placed(fleet, pods(whole(8), 3), topology=prefer)

    assert answer.span is None


def test_a_preferred_level_is_met_when_it_can_be() -> None:
    fleet = cluster(*racks(2, 4, 2, racks_of_block=3))

    answer = placed(fleet, pods(whole(8), 4), topology=TopologyRequest(preferred=Level.RACK))

    assert answer.span is Level.RACK


def test_a_node_without_a_label_is_alone_at_that_level() -> None:
    fleet = cluster(node("a"), node("b"), node("c"))

    assert placed(fleet, pods(whole(4), 2), topology=IN_RACK).span is Level.NODE
    refused = place(fleet, request(workload(pods(whole(8), 2), topology=IN_RACK)))
    assert isinstance(refused, Refusal)
    assert "in one rack; the best, node " in refused.message


def test_one_pod_needs_no_neighbours() -> None:
    fleet = cluster(node("a"))

    assert placed(fleet, pods(whole(8)), topology=IN_RACK).span is Level.NODE


def test_required_spread_keeps_pods_of_a_rack_on_nodes_of_their_own() -> None:
    fleet = cluster(*racks(2, 3))

    answer = placed(fleet, pods(whole(1), 3), topology=IN_RACK, spread=Spread.REQUIRED)

    assert nodes_of(answer) == ["r1-n0", "r1-n1", "r1-n2"]


def test_preferred_spread_inside_a_level_gives_way_to_the_level() -> None:
    fleet = cluster(*racks(2, 2))
    apart = placed(fleet, pods(whole(1), 2), topology=IN_RACK, spread=Spread.PREFERRED)
    assert len(nodes_of(apart)) == 2

    too_many = placed(fleet, pods(whole(1), 3), topology=IN_RACK, spread=Spread.PREFERRED)
    assert too_many.span is Level.RACK
    assert len(nodes_of(too_many)) == 2


def test_unlike_pod_sets_share_one_rack() -> None:
    fleet = cluster(*racks(1, 2, 3, racks_of_block=3))

    answer = placed(
        fleet,
        pods(whole(8), 2, name="worker"),
        pods(count=1, name="leader", cpu_milli=90_000),
        topology=IN_RACK,
    )

    assert answer.span is Level.RACK
    assert {name.split("-")[0] for name in nodes_of(answer)} <= {"r1"}


def test_unlike_pods_that_only_fit_in_another_order_are_found_in_their_rack() -> None:
    fleet = cluster(
        node("a", gpus=2, rack="r", cpu_milli=4_000),
        node("b", gpus=1, rack="r", cpu_milli=10_000),
    )

    answer = placed(
        fleet,
        pods(whole(1), 2, name="worker", cpu_milli=2_000),
        pods(count=1, name="leader", cpu_milli=9_000),
        topology=IN_RACK,
    )

    assert [pod.node for pod in answer.pods] == ["a", "a", "b"]


def test_preferred_products_alone_are_tried_before_a_mix() -> None:
    fleet = cluster(
        *(node(f"a{i}", rack="r", product="A") for i in range(2)),
        *(node(f"b{i}", rack="r", product="B") for i in range(2)),
    )
    choice = GpuChoice(preferred_products={"B": 10})

    first = placed(fleet, pods(whole(8), 2), topology=IN_RACK, choice=choice)
    assert nodes_of(first) == ["b0", "b1"]

    second = placed(fleet, pods(whole(8), 2), topology=IN_RACK, choice=choice)
    assert nodes_of(second) == ["a0", "a1"]


def test_shares_keep_together_too() -> None:
    fleet = cluster(*racks(1, 2, gpus=1))

    answer = placed(fleet, pods(share(600), 2), topology=IN_RACK)

    assert nodes_of(answer) == ["r1-n0", "r1-n1"]


def test_cpu_only_sets_whose_kinds_differ_from_the_workers_stay_in_the_rack() -> None:
    fleet = cluster(
        node("gpu0", rack="r", cpu_milli=8_000),
        node("gpu1", rack="r", cpu_milli=8_000),
        node("cpu", rack="r", gpus=0, product="", cpu_milli=32_000),
    )

    answer = placed(
        fleet,
        pods(whole(8), 2, name="worker", cpu_milli=8_000),
        pods(count=1, name="leader", cpu_milli=16_000),
        topology=IN_RACK,
    )

    assert answer.pods[-1].node == "cpu"
