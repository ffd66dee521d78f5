"""How victims are counted node by node: what is taken back, what is told, and what bounds it."""

from __future__ import annotations

import pytest

from shared.core.cluster.node_state import NodeState, copy_of
from shared.core.model.demand import gang_of
from shared.core.model.nouns import GpuChoice, Level, Slice, TopologyRequest
from shared.core.model.value import replace
from shared.core.preemption.eligibility.occupant import Occupant
from shared.core.preemption.eligibility.rules import EligibilityJudge
from shared.core.preemption.eligibility.screen import Screen
from shared.core.preemption.victims import choice as preemption_choice
from shared.core.preemption.victims.choose import EvictionPlan, PreemptionRules, Rule, SearchLimits
from shared.core.preemption.victims.offers import STEPS_MAX, Way, by_search
from shared.core.preemption.victims.simulated_removal import Scope, SimulatedRemoval, least_gone
from tests.support import placing
from tests.support.evicting import NOW_MS, Scene, one_queue, victims, waiting


def elastic(scene: Scene, name: str, count: int, least: int, **rest: object) -> Occupant:
    """A gang that runs with `count` pods of one GPU and needs `least` of them."""
    pod_set = replace(placing.pods(placing.whole(1), count), min_count=least)
    found = scene.try_to_put(waiting(name, pod_sets=(pod_set,), **rest), ran_ms=100)  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize("needed", range(7))
@pytest.mark.parametrize("out", [{0, 1, 2, 3, 4, 5}, {2, 3, 4, 5}, {4, 5}])
def test_as_few_of_a_gang_go_as_will_do_and_those_of_the_highest_ranks(
    out: set[int], needed: int
) -> None:
    gang = elastic(one_queue(gpus=6), "gang", 6, 2)
    tried: list[frozenset[int]] = []

    def let_go(ranks: frozenset[int]) -> frozenset[int] | None:
        tried.append(ranks)
        return ranks if len(ranks) >= needed else None

    found = least_gone(gang, gang.sizes, frozenset(out), let_go)

    # It may keep 2 to 5 pods: none goes, 1 to 4 go, or all of it.
    piece = frozenset(range(6 - needed, 6))
    assert found == (piece if needed <= 4 and needed < len(out) else None)
    assert all(ranks < out for ranks in tried)


@pytest.mark.parametrize("gpus", [1, 0])
def test_what_a_piece_of_a_gang_is_counted_by_is_the_sum_of_its_pods(gpus: int) -> None:
    scene = one_queue(gpus=6)
    pod_set = replace(placing.pods(placing.whole(gpus), 6, cpu_milli=700), min_count=2)
    gang = scene.try_to_put(waiting("gang", pod_sets=(pod_set,)), ran_ms=100)
    assert gang is not None
    surplus = scene.occupants.surplus["gang"]

    for kept in surplus.sizes:
        pods = [pod for pod in gang.placement.pods if pod.rank >= kept]
        assert surplus.weights_milli[kept] == scene.occupants.weight_milli(gang, pods)
    assert (2, 3, 4, 5) == surplus.sizes
    assert [None, None, 2, 3, 4, 5] == [surplus.size_without(rank) for rank in range(6)]


def test_two_may_each_go_but_not_one_after_the_other() -> None:
    """With one GPU more q has 2 of other's 3; once one of these is gone it has as many."""
    scene = Scene(placing.node("n0", gpus=4))
    scene.queue("q")
    scene.queue("other")
    scene.queue("rest", nominal=4)
    scene.put("mine", queue="q")
    theirs = [scene.put(name, queue="other") for name in ("a", "b", "c")]
    charge = (1000, 0, 0)
    judge = EligibilityJudge(
        scene.tree, PreemptionRules(), waiting("p"), charge, flavor="a100", now_ms=NOW_MS
    )
    screen = Screen(scene.occupants, judge)
    leavers = SimulatedRemoval(Scope(scene.cluster, scene.occupants, judge, screen, "red"))

    assert all(leavers.admits(each, frozenset({0})) for each in theirs)
    leavers.set(theirs[0], frozenset({0}))
    assert leavers.settle() == {"a": Rule.FAIR_SHARE}
    leavers.set(theirs[1], frozenset({0}))
    assert leavers.settle() is None


def cheaper_together() -> Scene:
    """Two nodes of four GPUs, and one of eight that costs less than both and more than each."""
    scene = Scene(*(placing.node(name, gpus=8 if name == "both" else 4, pool=name)
                    for name in ("both", "one", "two")))  # fmt: skip
    scene.queue("q", nominal=100)
    scene.put("both", 8, node="both", ran_ms=4_750_000)
    scene.put("one", 4, node="one", ran_ms=100_000)
    scene.put("two", 4, node="two", ran_ms=1_000_000)
    return scene


def test_swaps_find_what_is_cheaper_as_long_as_few_nodes_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = waiting("p", 4, pods=2, priority=5)

    assert victims(cheaper_together().choose(work)) == ["both"]
    monkeypatch.setattr(preemption_choice, "SWAP_LOOKS_MAX", -1)
    assert victims(cheaper_together().choose(work)) == ["one", "two"]


def test_what_a_gang_frees_where_the_work_may_not_run_is_no_room() -> None:
    scene = Scene(*(placing.node(name, gpus=2, pool=name) for name in ("here", "there")))
    scene.queue("q", nominal=100)
    scene.put("beside", 1, node="here", ran_ms=1_000_000)
    scene.put("gang", 1, pods=3, ran_ms=1_000)

    found = scene.choose(waiting("p", 1, pods=2, priority=5, choice=GpuChoice(node_pool="here")))

    assert victims(found) == ["beside", "gang"]
    assert isinstance(found, EvictionPlan)
    assert {pod.node for pod in found.placement.pods} == {"here"}


@pytest.mark.parametrize("elsewhere", [0, 5])
def test_where_someone_may_not_go_whole_is_neither_taken_nor_told(elsewhere: int) -> None:
    """`part` is two GPUs above its queue's own: its surplus may go, but not all of it.

    It is on two nodes that seem cheaper than that of `whole` until somebody asks; on the second
    is `dear`, which costs less for each GPU if it has many `elsewhere`.
    """
    sizes = (2, 2, 2, elsewhere) if elsewhere else (2, 2, 2)
    scene = Scene(
        *(placing.node(f"n{at}", gpus=gpus, pool=f"n{at}") for at, gpus in enumerate(sizes))
    )
    scene.queue("q", nominal=100)
    scene.queue("other", nominal=1)
    scene.put("whole", 2, node="n2", ran_ms=1_000)
    if elsewhere:
        scene.put("filler", elsewhere, node="n3")
    elastic(scene, "part", 3, 2, queue="other")
    if elsewhere:
        scene.leave("filler")
    scene.put("dear", 1, pods=1 + elsewhere, ran_ms=1_000_000 if elsewhere else 9_000_000)

    found = scene.choose(waiting("p", 2, priority=5))

    assert victims(found) == ["whole"]
    assert isinstance(found, EvictionPlan)
    assert [each.victims for each in found.alternatives] == [("dear",)] * bool(elsewhere)


def test_the_search_on_one_node_is_bounded_and_its_answer_makes_room() -> None:
    scene = one_queue(gpus=4)
    ways = [
        Way(each, frozenset({0}), each.placement.pods, 0, 0, 0, 1_000 + (at * 7919) % 640)
        for at in range(40)
        for each in [scene.put(f"w{at:02}", placing.share(100))]
    ]
    tenants, trial = scene.occupants.tenants, copy_of(scene.cluster.nodes["n0"])
    (demand,) = gang_of(waiting("p", 1)).demands
    moves = 0

    def leave(way: Way, node: NodeState) -> None:
        nonlocal moves
        moves += 1
        assert moves < len(ways) + 2 * STEPS_MAX
        tenants.leave(way.occupant, node, way.pods)

    def come_back(way: Way, node: NodeState) -> None:
        tenants.come_back(way.occupant, node, way.pods)

    (offer,) = by_search(trial, demand, "red", ways, 1, leave=leave, come_back=come_back)

    assert moves > STEPS_MAX, "or the bound does not matter here"
    assert trial.free_count == 0, "all are back"
    assert offer.price == sum(way.price for way in offer.ways)
    assert len(offer.ways) == 10
    assert len({way.pods[0].shares[0].index for way in offer.ways}) == 1


@pytest.mark.parametrize(("trials_max", "leave"), [(4, 8), (5, 7), (256, 6)])
def test_after_the_last_trial_nobody_else_comes_back(trials_max: int, leave: int) -> None:
    """Counting sees the cheapest nodes, of two racks; so all go, and who need not comes back."""
    scene = Scene(
        *(placing.node(f"n{at}", gpus=4, rack=f"r{at % 2}", pool=f"n{at}") for at in range(4))
    )
    scene.queue("q", nominal=100)
    for at in range(16):
        ran_ms = 1_000 if at < 8 else 9_000_000
        scene.put(f"w{at:02}", 1, node=f"n{at // 4}", ran_ms=ran_ms)
    pods = replace(placing.pods(placing.whole(3), 2), slices=(Slice(pods=2, level=Level.RACK),))
    work = waiting("p", pod_sets=(pods,), priority=5)

    found = scene.choose(work, limits=SearchLimits(trials_max=trials_max))

    assert len(victims(found)) == leave


def test_whoever_makes_it_fair_that_others_go_does_not_stay_while_they_do() -> None:
    """In the first rack `mine` goes, then `one`, then `gang`; without `mine` that is enough room.

    But with `mine` still there q has too large a share for both to go: so the other rack it is.
    """
    sizes = {"n0": 2, "n1": 1, "n2": 1, "n3": 1, "n4": 1, "next": 4, "far": 8}
    racks = {"next": "r1", "far": "r2"}
    scene = Scene(
        *(
            placing.node(name, gpus=gpus, rack=racks.get(name, "r0"), pool=name)
            for name, gpus in sizes.items()
        )
    )
    scene.queue("q")
    scene.queue("other")
    scene.queue("rest", nominal=40)
    scene.put("mine", 2, node="n0", ran_ms=1_000_000)
    scene.put("dear", 4, node="next", ran_ms=NOW_MS)
    scene.put("kept", 8, node="far", queue="other", protected=True)
    scene.put("one", 1, node="n1", queue="other", ran_ms=1_000)
    scene.put("gang", 1, pods=3, queue="other", ran_ms=100_000)
    topology = TopologyRequest(required=Level.RACK)

    found = scene.choose(waiting("p", 1, pods=4, priority=5, topology=topology))

    assert victims(found) == ["dear"]
