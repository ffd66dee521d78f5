"""Slices, leaders, elastic gangs and rank order, by example; tests/properties has the general."""

from __future__ import annotations

from itertools import pairwise

from shared.core.decision import Reason, Refusal
from shared.core.model import (
    Level,
    Node,
    Placement,
    PodRole,
    PodSet,
    Slice,
    Spread,
    TopologyRequest,
)
from shared.core.placement import PlacementRequest, grow, place, request_class
from shared.core.resize import charge_of, joined, shrunk_to, sizes, surplus
from shared.core.units import UNLIMITED, Resources
from shared.core.value import replace
from tests.support.placing import cluster, node, placed, pods, refused, request, whole, workload

IN_RACKS = (Slice(pods=4, level=Level.RACK),)


def racks(*sizes: int, gpus: int = 8) -> list[Node]:
    return [
        node(f"r{rack}-n{number}", gpus=gpus, rack=f"r{rack}", block=f"b{rack // 2}", zone="z")
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]


def sliced(count: int, slices: tuple[Slice, ...] = IN_RACKS, min_count: int | None = None):
    return workload(replace(pods(whole(8), count), slices=slices, min_count=min_count))


def elastic(count: int, min_count: int, gpus: int = 8) -> PodSet:
    return replace(pods(whole(gpus), count, cpu_milli=1000), min_count=min_count)


def rack_of(placement: Placement) -> list[str]:
    return [pod.node.partition("-")[0] for pod in placement.pods]


def test_each_slice_lies_in_one_rack_and_holds_consecutive_ranks() -> None:
    placement = placed(cluster(*racks(5, 6, 7)), sliced(12))

    held = rack_of(placement)
    assert [len(set(held[at : at + 4])) for at in (0, 4, 8)] == [1, 1, 1]
    assert [pod.rank for pod in placement.pods] == list(range(12))


def test_nested_slices_hold_at_every_level() -> None:
    slices = (Slice(pods=4, level=Level.BLOCK), Slice(pods=2, level=Level.RACK))

    placement = placed(cluster(*racks(3, 3, 3, 2)), sliced(8, slices))

    held = rack_of(placement)
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


def test_the_leader_shares_a_node_with_the_first_worker() -> None:
    leader = replace(pods(cpu_milli=1000, name="leader"), role=PodRole.LEADER)
    workers = pods(whole(8), 3, name="workers")

    placement = placed(cluster(*racks(1, 4, 2)), workload(leader, workers))

    by_rank = {pod.rank: pod for pod in placement.pods}
    assert by_rank[0].pod_set == "leader"
    assert by_rank[0].node == by_rank[1].node
    assert len(set(rack_of(placement))) == 1


def test_a_leader_without_room_on_their_nodes_lies_in_the_rack_of_the_first_workers() -> None:
    leader = replace(pods(whole(4), name="leader"), role=PodRole.LEADER)
    fleet = cluster(*racks(3, 3))
    placement = placed(fleet, workload(pods(whole(8), 4, name="workers"), leader))

    racks_held = rack_of(placement)
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

    held = rack_of(placement)
    assert sum(one != other for one, other in pairwise(held)) == 2


def test_an_elastic_gang_takes_what_there_is_and_is_charged_for_it() -> None:
    placement = placed(cluster(*racks(3)), workload(elastic(5, 2)))

    assert len(placement.pods) == 3
    assert placement.charge == Resources(gpu_milli=24_000, cpu_milli=3000, memory_mib=0)


def test_an_elastic_gang_prefers_to_be_whole_in_a_later_flavor() -> None:
    fleet = cluster(*racks(3), *(node(f"h{number}", flavor="h100") for number in range(5)))

    answer = place(fleet, request(workload(elastic(5, 2)), "a100", "h100"))

    assert isinstance(answer, Placement)
    assert (answer.flavor, len(answer.pods)) == ("h100", 5)


def test_quota_bounds_an_elastic_gang_from_above_and_below() -> None:
    fleet = cluster(*racks(6))

    def ask(gpus: int) -> Placement | Refusal:
        headroom = Resources(gpu_milli=gpus * 1000, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)
        asked = PlacementRequest(
            workload=workload(elastic(5, 2)), flavors=("a100",), headroom={"a100": headroom}
        )
        return place(fleet, asked)

    short = ask(15)
    assert isinstance(short, Refusal)
    assert short.reason is Reason.WAITING_FOR_QUOTA
    assert short.evidence["needed_gpu_milli"] == 16_000
    enough = ask(31)
    assert isinstance(enough, Placement)
    assert len(enough.pods) == 3


def test_sets_shrink_where_most_is_to_spare() -> None:
    large, small = elastic(6, 1, gpus=1), replace(elastic(3, 1, gpus=1), name="other")

    placement = placed(cluster(*racks(1, gpus=5)), workload(large, small))

    sets = [pod.pod_set for pod in placement.pods]
    assert (sets.count("main"), sets.count("other")) == (2, 3)
    assert [pod.rank for pod in placement.pods] == list(range(5))


def test_the_least_of_an_elastic_gang_is_what_a_refusal_speaks_of() -> None:
    answer = refused(cluster(*racks(2)), workload(elastic(9, 3)))

    assert answer.message.startswith("Needs 3 pods")
    assert answer.evidence["pods_fit"] == 2


def test_a_gang_grows_next_to_where_it_runs_and_within_its_required_level() -> None:
    fleet = cluster(*racks(4, 6))
    holder = placed(
        fleet, workload(pods(whole(8), 2), topology=TopologyRequest(required=Level.RACK))
    )
    topology = TopologyRequest(required=Level.RACK)
    asked = workload(elastic(9, 2), topology=topology)
    running = placed(fleet, asked)
    assert len(running.pods) == 6
    assert grow(fleet, request(asked), running) is None

    fleet.release("red", running.pods[3:], asked.spec.pod_sets)
    kept = replace(running, pods=running.pods[:3])
    added = grow(fleet, request(asked), kept)

    assert added is not None
    assert [pod.rank for pod in added.pods] == [3, 4, 5]
    assert set(rack_of(added)) == set(rack_of(kept))
    assert set(rack_of(holder)).isdisjoint(rack_of(kept))
    assert added.span is Level.RACK


def test_growth_stays_within_quota_and_on_nodes_of_its_own_where_asked() -> None:
    fleet = cluster(*racks(5))
    asked = workload(elastic(5, 1, gpus=1), spread=Spread.REQUIRED)
    running = placed(fleet, asked)
    fleet.release("red", running.pods[1:], asked.spec.pod_sets)
    kept = replace(running, pods=running.pods[:1])
    headroom = {"a100": Resources(gpu_milli=2500, cpu_milli=UNLIMITED, memory_mib=UNLIMITED)}

    added = grow(
        fleet, PlacementRequest(workload=asked, flavors=("a100",), headroom=headroom), kept
    )

    assert added is not None
    assert len({pod.node for pod in (*kept.pods, *added.pods)}) == 3


def test_a_slice_that_is_added_lies_in_a_domain_as_wide_as_slices_are() -> None:
    """The node on which the gang runs has room for none: its rack is asked next."""
    fleet = cluster(*racks(4, 4))
    asked = workload(replace(elastic(6, 2), slices=(Slice(pods=2, level=Level.RACK),)))
    running = placed(fleet, asked)
    fleet.release("red", running.pods[2:], asked.spec.pod_sets)
    kept = replace(running, pods=running.pods[:2])

    added = grow(fleet, request(asked), kept)

    assert added is not None
    assert len(added.pods) == 4
    for first, second in ((0, 1), (2, 3)):
        assert rack_of(added)[first] == rack_of(added)[second]


def test_a_gang_that_runs_may_shrink_to_its_least_by_whole_slices() -> None:
    fleet = cluster(*racks(8))
    plain = workload(elastic(4, 2, gpus=1))
    in_pairs = workload(replace(elastic(6, 2), slices=(Slice(pods=2, level=Level.RACK),)))

    assert sizes(plain, placed(fleet, plain)) == (3, 2)
    assert sizes(in_pairs, placed(fleet, in_pairs)) == (4, 2)
    assert sizes(workload(pods(whole(1), 3)), placed(fleet, workload(pods(whole(1), 3)))) == ()


def test_what_a_gang_can_do_without_has_the_highest_ranks() -> None:
    fleet = cluster(*racks(8))
    servers = replace(pods(whole(1), 2), name="servers")
    asked = workload(elastic(5, 3, gpus=1), servers)
    running = placed(fleet, asked)

    assert [pod.pod_set for pod in running.pods[3:]] == ["servers", "servers", "main", "main"]
    assert sizes(asked, running) == (6, 5)
    assert {pod.pod_set for pod in surplus(running, 5)} == {"main"}


def test_a_gang_whose_last_rank_must_stay_gives_up_nothing() -> None:
    """As one that was placed before ranks were given so."""
    fleet = cluster(*racks(8))
    servers = replace(pods(whole(1), 1), name="servers")
    asked = workload(servers, elastic(2, 1, gpus=1))
    running = placed(fleet, asked)
    turned = tuple(replace(pod, rank=2 - pod.rank) for pod in running.pods)

    assert sizes(asked, running) == (2,)
    assert sizes(asked, replace(running, pods=turned)) == ()


def test_what_stays_and_what_is_added_make_up_the_charge() -> None:
    fleet = cluster(*racks(8))
    asked = workload(elastic(4, 1, gpus=2))
    running = placed(fleet, asked)

    kept = shrunk_to(asked, running, 1)
    fleet.release("red", surplus(running, 1), asked.spec.pod_sets)
    added = grow(fleet, request(asked), kept)

    assert added is not None
    assert kept.charge == charge_of(asked, kept.pods)
    assert joined(kept, added).charge == running.charge
    assert [pod.rank for pod in joined(kept, added).pods] == [0, 1, 2, 3]


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


def test_only_the_pod_set_that_lost_pods_grows() -> None:
    fleet = cluster(*racks(4))
    whole_set, short = (
        replace(pods(whole(8), 2), name="whole"),
        replace(elastic(2, 1), name="short"),
    )
    asked = workload(whole_set, short)
    running = placed(fleet, asked)
    lost = [pod for pod in running.pods if pod.pod_set == "short"][-1:]
    fleet.release("red", lost, asked.spec.pod_sets)
    kept = replace(running, pods=tuple(pod for pod in running.pods if pod not in lost))

    added = grow(fleet, request(asked), kept)

    assert added is not None
    assert ["short"] == [pod.pod_set for pod in added.pods]


def test_a_rack_that_holds_the_workers_but_not_their_leader_too_is_passed_over() -> None:
    fleet = cluster(*racks(2, 3))
    workers = replace(pods(whole(8), 2, name="worker"), slices=(Slice(pods=2, level=Level.RACK),))
    leader = replace(pods(whole(1), name="leader"), role=PodRole.LEADER)
    topology = TopologyRequest(required=Level.RACK)

    answer = placed(fleet, workload(leader, workers, topology=topology))

    assert rack_of(answer) == ["r1", "r1", "r1"]
