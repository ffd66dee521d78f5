"""A gang that runs gets more pods, or gives up its highest ranks; the others run on."""

import pytest

from shared.core.model.lifecycle import State
from shared.events.pods import (
    AskAttempts,
    AskedAttempt,
    PodsFinished,
    PodsResized,
    ResizeRefused,
)
from shared.ports.cluster import PodOperation
from shared.simulator.faults import Faults
from tests.unit.binder.world import World, bind, evict, resize, without_backoff

TWO, FOUR = ("n1", "n2"), ("n1", "n2", "n3", "n4")


@pytest.fixture
async def world(monkeypatch):
    """w1 runs with two pods; stopping takes half a second."""
    without_backoff(monkeypatch)
    world = World(stop_ms=500)
    await world.start()
    await world.send(bind(nodes=TWO))
    yield world
    await world.stop()


def phases(world):
    """Node and phase of each pod, by name."""
    return {name: (pod.node, pod.phase) for name, pod in world.pods().items()}


async def test_more_pods_are_created_and_bound_beside_those_that_run(world):
    before = {name: pod.uid for name, pod in world.pods().items()}

    await world.send(resize(FOUR))

    assert world.facts[-1] == PodsResized(
        workload_id="w1", attempt=1, at_ms=world.clock.ms, number=1, pods=4
    )
    assert [pod.node for pod in world.pods().values()] == list(FOUR)
    assert before.items() <= {name: pod.uid for name, pod in world.pods().items()}.items()
    assert world.tables.rows["w1", 1]["size"] == 4


async def test_fewer_is_told_when_the_highest_ranks_are_gone(world):
    await world.send(resize(FOUR))

    await world.send(resize(TWO[:1], 2))
    while_stopping = world.told()
    await world.advance(1)

    assert while_stopping == ["PodsRunning", "PodsResized"]
    assert world.facts[-1].pods == 1
    assert list(world.pods()) == ["w1-1-0"]


async def test_a_rank_that_was_given_up_comes_back_as_another_pod(world):
    uid = world.pods()["w1-1-1"].uid
    await world.send(resize(TWO[:1]))
    await world.advance(1)

    await world.send(resize(("n1", "n4"), 2))

    pod = world.pods()["w1-1-1"]
    assert (pod.node, pod.phase, pod.uid != uid) == ("n4", "Running", True)
    assert world.told() == ["PodsRunning", "PodsResized", "PodsResized"]


async def test_a_growth_that_the_cluster_refuses_leaves_the_pods_that_ran(world):
    before = world.pods()
    foreign = before["w1-1-0"].__class__(
        name="w1-1-3", namespace="red", workload_id="other", attempt=9, rank=0, size=1, epoch=0
    )
    await world.cluster.apply(
        [PodOperation(verb="create", namespace="red", name="w1-1-3", pod=foreign)]
    )

    await world.send(resize(FOUR))
    await world.advance(1)

    assert isinstance(world.facts[-1], ResizeRefused)
    assert world.facts[-1].reason == "NameTaken"
    assert set(world.pods()) - {"w1-1-3"} == set(before)
    assert world.tables.rows["w1", 1]["size"] == 2


async def test_a_growth_that_is_not_bound_in_time_is_given_up(world):
    world.cluster.dice.faults = Faults(throttled=1.0)
    await world.send(resize(FOUR))
    await world.advance(31)

    assert isinstance(world.facts[-1], ResizeRefused)
    assert world.facts[-1].reason == "BindTimeout"
    assert len(world.pods()) == 2


async def test_a_pod_that_fails_in_a_gang_that_grew_ends_the_gang(world):
    await world.send(resize(FOUR))

    world.cluster.pods.fail_pod("w1-1-3", "Error")
    await world.advance(1)

    assert isinstance(world.facts[-1], PodsFinished)
    assert world.pods() == {}


async def test_an_old_pod_that_fails_while_others_stop_ends_the_gang(world):
    await world.send(resize(FOUR))
    await world.send(resize(TWO, 2))

    world.cluster.pods.fail_pod("w1-1-0", "Error")
    await world.advance(1)

    assert world.told() == ["PodsRunning", "PodsResized", "PodsFinished"]
    assert world.pods() == {}


async def test_an_eviction_takes_the_pods_that_were_about_to_go_as_well(world):
    await world.send(resize(FOUR))
    await world.send(resize(TWO, 2), evict())
    await world.advance(1)

    assert world.told() == ["PodsRunning", "PodsResized", "PodsGone"]
    assert world.pods() == {}


async def test_a_gang_that_shrank_succeeds_when_those_who_stayed_do(world):
    await world.send(bind("w2", nodes=FOUR, seconds=5))
    await world.send(resize(TWO, 1, "w2"))

    await world.advance(6)

    assert world.told("w2") == ["PodsRunning", "PodsResized", "PodsFinished"]
    assert world.facts[-1].succeeded


@pytest.mark.parametrize("nodes", [FOUR, TWO[:1]])
@pytest.mark.parametrize("kill", ["before commit", "after commit"])
async def test_a_binder_killed_at_the_command_comes_to_the_same(world, kill, nodes):
    await world.send(resize(nodes), kill=kill)
    await world.start()
    if kill == "before commit":
        await world.send(resize(nodes))
    await world.advance(1)

    assert world.told() == ["PodsRunning", "PodsResized"]
    assert [pod.node for pod in world.pods().values()] == list(nodes)


@pytest.mark.parametrize("nodes", [FOUR, TWO[:1]])
async def test_a_binder_killed_before_it_tells_tells_it_once(world, nodes):
    await world.send(resize(nodes))
    await world.advance(1)
    told = list(world.facts)
    again = World(stop_ms=500)
    await again.start()
    await again.send(bind(nodes=TWO))
    await again.send(resize(nodes), kill_before=PodsResized)
    await again.advance(1)

    assert [type(one) for one in again.facts] == [type(one) for one in told]
    assert list(again.pods()) == list(world.pods())
    await again.stop()


async def test_a_command_without_pods_is_a_dead_letter(world):
    await world.send(resize(()))

    assert [reason for _, reason in world.dead] == ["placement.pods: must not be empty"]


def asked(number, pods):
    """Placement still waits for the answer to this resize."""
    one = AskedAttempt(
        workload_id="w1", attempt=1, state=State.RUNNING, resize=number, resize_pods=pods
    )
    return AskAttempts(epoch=1, attempts=(one,))


@pytest.mark.parametrize(
    ("number", "pods", "answer"),
    [
        pytest.param(1, 4, PodsResized, id="its answer was lost"),
        pytest.param(2, 6, ResizeRefused, id="its command was lost"),
    ],
)
async def test_a_resize_that_is_asked_for_is_answered_by_what_there_is(
    world, number, pods, answer
):
    await world.send(resize(FOUR))
    before = len(world.facts)

    await world.send(asked(number, pods))

    (again,) = world.facts[before:]
    assert (answer, number) == (type(again), again.number)


async def test_a_resize_that_is_under_way_is_answered_at_its_end_alone(world):
    await world.send(resize(TWO[:1]))
    before = world.told()

    await world.send(asked(1, 1))

    assert before == world.told()
    await world.advance(1)
    assert [*before, "PodsResized"] == world.told()
