"""Plans of moves in the corners: unlike pods, moves that help none, choices that are bounded."""

from __future__ import annotations

import pytest

from shared.core.cluster.tenants import Running
from shared.core.model.nouns import (
    GpuRequest,
    Level,
    Spread,
    TopologyRequest,
)
from shared.core.preemption.defragmentation.defragment import Plan
from tests.support import placing
from tests.support.fragments import Scene, moved, named, pod


def test_cpu_alone_is_made_room_for_too() -> None:
    scene = Scene(nodes_count=2)
    scene.put("a", "n0", 1)
    scene.put("b", "n1", 1)
    scene.put("c", "n1", 1)

    plan = scene.plan(pod("gang", GpuRequest(), cpu_milli=8000))

    assert moved(plan) == [("a", "n1")]


def test_nobody_leaves_a_node_that_takes_no_work() -> None:
    scene = Scene()
    scene.put("a", "n0", 1)
    for node in ("n1", "n2"):
        scene.put(f"b {node}", node, 1)
        scene.put(f"c {node}", node, 1)
    scene.cluster.put_node(placing.node("n0", gpus=4, pool="n0", cpu_milli=8000, cordoned=True))

    plan = scene.plan(pod("gang", placing.whole(4)))

    assert isinstance(plan, Plan)
    assert "n0" not in {plan.placement.pods[0].node, *(to for _, to in moved(plan))}
    assert len(plan.moves) == 2


def test_two_pods_of_a_gang_have_the_room_of_both_on_one_node() -> None:
    scene = Scene(nodes_count=2)
    scene.put("a", "n0", 1)
    scene.put("b", "n1", 2)

    one_node = TopologyRequest(required=Level.NODE)
    pair = placing.workload(placing.pods(placing.whole(2), 2), topology=one_node)

    plan = scene.plan(named("gang", pair))

    assert moved(plan) == [("a", "n1")]
    assert isinstance(plan, Plan)
    assert ["n0", "n0"] == [each.node for each in plan.placement.pods]


def test_pods_that_must_lie_apart_need_room_on_as_many_nodes() -> None:
    scene = Scene()
    scene.put("a", "n1", 1)
    scene.put("fixed", "n1", 2, movable=False)
    scene.put("also fixed", "n2", 3, movable=False)
    apart = placing.workload(placing.pods(placing.whole(2), 2), spread=Spread.REQUIRED)

    plan = scene.plan(named("gang", apart))

    assert [name for name, _ in moved(plan)] == ["a"]
    assert isinstance(plan, Plan)
    assert {"n0", "n1"} == {each.node for each in plan.placement.pods}


def test_a_cheaper_one_alone_that_makes_no_room_stays() -> None:
    scene = Scene(
        placing.node("n0", gpus=4, pool="n0", cpu_milli=8000),
        placing.node("n1", gpus=2, pool="n1", cpu_milli=8000),
    )
    scene.put("large", "n0", 2, cost=9)
    scene.put("small", "n0", 1, cost=1)

    plan = scene.plan(pod("gang", placing.whole(3)))

    assert moved(plan) == [("large", "n1")]


def test_where_counting_takes_the_wrong_node_the_placer_says_who_must_leave() -> None:
    """Counting puts the large pod where nobody has to leave: where alone the hungry one fits."""
    scene = Scene(
        placing.node("fast", gpus=2, pool="fast", cpu_milli=8000),
        placing.node("slow", gpus=2, pool="slow", cpu_milli=1000),
        placing.node("refuge", gpus=1, pool="refuge", cpu_milli=1000),
    )
    scene.put("a", "slow", 1)
    large = placing.pods(placing.whole(2), name="large")
    hungry = placing.pods(placing.whole(1), name="hungry", cpu_milli=6000)

    plan = scene.plan(named("gang", placing.workload(large, hungry)))

    assert moved(plan) == [("a", "refuge")]
    assert isinstance(plan, Plan)
    where = {each.pod_set: each.node for each in plan.placement.pods}
    assert where == {"large": "slow", "hungry": "fast"}


def test_a_move_that_the_gang_does_not_need_after_all_is_left_out() -> None:
    """Counting puts `middle` on the tightest node, and has `b` leave for `hungry`."""
    scene = Scene(
        placing.node("emptied", gpus=3, pool="emptied", cpu_milli=1000),
        placing.node("tight", gpus=2, pool="tight", cpu_milli=8000),
        placing.node("wide", gpus=2, pool="wide", cpu_milli=1000),
        placing.node("held", gpus=1, pool="held", cpu_milli=8000),
        placing.node("refuge", gpus=1, pool="refuge", cpu_milli=1000),
        placing.node("other refuge", gpus=1, pool="other refuge", cpu_milli=1000),
    )
    scene.put("a", "emptied", 1)
    scene.put("b", "held", 1)
    gang = placing.workload(
        placing.pods(placing.whole(3), name="large"),
        placing.pods(placing.whole(2), name="middle", cpu_milli=500),
        placing.pods(placing.whole(1), name="hungry", cpu_milli=6000),
    )

    plan = scene.plan(named("gang", gang))

    assert [name for name, _ in moved(plan)] == ["a"]


def test_a_plan_with_help_that_is_no_better_replaces_none() -> None:
    """Three small ones leave `n1`; or a large one leaves `n0`, once two made room for it."""
    scene = Scene(nodes_count=4)
    scene.put("large", "n0", 3)
    for name in ("a", "b", "c"):
        scene.put(name, "n1", 1)
    scene.put("fixed", "n2", 1, movable=False)
    for name in ("d", "e"):
        scene.put(name, "n2", 1)
    scene.put("also fixed", "n3", 3, movable=False)

    plan = scene.plan(pod("gang", placing.whole(4)))

    assert {name for name, _ in moved(plan)} == {"a", "b", "c"}


@pytest.mark.parametrize(("bound_to_their_nodes", "found"), [(7, True), (8, False)])
def test_so_many_choices_of_movers_are_rehearsed_and_no_more(
    bound_to_their_nodes: int, found: bool
) -> None:
    scene = Scene(nodes_count=10)
    for at in range(bound_to_their_nodes):
        scene.put(f"w{at}", f"n{at}", 1)
        known = scene.running.pop()
        tied = pod(known.id, placing.whole(1), f"n{at}", cpu_milli=100)
        scene.running.append(Running(workload=tied, placement=known.placement))
    scene.put("free to go", "n8", 1, cost=9)
    scene.put("fixed", "n9", 3, movable=False)
    for at in range(bound_to_their_nodes, 8):
        scene.put(f"also fixed {at}", f"n{at}", 1, movable=False)

    plan = scene.plan(pod("gang", placing.whole(4)))

    assert found == isinstance(plan, Plan)
