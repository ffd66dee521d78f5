"""Gangs whose pods get in each other's way: other places are tried, in order and within bounds."""

from __future__ import annotations

import pytest

from shared.core.model.decision import Refusal
from shared.core.model.demand import PodDemand, gang_of
from shared.core.model.nouns import GpuRequest, Level, Placement, PodSet, Spread, TopologyRequest
from shared.core.placement.gang.exact import OPTIONS_MAX, _sets_of_positions
from shared.core.placement.place import place
from shared.core.placement.room import RoomIndex
from shared.core.scoring.cluster import Cluster
from tests.support.placing import cluster, mig, node, pods, request, share, whole, workload

IN_RACK = TopologyRequest(required=Level.RACK)
ON_NODE = TopologyRequest(required=Level.NODE)


def demand_of(gpu: GpuRequest) -> PodDemand:
    return gang_of(workload(pods(gpu))).demands[0]


def answer_of(fleet: Cluster, *sets: PodSet, **rest: object) -> Placement | Refusal:
    answer = place(fleet, request(workload(*sets, **rest)))  # type: ignore[arg-type]
    assert isinstance(answer, Placement | Refusal)
    return answer


def where(fleet: Cluster, *sets: PodSet, **rest: object) -> list[str]:
    """The node of each pod, in order of rank."""
    answer = answer_of(fleet, *sets, **rest)
    assert isinstance(answer, Placement), answer
    return [pod.node for pod in answer.pods]


def test_a_small_pod_makes_way_on_the_only_node_where_the_large_one_fits() -> None:
    fleet = cluster(
        node("rich", gpus=4, cpu_milli=64_000, rack="r"),
        node("lean", gpus=8, cpu_milli=4_000, rack="r"),
    )
    small = pods(whole(4), name="small", cpu_milli=1000)
    large = pods(whole(2), name="large", cpu_milli=60_000)

    assert where(fleet, small, large, topology=IN_RACK) == ["lean", "rich"]


def test_a_gang_of_unlike_pods_that_no_order_helps_leaves_nothing() -> None:
    fleet = cluster(
        node("rich", gpus=4, cpu_milli=64_000, rack="r"),
        node("lean", gpus=3, cpu_milli=4_000, rack="r"),
    )
    small = pods(whole(4), name="small", cpu_milli=1000)
    large = pods(whole(2), name="large", cpu_milli=60_000)

    assert isinstance(answer_of(fleet, small, large, topology=IN_RACK), Refusal)
    assert isinstance(answer_of(fleet, small, large), Refusal)
    assert [fleet.nodes[name].free_count for name in ("rich", "lean")] == [4, 3]


def test_no_order_is_tried_when_one_set_has_no_room_even_alone() -> None:
    fleet = cluster(node("a"), node("b"))
    lone, many = pods(whole(2), name="lone"), pods(whole(8), 3, name="many")

    assert isinstance(answer_of(fleet, lone, many), Refusal)
    assert [state.free_count for state in fleet.nodes.values()] == [8, 8]


def test_shares_and_whole_gpus_of_a_gang_meet_on_one_node() -> None:
    fleet = cluster(node("two", gpus=2), node("four", gpus=4))
    shares = pods(share(600, 10), 2, name="shares")
    wholes = pods(whole(1), 2, name="wholes")

    assert where(fleet, shares, wholes, topology=ON_NODE) == ["four"] * 4


def test_shares_of_a_gang_make_way_for_each_other_on_one_node() -> None:
    fleet = cluster(node("n", gpus=2))
    # The largest first would put both of 400 on one GPU, and leave no room for the last of 300.
    large, small = pods(share(400, 10), 2, name="large"), pods(share(300, 10), 4, name="small")

    assert where(fleet, large, small, topology=ON_NODE) == ["n"] * 6
    assert [use.milli for use in fleet.nodes["n"].uses.values()] == [1000, 1000]


def test_a_gang_of_shares_stays_within_one_rack() -> None:
    fleet = cluster(*(node(f"n{at}", gpus=1, rack=f"r{at // 2}") for at in range(4)))

    found = where(fleet, pods(share(600, 10), 2), topology=IN_RACK)

    assert sorted(found) in (["n0", "n1"], ["n2", "n3"])


def test_a_gang_of_mig_instances_stays_within_one_rack() -> None:
    fleet = cluster(*(node(f"n{at}", gpus=1, mig=(0,), rack=f"r{at // 2}") for at in range(4)))

    found = where(fleet, pods(mig("4g.40gb"), 2), topology=IN_RACK)

    assert sorted(found) in (["n0", "n1"], ["n2", "n3"])
    assert isinstance(answer_of(fleet, pods(mig("4g.40gb"), 3), topology=IN_RACK), Refusal)


def test_unlike_pods_that_must_spread_share_no_node() -> None:
    fleet = cluster(*(node(f"n{at}", rack="r") for at in range(3)))
    first, second = pods(whole(1), name="first"), pods(whole(2), 2, name="second")

    found = where(fleet, first, second, spread=Spread.REQUIRED, topology=IN_RACK)
    assert sorted(found) == ["n0", "n1", "n2"]

    fleet.put_node(node("n2", rack="other"))
    assert isinstance(
        answer_of(fleet, first, second, spread=Spread.REQUIRED, topology=IN_RACK), Refusal
    )


def test_many_instances_beside_others_are_tried_in_bounded_steps() -> None:
    fleet = cluster(node("n", mig=range(8)))
    # Three beside each of four large ones, and 24 of the 28 positions on the other GPUs.
    many = pods(mig("1g.10gb", 36), name="many")
    large = pods(mig("3g.40gb"), 4, name="large")

    answer = answer_of(fleet, many, large, topology=ON_NODE)

    assert isinstance(answer, Placement)
    assert len(_sets_of_positions(fleet.nodes["n"], demand_of(mig("1g.10gb", 24)))) <= OPTIONS_MAX


def test_sets_of_positions_that_leave_the_same_behind_are_tried_once() -> None:
    fleet = cluster(node("n", gpus=3, mig=range(3)))

    sets = _sets_of_positions(fleet.nodes["n"], demand_of(mig("3g.40gb", 2)))

    # Both on one GPU, or on two GPUs at equal or at other starts.
    assert len(sets) == 4
    assert all(sum(share.mask.bit_count() for share in shares) == 8 for shares in sets)


@pytest.mark.parametrize("count", [1, 2])
def test_a_node_that_moved_counts_in_its_new_rack_alone(count: int) -> None:
    fleet = cluster(node("a", rack="r"), node("b", rack="r"), node("c", rack="s"))
    gang = pods(whole(5), 2)
    first = place(fleet, request(workload(gang, topology=IN_RACK)))
    assert isinstance(first, Placement)
    fleet.release("red", first.pods, (gang,))

    fleet.put_node(node("a", rack="s"))
    for _ in range(count):
        fleet.put_node(node("b"))

    assert isinstance(answer_of(fleet, pods(whole(5), 3), topology=IN_RACK), Refusal)
    for index in fleet.rooms.values():
        assert isinstance(index, RoomIndex)
        assert [place.name for _, _, place in index.at_least(Level.RACK, 1, 9)] == ["s"]
    assert sorted(where(fleet, gang, topology=IN_RACK)) == ["a", "c"]
    assert isinstance(answer_of(fleet, gang, topology=IN_RACK), Refusal)
