"""An eviction is answered once, by whoever it meets: pods, ends, refusals, unknown attempts."""

import asyncio

import pytest

from services.binder.gang import BoundGang
from services.binder.gang_state import RUNNING, ToldFact
from shared.core.model.reason import Reason
from shared.events.pods import PodsFinished, PodsGone
from shared.simulator.faults import Faults
from tests.unit.binder.world import bind, evict


async def test_an_eviction_is_answered_when_the_last_pod_is_gone(slow):
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.advance(1)

    await slow.send(evict())
    while_stopping = (slow.told()[-1], len(slow.pods()))
    await slow.advance(0.5)

    assert while_stopping == ("PodsRunning", 2)
    assert (slow.told()[-1], slow.pods()) == ("PodsGone", {})
    assert not slow.facts[-1].succeeded


async def test_pods_that_all_ended_well_before_their_deletion_are_said_to_have(slow):
    await slow.send(bind(seconds=1))
    await slow.advance(1.25)
    slow.clock.ms += 5_000
    await slow.send(evict())
    await slow.advance(1)

    assert slow.facts[-1] == PodsGone(
        workload_id="w1", attempt=1, at_ms=slow.facts[-1].at_ms, succeeded=True
    )


async def test_an_eviction_of_an_unknown_attempt_is_answered_and_its_bind_ignored(world):
    await world.send(evict(attempt=3))
    await world.send(bind(attempt=3))
    await world.start()
    await world.send(bind(attempt=3))

    assert world.told(attempt=3) == ["PodsGone"]
    assert world.pods() == {}


async def test_an_eviction_in_the_same_batch_as_its_bind_leaves_no_pod(world):
    await world.send(bind(), evict())

    assert world.told() == ["PodsGone"]
    assert world.pods() == {}


async def test_an_eviction_after_the_end_is_answered_once(world):
    await world.send(bind(seconds=1))
    await world.advance(1.25)

    await world.send(evict())
    await world.send(evict())

    assert world.told() == ["PodsRunning", "PodsFinished", "PodsGone"]
    assert world.facts[-1].succeeded


async def test_an_eviction_overtaking_a_refusal_is_answered_by_pods_gone_alone(world):
    world.cluster.dice.faults = Faults(throttled=1.0)
    await world.send(bind())

    await world.send(evict())

    assert world.told() == ["PodsGone"]


async def test_facts_on_their_way_are_dropped_once_an_eviction_is_recorded(world):
    world.cluster.pods.node_silent("n1")
    await world.send(bind(), kill="after commit")
    late = PodsFinished(workload_id="w1", attempt=1, at_ms=world.clock.ms, succeeded=True)

    await world.unit([world.message(evict())], kill="after commit")
    await world.unit([world.message(late)], kill="after commit")
    await world.start()

    assert world.told() == ["PodsGone"]


async def test_an_eviction_after_a_lost_reply_waits_for_the_list(world):
    list_pods, may_list = world.cluster.list_pods, asyncio.Event()

    async def late_list():
        await may_list.wait()
        return await list_pods()

    world.cluster.list_pods = late_list
    world.cluster.drop_watches()
    await world.settle()
    world.cluster.dice.faults = Faults(reply_lost=1.0)
    await world.send(bind())
    world.cluster.dice.faults = Faults()

    await world.send(evict())
    before = (world.told(), len(world.pods()))
    may_list.set()
    await asyncio.sleep(0.001)
    await world.settle()

    assert before == ([], 1)
    assert (world.told(), world.pods()) == (["PodsGone"], {})


async def test_that_all_ended_well_is_not_forgotten_when_killed_after_the_deletion(slow):
    await slow.send(bind(nodes=("n1", "n2"), seconds=1))
    await slow.advance(1.25)
    slow.clock.ms += 5_000
    slow.cluster.tick()
    for _ in range(20):
        await asyncio.sleep(0)

    await slow.send(evict(), kill_before=PodsGone)

    assert slow.pods() == {}
    assert slow.told()[-1] == "PodsGone"
    assert slow.told().count("PodsFinished") == 0
    assert slow.facts[-1].succeeded


async def test_what_did_not_run_in_time_tells_which_pods_kept_it_from_that(world):
    world.cluster.pods.node_silent("n2")
    await world.send(bind(nodes=("n1", "n2", "n3")))
    await world.advance(1)

    await world.send(evict(reason=Reason.BIND_TIMEOUT), evict(reason=Reason.BIND_TIMEOUT))
    await world.fence("n2")

    assert world.told() == ["PodsBound", "PodsUnstarted", "PodsGone"]
    assert world.facts[1].ranks == (1,)


@pytest.mark.parametrize("reason", [Reason.BIND_TIMEOUT, Reason.PREEMPTED])
async def test_who_had_started_or_is_evicted_for_another_reason_tells_no_pods(world, reason):
    if reason != Reason.BIND_TIMEOUT:
        world.cluster.pods.node_silent("n2")
    await world.send(bind(nodes=("n1", "n2")))
    await world.advance(1)

    await world.send(evict(reason=reason))
    await world.fence("n2")

    assert "PodsUnstarted" not in world.told()
    assert world.told()[-1] == "PodsGone"


async def test_what_did_not_start_is_told_once_across_a_kill(world):
    world.cluster.pods.node_silent("n2")
    await world.send(bind(nodes=("n1", "n2")))
    await world.advance(1)

    await world.unit([world.message(evict(reason=Reason.BIND_TIMEOUT))], kill="after commit")
    await world.start()
    await world.fence("n2")

    assert world.told() == ["PodsBound", "PodsUnstarted", "PodsGone"]


def test_nothing_is_said_of_pods_that_this_process_has_not_seen():
    gang = BoundGang(workload_id="w1", attempt=1, size=3, told=ToldFact.BOUND)

    assert gang.behind(RUNNING) == ()
