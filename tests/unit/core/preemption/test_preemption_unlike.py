"""Victims for gangs of unlike pods, for which counting takes the wrong nodes."""

from __future__ import annotations

from shared.core.model.value import replace
from shared.core.preemption.victims.choose import (
    EvictionPlan,
    NoEviction,
    Obstacle,
)
from tests.support import placing
from tests.support.evicting import (
    Scene,
    elastic,
    one_queue,
    victims,
    waiting,
)


def test_unlike_pods_of_a_gang_find_their_places() -> None:
    full = one_queue(nodes=2, gpus=4)
    for at in range(8):
        full.put(f"w{at}", 1, ran_ms=1000 * (1 + at))
    sets = (
        placing.pods(placing.whole(3), 1, name="large"),
        placing.pods(placing.whole(1), 2, name="small"),
    )

    found = full.choose(waiting("p", pod_sets=sets, priority=5))

    assert len(victims(found)) == 5


def uneven(**cpu_milli: int) -> Scene:
    """Nodes of two GPUs, each a pool of its own, of one rack."""
    scene = Scene(
        *(
            placing.node(name, gpus=2, pool=name, rack="r", cpu_milli=each)
            for name, each in cpu_milli.items()
        )
    )
    scene.queue("q", nominal=100)
    return scene


LARGE_AND_HUNGRY = (
    placing.pods(placing.whole(2), name="large"),
    placing.pods(placing.whole(1), name="hungry", cpu_milli=6000),
)


def test_what_leaves_for_the_one_is_no_room_for_the_other_that_may_not_run_there() -> None:
    full = uneven(slow=1000, fast=8000)
    full.put("a", 2, node="slow", ran_ms=1000)
    full.put("b", 2, node="fast", ran_ms=9_000_000)

    found = full.choose(waiting("p", pod_sets=LARGE_AND_HUNGRY, priority=5))

    assert victims(found) == ["a", "b"]


def test_where_counting_takes_the_wrong_node_all_go_and_but_the_surplus_comes_back() -> None:
    """Counting puts the large pod where nobody has to leave: where alone the hungry one fits."""
    full = uneven(slow=1000)
    full.cluster.put_node(placing.node("other", gpus=1, pool="other", rack="r", cpu_milli=1000))
    full.try_to_put(elastic("gang", 3, 1), ran_ms=1000)
    full.cluster.put_node(placing.node("fast", gpus=2, pool="fast", rack="r", cpu_milli=8000))

    found = full.choose(waiting("p", pod_sets=LARGE_AND_HUNGRY, priority=5))

    assert victims(found) == ["gang"]
    assert isinstance(found, EvictionPlan)
    assert (0,) == found.victims[0].kept_ranks


def test_of_those_who_may_go_one_by_one_only_as_many_go_as_leave_their_queue_its_own() -> None:
    full = uneven(slow=1000, beside=1000)
    full.queue("other", nominal=2)
    for name in ("slow", "beside"):
        full.put(f"on {name}", 2, node=name, queue="other")
    full.cluster.put_node(placing.node("fast", gpus=2, pool="fast", rack="r", cpu_milli=8000))

    found = full.choose(waiting("p", pod_sets=LARGE_AND_HUNGRY, priority=5))

    assert len(victims(found)) == 1


def test_who_does_not_fit_although_all_have_gone_evicts_nobody() -> None:
    full = uneven(slow=1000, beside=1000)
    for name in ("slow", "beside"):
        full.put(f"on {name}", 2, node=name)
    full.cluster.put_node(placing.node("fast", gpus=2, pool="fast", rack="r", cpu_milli=8000))
    two_hungry = (LARGE_AND_HUNGRY[0], replace(LARGE_AND_HUNGRY[1], count=2))

    found = full.choose(waiting("p", pod_sets=two_hungry, priority=5))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.NO_ROOM


def test_nobody_comes_back_without_whom_the_others_may_not_go() -> None:
    """There is room enough without `one` and `gang` alone.

    But while `a` runs, q has too large a share for both of them to go.
    """
    full = Scene(
        placing.node("slow", gpus=9, pool="slow", cpu_milli=1000),
        placing.node("far", gpus=7, pool="far", cpu_milli=1000),
    )
    full.queue("q")
    full.queue("other")
    full.queue("rest", nominal=40)
    full.put("a", 5, node="slow", ran_ms=2_000)
    full.put("one", 1, node="slow", queue="other", ran_ms=1000)
    full.put("gang", 1, node="slow", pods=3, queue="other", ran_ms=1000)
    full.put("kept", 7, node="far", queue="other", protected=True)
    full.cluster.put_node(placing.node("fast", gpus=4, pool="fast", cpu_milli=8000))
    large, hungry = replace(LARGE_AND_HUNGRY[0], gpu=placing.whole(4)), LARGE_AND_HUNGRY[1]

    found = full.choose(waiting("p", pod_sets=(large, hungry), priority=5))

    assert victims(found) == ["a"]
