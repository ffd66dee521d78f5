"""Plans of moves in cases small enough to see the answer."""

from __future__ import annotations

from shared.core.cluster.tenants import Running
from shared.core.model.nouns import (
    Level,
    Placement,
    Spread,
    TopologyRequest,
)
from shared.core.model.units import Resources
from shared.core.model.value import replace
from shared.core.placement.place import PlacementRequest, place
from shared.core.preemption.defragmentation.defragment import (
    DefragmentationLimits,
    DefragmentationObstacle,
    NoPlan,
    Plan,
    defragment,
)
from tests.support import placing
from tests.support.fragments import Scene, moved, named, pod


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
    assert fits.obstacle is DefragmentationObstacle.FITS
    assert isinstance(waits, NoPlan)
    assert waits.obstacle is DefragmentationObstacle.QUOTA


def test_what_not_even_moves_help_says_so() -> None:
    scene = Scene(nodes_count=2)
    scene.put("a", "n0", 3)
    scene.put("b", "n1", 3)

    too_large = scene.plan(pod("gang", placing.whole(5)))
    no_refuge = scene.plan(pod("gang", placing.whole(4)))

    assert isinstance(too_large, NoPlan)
    assert too_large.obstacle is DefragmentationObstacle.NO_ROOM
    assert isinstance(no_refuge, NoPlan)
    assert no_refuge.obstacle is DefragmentationObstacle.NO_REFUGE


def test_a_plan_above_the_limits_is_none() -> None:
    scene = Scene()
    for node in ("n0", "n1", "n2"):
        scene.put(f"a {node}", node, 1)
        scene.put(f"b {node}", node, 1)
    gang = pod("gang", placing.whole(4))

    assert len(moved(scene.plan(gang))) == 2
    for limits in (DefragmentationLimits(moves_max=1), DefragmentationLimits(steps_max=1)):
        plan = scene.plan(gang, limits)
        assert isinstance(plan, NoPlan)
        assert plan.obstacle is DefragmentationObstacle.LIMIT


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
