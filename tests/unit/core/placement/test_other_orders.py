"""Gangs with a leader or slices that fit only if their sets are placed in another order."""

from __future__ import annotations

import pytest

from shared.core.cluster.statement import Statement
from shared.core.model.demand import gang_of
from shared.core.model.nouns import Level, PodRole, PodSet, Slice, Spread, TopologyRequest
from shared.core.model.value import replace
from shared.core.placement.gang.exact import Exhaustive
from shared.core.placement.gang.orders import ORDERED_MAX, OtherOrders
from shared.core.scoring.cluster import Cluster
from tests.support.placing import (
    cluster,
    node,
    placed,
    pods,
    racks,
    racks_of,
    refused,
    where,
    whole,
    workload,
)

IN_RACK = TopologyRequest(required=Level.RACK)


def leading(pod_set: PodSet) -> PodSet:
    return replace(pod_set, role=PodRole.LEADER)


def sliced(pod_set: PodSet, *slices: Slice) -> PodSet:
    return replace(pod_set, slices=slices or (Slice(pods=pod_set.count, level=Level.RACK),))


def with_large_one(**labels: str) -> Cluster:
    """Three nodes of 8 GPUs, of which one has the cores."""
    return cluster(
        node("large", cpu_milli=128_000, **labels),  # type: ignore[arg-type]
        *(node(f"n{at}", cpu_milli=64_000, **labels) for at in range(2)),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("topology", [TopologyRequest(), IN_RACK])
@pytest.mark.parametrize("labels", [{}, {"rack": "r", "zone": "z"}])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_leader_gets_the_only_node_that_is_large_enough_for_it(
    topology: TopologyRequest, labels: dict[str, str], workers: int
) -> None:
    leader = leading(pods(whole(1), name="leader", cpu_milli=100_000))
    asked = workload(
        leader, pods(whole(8), workers, name="w", cpu_milli=40_000), topology=topology
    )

    if topology.required and not labels:
        refused(with_large_one(**labels), asked)
    else:
        assert where(placed(with_large_one(**labels), asked))[0] == "large"


def test_a_gang_with_a_leader_that_no_order_helps_leaves_nothing() -> None:
    fleet = with_large_one(rack="r")
    leader = leading(pods(whole(1), name="leader", cpu_milli=100_000))
    before = fleet.digest()

    refused(fleet, workload(leader, pods(whole(8), 3, name="w", cpu_milli=40_000)))

    assert fleet.digest() == before


@pytest.mark.parametrize("spread", list(Spread))
def test_slices_of_one_set_leave_the_rack_that_those_of_another_need(spread: Spread) -> None:
    two, three = sliced(pods(whole(8), 2, name="a")), sliced(pods(whole(8), 3, name="b"))

    answer = placed(cluster(*racks(3, 2)), workload(two, three, spread=spread))

    assert racks_of(answer) == ["r1"] * 2 + ["r0"] * 3


def test_slices_that_fit_in_no_way_leave_nothing() -> None:
    two = sliced(pods(whole(8), 2, name="a", cpu_milli=20_000))
    three = sliced(pods(whole(8), 3, name="b", cpu_milli=20_000))
    fleet = cluster(*racks(3, 2))
    before = fleet.digest()

    refused(fleet, workload(two, three, pods(name="c", cpu_milli=90_000)))

    assert fleet.digest() == before


def test_a_search_whose_budget_is_spent_looks_at_no_node() -> None:
    fleet = cluster(*(node(f"n{at}", gpus=4, cpu_milli=9000) for at in range(12)))
    many = pods(whole(1), 30, name="a", cpu_milli=2000)
    gang = gang_of(workload(many, pods(count=10, name="b", cpu_milli=5500)))
    search = Exhaustive(gang, Statement(fleet, "red"))
    nodes = list(fleet.nodes.values())
    assert not search.place(lambda _: nodes, distinct=False)

    assert not search.place(lambda _: pytest.fail("a node was asked for"), distinct=False)


def test_a_set_that_finds_no_room_alone_is_tried_in_one_order_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OtherOrders, "__iter__", lambda _: pytest.fail("another was tried"))
    leader = leading(pods(whole(1), name="leader"))

    refused(cluster(node("a"), node("b")), workload(leader, pods(whole(8), 3, name="w")))


def test_of_more_than_four_sets_each_comes_first_once() -> None:
    sets = [pods(whole(1), name=f"s{at}", cpu_milli=1000 * (9 - at)) for at in range(5)]
    gang = gang_of(workload(*sets[:4], leading(sets[4])))

    orders = list(OtherOrders(gang))

    assert orders == [(4, 0, 1, 2, 3), (1, 0, 2, 3, 4), (2, 0, 1, 3, 4), (3, 0, 1, 2, 4)]


def test_orders_of_equal_sets_are_tried_once() -> None:
    equal = [sliced(pods(whole(8), 2, name=name)) for name in ("a", "b")]
    gang = gang_of(workload(*equal, sliced(pods(whole(8), 3, name="c"))))

    assert list(OtherOrders(gang)) == [(0, 2, 1), (2, 0, 1)]


def test_orders_end_when_their_budget_is_spent() -> None:
    sets = [sliced(pods(whole(8), count, name=f"s{count}")) for count in (2, 3, 4)]
    orders = OtherOrders(gang_of(workload(*sets)))
    tried = []

    for order in orders:
        tried.append(order)
        orders.spend(ORDERED_MAX // 2)

    assert len(tried) == 2
    assert not list(orders)


def test_slices_that_no_order_of_sets_helps_are_searched_for_and_stay_whole() -> None:
    """The large pod needs the GPUs that are left if neither node is filled with small ones."""
    fleet = cluster(
        *(node(f"far{at}", gpus=1, rack=f"far{at}", zone="z") for at in range(3)),
        node("more", gpus=4, cpu_milli=6000, rack="r", zone="z"),
        node("less", gpus=2, cpu_milli=4000, rack="r", zone="z"),
    )
    small, large = pods(whole(1), 4, name="small", cpu_milli=2000), pods(whole(2), name="large")

    answer = placed(fleet, workload(sliced(small), large))

    assert where(answer) == ["more", "more", "less", "less", "more"]


def test_a_leader_that_is_searched_for_takes_the_nearest_node_that_is_left() -> None:
    fleet = cluster(
        node("far", gpus=1, rack="far", zone="z"),
        node("more", gpus=4, cpu_milli=6000, rack="r", zone="z"),
        node("less", gpus=2, cpu_milli=4000, rack="r", zone="z"),
        node("beside", gpus=0, rack="r", zone="z"),
    )
    small, large = pods(whole(1), 4, name="small", cpu_milli=2000), pods(whole(2), name="large")
    leader = leading(pods(name="leader", cpu_milli=60_000))

    answer = placed(fleet, workload(sliced(small), large, leader))

    assert where(answer) == ["more", "more", "less", "less", "more", "beside"]


@pytest.mark.parametrize("topology", [TopologyRequest(), IN_RACK])
def test_no_order_is_tried_where_there_are_not_gpus_enough_for_all_sets(
    topology: TopologyRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OtherOrders, "__iter__", lambda _: pytest.fail("another was tried"))
    monkeypatch.setattr(Exhaustive, "place", lambda *_, **__: pytest.fail("a search was begun"))
    leader, workers = leading(pods(whole(1), name="leader")), pods(whole(8), 2, name="w")

    refused(cluster(*racks(2)), workload(leader, workers, topology=topology))
