"""Slices, leaders and rank order, by example; tests/properties has the general."""

from __future__ import annotations

from itertools import pairwise

from shared.core.model.decision import Reason
from shared.core.model.nouns import (
    Level,
    PodRole,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.model.value import replace
from shared.core.placement.place import request_class
from tests.support.placing import (
    cluster,
    node,
    placed,
    pods,
    racks,
    racks_of,
    refused,
    whole,
    workload,
)

IN_RACKS = (Slice(pods=4, level=Level.RACK),)


def replace_sets(asked: Workload, *sets: PodSet) -> Workload:
    return replace(asked, spec=replace(asked.spec, pod_sets=sets))


def sliced(count: int, slices: tuple[Slice, ...] = IN_RACKS, min_count: int | None = None):
    return workload(replace(pods(whole(8), count), slices=slices, min_count=min_count))


def test_each_slice_lies_in_one_rack_and_holds_consecutive_ranks() -> None:
    placement = placed(cluster(*racks(5, 6, 7)), sliced(12))

    held = racks_of(placement)
    assert [len(set(held[at : at + 4])) for at in (0, 4, 8)] == [1, 1, 1]
    assert [pod.rank for pod in placement.pods] == list(range(12))


def test_nested_slices_hold_at_every_level() -> None:
    slices = (Slice(pods=4, level=Level.BLOCK), Slice(pods=2, level=Level.RACK))

    placement = placed(cluster(*racks(3, 3, 3, 2)), sliced(8, slices))

    held = racks_of(placement)
    blocks = [int(rack[1:]) // 2 for rack in held]
    assert [len(set(blocks[at : at + 4])) for at in (0, 4)] == [1, 1]
    assert [len(set(held[at : at + 2])) for at in (0, 2, 4, 6)] == [1, 1, 1, 1]


def test_a_refusal_counts_slices_and_names_the_nearest_rack() -> None:
    answer = refused(cluster(*racks(5, 6, 3)), sliced(12))

    assert answer.reason is Reason.TOPOLOGY
    assert answer.message == (
        "Needs 3 slices of 4 pods with 8 free GPUs, each in one rack; there is room for 2; "
        "the best rack without room for one, r2, has room for 3 pods."
    )
    assert answer.evidence == {"slices_needed": 3, "slices_fit": 2, "best_domain_pods_fit": 3}


def test_a_refusal_names_the_inner_slices_too() -> None:
    slices = (Slice(pods=4, level=Level.BLOCK), Slice(pods=2, level=Level.RACK))

    answer = refused(cluster(*racks(3, 3, 3)), sliced(8, slices))

    assert "each in one block, in slices of 2 in one rack; there is room for 1" in answer.message


def test_slices_that_need_a_node_each_to_themselves_respect_spread() -> None:
    asked = workload(replace(pods(whole(2), 4), slices=IN_RACKS), spread=Spread.REQUIRED)

    assert len({pod.node for pod in placed(cluster(*racks(3, 4)), asked).pods}) == 4
    assert refused(cluster(*racks(3, 3)), asked).reason is Reason.TOPOLOGY


def test_equal_sets_apart_find_the_blocks_that_the_others_left() -> None:
    one_in_each_block = [node(f"n{at}", zone="z", block=f"b{at}", rack="r") for at in range(3)]
    in_zone = TopologyRequest(required=Level.ZONE)
    sets = [pods(whole(1), name=name) for name in ("x", "y")]
    leader = replace(pods(whole(1), name="leader"), role=PodRole.LEADER)
    asked = workload(leader, *sets, topology=in_zone, spread=Spread.REQUIRED)

    fleet = cluster(*one_in_each_block)
    assert len({pod.node for pod in placed(fleet, asked).pods}) == 3
    fleet = cluster(*one_in_each_block[:2])
    assert len({pod.node for pod in placed(fleet, replace_sets(asked, *sets)).pods}) == 2
    refused(cluster(*one_in_each_block[:2]), asked)


def test_slices_apart_lie_whole_in_racks_that_others_of_the_gang_use_too() -> None:
    in_rack = (Slice(pods=2, level=Level.RACK),)
    sets = [replace(pods(whole(1), 2, name=name), slices=in_rack) for name in ("x", "y")]
    asked = workload(*sets, spread=Spread.REQUIRED)

    held = racks_of(placed(cluster(*racks(3, 3)), asked))

    assert held[0] == held[1]
    assert held[2] == held[3]
    assert held[0] != held[2]


def test_the_leader_shares_a_node_with_the_first_worker() -> None:
    leader = replace(pods(cpu_milli=1000, name="leader"), role=PodRole.LEADER)
    workers = pods(whole(8), 3, name="workers")

    placement = placed(cluster(*racks(1, 4, 2)), workload(leader, workers))

    by_rank = {pod.rank: pod for pod in placement.pods}
    assert by_rank[0].pod_set == "leader"
    assert by_rank[0].node == by_rank[1].node
    assert len(set(racks_of(placement))) == 1


def test_a_leader_without_room_on_their_nodes_lies_in_the_rack_of_the_first_workers() -> None:
    leader = replace(pods(whole(4), name="leader"), role=PodRole.LEADER)
    fleet = cluster(*racks(3, 3))
    placement = placed(fleet, workload(pods(whole(8), 4, name="workers"), leader))

    racks_held = racks_of(placement)
    assert racks_held[0] == racks_held[-1]
    assert placement.pods[-1].pod_set == "leader"


def test_a_leader_apart_from_the_workers_gets_a_node_of_its_own() -> None:
    leader = replace(pods(whole(1), name="leader"), role=PodRole.LEADER)
    asked = workload(pods(whole(1), 2, name="w"), leader, spread=Spread.REQUIRED)

    assert len({pod.node for pod in placed(cluster(*racks(1, 2)), asked).pods}) == 3
    refused(cluster(*racks(2)), asked)


def test_a_leader_finds_a_place_where_the_fleet_has_no_common_domain() -> None:
    leader = replace(pods(whole(8), name="leader"), role=PodRole.LEADER)
    asked = workload(pods(whole(8), 2, name="w"), leader)

    assert len(placed(cluster(*(node(f"n{number}") for number in range(3))), asked).pods) == 3
    refused(cluster(node("n0"), node("n1")), asked)


def test_ranks_follow_the_fabric_for_any_gang() -> None:
    placement = placed(cluster(*racks(4, 4, 4)), workload(pods(whole(8), 12)))

    held = racks_of(placement)
    assert sum(one != other for one, other in pairwise(held)) == 2


def test_classes_tell_gangs_of_different_shape_apart() -> None:
    leader = replace(pods(name="l"), role=PodRole.LEADER)
    asked = [
        sliced(8),
        sliced(8, ()),
        sliced(8, min_count=4),
        workload(leader, pods(whole(8))),
        workload(replace(leader, role=PodRole.WORKER), pods(whole(8))),
    ]

    assert len({request_class(each) for each in asked}) == len(asked)


def test_a_rack_that_holds_the_workers_but_not_their_leader_too_is_passed_over() -> None:
    fleet = cluster(*racks(2, 3))
    workers = replace(pods(whole(8), 2, name="worker"), slices=(Slice(pods=2, level=Level.RACK),))
    leader = replace(pods(whole(1), name="leader"), role=PodRole.LEADER)
    topology = TopologyRequest(required=Level.RACK)

    answer = placed(fleet, workload(leader, workers, topology=topology))

    assert racks_of(answer) == ["r1", "r1", "r1"]
