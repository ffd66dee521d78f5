"""Plans of moves in cases small enough to see the answer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.core.cluster import Cluster
from shared.core.defragment import Limits, NoPlan, Obstacle, Plan, defragment
from shared.core.model import (
    GpuRequest,
    Level,
    Node,
    Placement,
    Spread,
    TopologyRequest,
    Workload,
)
from shared.core.placement import PlacementRequest, place
from shared.core.tenants import Running
from shared.core.units import Resources
from shared.core.value import replace
from tests.support import placing


def named(name: str, workload: Workload) -> Workload:
    return replace(workload, id=name)


def pod(name: str, gpu: GpuRequest, node: str = "", *, cpu_milli: int = 0) -> Workload:
    """One pod; `node` is the pool it is bound to by its name, to force where it goes."""
    workload = named(name, placing.workload(placing.pods(gpu, cpu_milli=cpu_milli)))
    choice = replace(workload.spec.gpu_choice, node_pool=node)
    return replace(workload, spec=replace(workload.spec, gpu_choice=choice))


class Scene:
    """Nodes of 4 GPUs, each a pool of its own; pods are put where the test says."""

    def __init__(self, *nodes: Node, nodes_count: int = 3) -> None:
        made = nodes or tuple(
            placing.node(f"n{at}", gpus=4, pool=f"n{at}", cpu_milli=8000)
            for at in range(nodes_count)
        )
        self.cluster: Cluster = placing.cluster(*made)
        self.running: list[Running] = []

    def put(self, name: str, node: str, gpus: int, *, cost: int = 1, movable: bool = True) -> None:
        answer = place(
            self.cluster, placing.request(pod(name, placing.whole(gpus), node, cpu_milli=100))
        )
        assert isinstance(answer, Placement)
        free = pod(name, placing.whole(gpus), cpu_milli=100)
        self.running.append(Running(workload=free, placement=answer, cost=cost, movable=movable))

    def plan(self, gang: Workload, limits: Limits | None = None) -> Plan | NoPlan:
        return defragment(self.cluster, self.running, placing.request(gang), limits)


def moved(plan: Plan | NoPlan) -> Sequence[tuple[str, str]]:
    """(workload, node it goes to) of each move."""
    assert isinstance(plan, Plan), plan
    return [(move.workload_id, move.to_pods[0].node) for move in plan.moves]


def test_the_node_with_the_fewest_tenants_is_emptied() -> None:
    scene = Scene()
    scene.put("a", "n0", 1)
    scene.put("b", "n0", 1)
    scene.put("c", "n1", 2)
    scene.put("d", "n2", 2)
    scene.put("e", "n2", 1)

    plan = scene.plan(pod("gang", placing.whole(4)))

    assert moved(plan) == [("c", "n0")]
    assert isinstance(plan, Plan)
    assert plan.placement.pods[0].node == "n1"
    assert plan.pods_moved == 1


def test_of_equally_many_moves_the_cheaper_are_made() -> None:
    scene = Scene()
    scene.put("dear", "n0", 2, cost=10)
    scene.put("cheap", "n1", 2, cost=3)
    scene.put("middle", "n2", 2, cost=5)

    plan = scene.plan(pod("gang", placing.whole(4)))

    assert isinstance(plan, Plan)
    assert [move.workload_id for move in plan.moves] == ["cheap"]
    assert plan.cost == 3


def test_only_as_many_leave_as_the_gang_needs() -> None:
    scene = Scene(nodes_count=2)
    scene.put("a", "n0", 1, cost=5)
    scene.put("b", "n0", 1, cost=1)
    scene.put("c", "n0", 1, cost=5)
    scene.put("d", "n1", 3)

    plan = scene.plan(pod("gang", placing.whole(2)))

    assert moved(plan) == [("b", "n1")]


def test_on_one_node_the_cheaper_of_two_that_would_do_leaves() -> None:
    scene = Scene(
        placing.node("n0", gpus=4, pool="n0", cpu_milli=8000),
        placing.node("n1", gpus=4, pool="n1", cpu_milli=1000),
    )
    scene.put("large and dear", "n0", 2, cost=9)
    scene.put("small and cheap", "n0", 1, cost=1)

    plan = scene.plan(pod("gang", placing.whole(2), cpu_milli=4000))

    assert moved(plan) == [("small and cheap", "n1")]


def test_what_may_not_be_moved_stays() -> None:
    scene = Scene()
    scene.put("fixed", "n0", 2, movable=False)
    scene.put("a", "n1", 1)
    scene.put("b", "n1", 1)
    scene.put("c", "n2", 3)

    plan = scene.plan(pod("gang", placing.whole(4)))

    assert [name for name, _ in moved(plan)] == ["a", "b"]


def test_a_mover_without_a_place_gets_one_by_another_move() -> None:
    scene = Scene()
    scene.put("a", "n0", 3)
    scene.put("fixed", "n1", 1, movable=False)
    scene.put("b", "n1", 1)
    scene.put("also fixed", "n2", 3, movable=False)

    plan = scene.plan(pod("gang", placing.whole(4)))

    assert moved(plan) == [("b", "n2"), ("a", "n1")]


def test_a_gang_that_made_way_for_another_mover_has_left_the_room_as_well() -> None:
    scene = Scene()
    scene.put("a", "n0", 3)
    for node in ("n0", "n1"):
        scene.put("b", node, 1)
    first, second = (scene.running.pop().placement for _ in range(2))
    pods = tuple(replace(each.pods[0], rank=rank) for rank, each in enumerate((second, first)))
    pair = named("b", placing.workload(placing.pods(placing.whole(1), 2, cpu_milli=100)))
    both = replace(first, pods=pods, charge=first.charge + second.charge)
    scene.running.append(Running(workload=pair, placement=both, cost=1))
    scene.put("fixed", "n1", 1, movable=False)
    scene.put("also fixed", "n2", 2, movable=False)

    plan = scene.plan(pod("gang", placing.whole(4)))

    assert moved(plan) == [("b", "n2"), ("a", "n1")]


def test_a_gang_on_several_nodes_is_one_move_that_frees_all_of_them() -> None:
    scene = Scene(nodes_count=4)
    for node in ("n2", "n3"):
        scene.put(f"one {node}", node, 1)
        scene.put(f"two {node}", node, 1)
        scene.put(f"later gone {node}", node, 2)
    pair = placing.workload(
        placing.pods(placing.whole(2), 2, cpu_milli=100), spread=Spread.REQUIRED
    )
    answer = place(scene.cluster, placing.request(pair))
    assert isinstance(answer, Placement)
    assert {each.node for each in answer.pods} == {"n0", "n1"}
    for gone in [each for each in scene.running if each.id.startswith("later gone")]:
        pod_sets = gone.workload.spec.pod_sets
        scene.cluster.release(gone.workload.team, gone.placement.pods, pod_sets)
        scene.running.remove(gone)
    scene.running.append(Running(workload=named("pair", pair), placement=answer, cost=9))

    plan = scene.plan(named("gang", placing.workload(placing.pods(placing.whole(4), 2))))

    assert [name for name, _ in moved(plan)] == ["pair"]
    assert isinstance(plan, Plan)
    assert plan.pods_moved == 2


def test_the_gang_goes_where_its_topology_wants_it() -> None:
    nodes = [
        placing.node(f"n{at}", gpus=4, pool=f"n{at}", rack=f"r{at // 2}", cpu_milli=8000)
        for at in range(4)
    ]
    scene = Scene(*nodes)
    scene.put("a", "n0", 1)
    scene.put("b", "n1", 1)
    scene.put("c", "n2", 1)
    gang = named(
        "gang",
        placing.workload(
            placing.pods(placing.whole(4), 2),
            topology=TopologyRequest(required=Level.RACK),
        ),
    )

    plan = scene.plan(gang)

    assert [name for name, _ in moved(plan)] == ["c"]
    assert isinstance(plan, Plan)
    assert {each.node for each in plan.placement.pods} == {"n2", "n3"}


def test_a_gang_that_fits_or_that_lacks_quota_needs_no_moves() -> None:
    scene = Scene()
    gang = pod("gang", placing.whole(4))
    poor = PlacementRequest(
        workload=gang, flavors=("a100",), headroom={"a100": Resources(gpu_milli=3000)}
    )

    fits, waits = scene.plan(gang), defragment(scene.cluster, scene.running, poor)

    assert isinstance(fits, NoPlan)
    assert fits.obstacle is Obstacle.FITS
    assert isinstance(waits, NoPlan)
    assert waits.obstacle is Obstacle.QUOTA


def test_what_not_even_moves_help_says_so() -> None:
    scene = Scene(nodes_count=2)
    scene.put("a", "n0", 3)
    scene.put("b", "n1", 3)

    too_large = scene.plan(pod("gang", placing.whole(5)))
    no_refuge = scene.plan(pod("gang", placing.whole(4)))

    assert isinstance(too_large, NoPlan)
    assert too_large.obstacle is Obstacle.NO_ROOM
    assert isinstance(no_refuge, NoPlan)
    assert no_refuge.obstacle is Obstacle.NO_REFUGE


def test_a_plan_above_the_limits_is_none() -> None:
    scene = Scene()
    for node in ("n0", "n1", "n2"):
        scene.put(f"a {node}", node, 1)
        scene.put(f"b {node}", node, 1)
    gang = pod("gang", placing.whole(4))

    assert len(moved(scene.plan(gang))) == 2
    for limits in (Limits(moves_max=1), Limits(steps_max=1)):
        plan = scene.plan(gang, limits)
        assert isinstance(plan, NoPlan)
        assert plan.obstacle is Obstacle.LIMIT


def test_the_second_flavor_is_taken_where_it_needs_fewer_moves() -> None:
    scene = Scene(
        placing.node("a0", gpus=4, pool="a0"),
        placing.node("a1", gpus=4, pool="a1"),
        placing.node("h0", gpus=4, pool="h0", flavor="h100"),
        placing.node("h1", gpus=4, pool="h1", flavor="h100"),
    )
    for node in ("a0", "a1"):
        scene.put(f"one {node}", node, 1)
        scene.put(f"two {node}", node, 1)
    for node in ("h0", "h1"):
        asked = pod(node, placing.whole(1), node)
        answer = place(scene.cluster, placing.request(asked, "h100"))
        assert isinstance(answer, Placement)
        free = pod(node, placing.whole(1))
        scene.running.append(Running(workload=free, placement=answer))

    request = placing.request(pod("gang", placing.whole(4)), "a100", "h100")
    plan = defragment(scene.cluster, scene.running, request)

    assert isinstance(plan, Plan)
    assert plan.placement.flavor == "h100"
    assert len(plan.moves) == 1


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
