"""Victims for gangs, and gangs among the victims, in cases small enough to see the answer."""

from __future__ import annotations

import dataclasses

from shared.core.model.nouns import Level, Slice, Spread, TopologyRequest
from shared.core.model.value import replace
from shared.core.preemption.victims.choose import (
    EvictionPlan,
)
from tests.support import placing
from tests.support.evicting import (
    NOW_MS,
    Scene,
    elastic,
    one_queue,
    victims,
    waiting,
)


def test_a_gang_goes_whole_and_nobody_else_goes_without_need() -> None:
    full = one_queue(nodes=2)
    full.put("gang", 1, pods=2, ran_ms=1000)
    full.put("a", ran_ms=100)
    full.put("b", ran_ms=200)

    found = full.choose(waiting("p", 2, pods=1, priority=5))

    assert victims(found) in (["gang"], ["a", "b"])


def test_a_gang_that_frees_two_nodes_is_counted_once() -> None:
    full = one_queue(nodes=2)
    full.put("gang", 2, pods=2, ran_ms=100_000)
    cheap = Scene(
        placing.node("n0", gpus=2), placing.node("n1", gpus=2), placing.node("n2", gpus=2)
    )
    cheap.queue("q", nominal=100)
    cheap.put("gang", 2, pods=2, ran_ms=100_000)
    cheap.put("single", 2, ran_ms=150_000)

    both = cheap.choose(waiting("p", 2, pods=2, priority=5))
    one = cheap.choose(waiting("p", 2, pods=1, priority=5))

    assert victims(full.choose(waiting("p", 2, pods=2, priority=5))) == ["gang"]
    assert victims(both) == ["gang"]
    assert victims(one) == ["single"]


def test_victims_are_of_one_rack_where_one_is_required() -> None:
    full = Scene(*(placing.node(f"n{at}", gpus=4, rack=f"r{at % 2}") for at in range(4)))
    full.queue("q", nominal=100)
    for at in range(4):
        full.put(f"w{at}", 4, node="", ran_ms=1000 * (1 + at))
    rack = TopologyRequest(required=Level.RACK)

    found = full.choose(waiting("p", 4, pods=2, priority=5, topology=rack))

    assert isinstance(found, EvictionPlan)
    racks = {full.cluster.nodes[pod.node].inventory.rack for pod in found.placement.pods}  # type: ignore[union-attr]
    assert len(found.victims) == 2
    assert len(racks) == 1


def test_slices_for_which_counting_finds_the_wrong_nodes_find_their_racks() -> None:
    racks = ("r1", "r2", "r1", "r2", "r3", "r3")
    full = Scene(*(placing.node(f"n{at}", gpus=2, rack=rack) for at, rack in enumerate(racks)))
    full.queue("q", nominal=100)
    ran_ms = {"r1": 1000, "r2": 1000, "r3": 90_000_000}
    for _ in racks:
        held = full.put("w", 2)
        full.occupants.remove("w")
        rack = full.cluster.nodes[held.placement.pods[0].node].inventory.rack  # type: ignore[union-attr]
        name = f"w-{held.placement.pods[0].node}"
        cheap = held.placement.pods[0].node in {"n0", "n1"}
        full.occupants.put(
            dataclasses.replace(
                held,
                workload=replace(held.workload, id=name),
                started_at_ms=NOW_MS - (1000 if cheap else 5_000_000 + ran_ms[rack]),
            )
        )
    sliced = replace(placing.pods(placing.whole(2), 2), slices=(Slice(pods=2, level=Level.RACK),))

    found = full.choose(waiting("p", pod_sets=(sliced,), priority=5))

    assert victims(found) in (["w-n0", "w-n2"], ["w-n1", "w-n3"])


def test_of_a_gang_whose_surplus_is_enough_only_that_goes() -> None:
    """Two shares want a GPU each at first, and then find that one is enough for both."""
    full = one_queue()
    full.try_to_put(elastic("gang", 2, 1), ran_ms=5_000_000)

    found = full.choose(waiting("p", placing.share(300), pods=2, priority=5))

    assert isinstance(found, EvictionPlan)
    assert [(0,)] == [victim.kept_ranks for victim in found.victims]


def test_pods_that_lie_apart_have_a_node_emptied_each() -> None:
    full = one_queue(nodes=3, gpus=1)
    for at in range(3):
        full.put(f"w{at}", node=f"n{at}", ran_ms=1000 * (1 + at))

    found = full.choose(waiting("p", pods=2, priority=5, spread=Spread.REQUIRED))

    assert victims(found) == ["w0", "w1"]


def test_room_in_another_rack_helps_no_pod_of_this_one() -> None:
    sizes = {"r0": (1, 1), "r1": (1, 1, 1)}
    full = Scene(
        *(
            placing.node(f"{rack}-{at}", gpus=each, rack=rack, pool=f"{rack}-{at}")
            for rack, gpus in sizes.items()
            for at, each in enumerate(gpus)
        )
    )
    full.queue("q", nominal=100)
    full.put("cheap", node="r0-0", ran_ms=1_000)
    for at in range(2):
        full.put(f"fixed{at}", node=f"r1-{at}", protected=True)
    rack = TopologyRequest(required=Level.RACK)

    found = full.choose(waiting("p", pods=2, priority=5, topology=rack))

    assert victims(found) == ["cheap"]


def test_a_gang_that_leaves_another_rack_too_makes_no_room_there() -> None:
    full = Scene(
        placing.node("a0", gpus=2, rack="r0"),
        placing.node("b0", gpus=2, rack="r1"),
    )
    full.queue("q", nominal=100)
    full.put("pair", 2, pods=2)
    full.cluster.put_node(placing.node("a1", gpus=1, rack="r0"))
    rack = TopologyRequest(required=Level.RACK)
    sets = (placing.pods(placing.whole(2), name="large"), placing.pods(placing.whole(1), name="s"))

    found = full.choose(waiting("p", pod_sets=sets, priority=5, topology=rack))

    assert victims(found) == ["pair"]
    assert isinstance(found, EvictionPlan)
    assert {"a0", "a1"} == {pod.node for pod in found.placement.pods}
