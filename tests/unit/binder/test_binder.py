"""The binder makes the cluster match the commands, and tells every fact exactly once."""

import asyncio

import pytest

from services.binder import pulse
from shared.events.pods import BindRefused, PodsFinished, PodsGone
from shared.ports.cluster import Operation, Pod
from shared.simulator.faults import Faults
from tests.unit.binder.world import World, bind, evict, stored_pods, without_backoff


@pytest.fixture
async def world(monkeypatch):
    without_backoff(monkeypatch)
    world = World()
    await world.start()
    yield world
    await world.stop()


@pytest.fixture
async def slow(monkeypatch):
    """Pods need half a second to start and to stop."""
    without_backoff(monkeypatch)
    world = World(start_ms=500, stop_ms=500)
    await world.start()
    yield world
    await world.stop()


async def test_a_workload_is_created_bound_and_told_to_run_once(world):
    await world.send(bind(nodes=("n1", "n2")))

    pods = world.pods()
    assert [(name, pod.node, pod.phase) for name, pod in pods.items()] == [
        ("w1-1-0", "n1", "Running"), ("w1-1-1", "n2", "Running"),
    ]  # fmt: skip
    assert world.told() == ["PodsRunning"]
    assert pods["w1-1-0"].shares[0].mask == 255


async def test_bound_is_told_by_itself_only_when_running_takes_time(slow):
    await slow.send(bind())
    before = slow.told()
    await slow.advance(0.25)
    bound = slow.told()
    await slow.advance(0.5)

    assert (before, bound, slow.told()) == ([], ["PodsBound"], ["PodsBound", "PodsRunning"])


async def test_pods_that_ended_are_told_and_then_deleted(world):
    await world.send(bind(nodes=("n1", "n2"), seconds=10))

    await world.advance(10.5)

    assert world.told() == ["PodsRunning", "PodsFinished"]
    assert world.facts[-1].succeeded
    assert world.pods() == {}
    assert world.handler._actuator.gangs.by_key == {}
    assert world.tables.rows["w1", 1]["state"] == "finished"


async def test_a_failed_pod_ends_its_gang_and_the_rest_is_deleted(world):
    await world.send(bind(nodes=("n1", "n2", "n3")))

    world.cluster.pods.fail_pod("w1-1-1", "OOMKilled")
    await world.advance(0.25)

    assert world.told() == ["PodsRunning", "PodsFinished"]
    assert (world.facts[-1].succeeded, world.facts[-1].reason) == (False, "OOMKilled")
    assert world.pods() == {}


async def test_a_gang_that_lost_a_node_is_finished_only_when_the_rest_has_stopped(slow):
    await slow.send(bind(nodes=("n1", "n2")))
    await slow.advance(1)

    slow.cluster.pods.node_down("n2")
    slow.cluster.tick()
    await slow.settle()
    while_stopping = (slow.told()[-1], len(slow.pods()))
    await slow.advance(0.5)

    assert while_stopping == ("PodsRunning", 1)
    assert slow.told()[-1] == "PodsFinished"
    assert slow.facts[-1].reason == "NodeLost"
    assert slow.pods() == {}


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


async def test_a_command_of_an_old_epoch_is_refused(world):
    await world.send(bind("w1", epoch=5))

    await world.send(bind("w2", epoch=4), evict("w1", epoch=4))
    await world.start()
    await world.send(bind("w3", epoch=4))

    assert set(world.pods()) == {"w1-1-0"}
    assert world.tables.fences == {0: 5}


async def test_a_bind_without_pods_is_a_dead_letter(world):
    await world.send(bind(nodes=()))

    assert [reason for _, reason in world.dead] == ["placement.pods: must not be empty"]


async def test_a_name_taken_by_somebody_else_refuses_the_gang_and_leaves_him_alone(world):
    other = Pod(name="w1-1-1", workload_id="other", attempt=1, rank=0, size=1, epoch=1)
    await world.cluster.apply([Operation(verb="create", name=other.name, pod=other)])

    await world.send(bind(nodes=("n1", "n2")))

    assert world.told() == ["BindRefused"]
    assert world.facts[-1].reason == "NameTaken"
    assert [pod.workload_id for pod in world.pods().values()] == ["other"]


async def test_pods_bound_elsewhere_refuse_the_gang(world):
    row = Pod(name="w1-1-0", workload_id="w1", attempt=1, rank=0, size=1, epoch=1)
    made = (await world.cluster.apply([Operation(verb="create", name=row.name, pod=row)]))[0].pod
    await world.cluster.apply([Operation(verb="bind", name=row.name, uid=made.uid, node="n9")])

    await world.send(bind(nodes=("n1",)))

    assert world.told() == ["BindRefused"]
    assert isinstance(world.facts[-1], BindRefused)
    assert "n9" in world.facts[-1].message
    assert world.pods() == {}


async def test_a_gang_not_bound_in_time_is_refused_whole(world):
    await world.send(bind("w0"))
    world.cluster.dice.faults = Faults(conflict=1.0)
    await world.send(bind(nodes=("n1", "n2")))
    await world.advance(31)
    waiting = world.told()

    world.cluster.dice.faults = Faults()
    await world.advance(1)

    assert waiting in ([], ["BindRefused"])
    assert world.told() == ["BindRefused"]
    assert world.facts[-1].reason == "BindTimeout"
    assert set(world.pods()) == {"w0-1-0"}


async def test_operations_refused_for_now_are_tried_again(world):
    world.cluster.dice.faults = Faults(conflict=0.3, throttled=0.3, broken=0.3)

    await world.send(bind(nodes=("n1", "n2", "n3")))
    await world.advance(20)

    assert world.told()[-1] == "PodsRunning"
    assert len(world.pods()) == 3


async def test_a_lost_reply_is_resolved_by_a_list(world):
    world.cluster.dice.faults = Faults(reply_lost=1.0)
    unit = asyncio.create_task(world.send(bind(nodes=("n1", "n2"))))
    await unit
    world.cluster.dice.faults = Faults()
    await world.relist()

    assert world.told() == ["PodsRunning"]
    assert len({pod.uid for pod in world.pods().values()}) == 2


async def test_a_broken_watch_loses_nothing(world):
    await world.send(bind(seconds=5))

    world.cluster.drop_watches()
    world.clock.ms += 6_000
    await asyncio.sleep(0.01)
    await world.advance(0.25)

    assert world.told() == ["PodsRunning", "PodsFinished"]


async def test_a_kill_before_the_commit_makes_no_pod(world):
    await world.send(bind(), kill="before commit")
    await world.start()

    assert world.pods() == {}
    assert world.tables.rows == {}


async def test_a_kill_after_the_commit_makes_every_pod_once(world):
    await world.send(bind(nodes=("n1", "n2")), kill="after commit")
    nothing_yet = world.pods()

    await world.start()

    assert nothing_yet == {}
    assert world.told() == ["PodsRunning"]
    assert len(world.pods()) == 2


async def test_a_restart_neither_repeats_nor_loses_facts(world):
    await world.send(bind("w1", seconds=5), bind("w2", nodes=("n1", "n2")))

    await world.start()
    await world.advance(5.25)
    await world.start()

    assert world.told("w1") == ["PodsRunning", "PodsFinished"]
    assert world.told("w2") == ["PodsRunning"]


async def test_a_pod_lost_while_the_binder_was_away_ends_its_gang(world):
    await world.send(bind(nodes=("n1", "n2")))
    await world.stop()
    world.cluster.pods.node_down("n1")

    await world.start()

    assert world.told() == ["PodsRunning", "PodsFinished"]
    assert world.facts[-1] == PodsFinished(
        workload_id="w1", attempt=1, at_ms=world.clock.ms, succeeded=False, reason="PodLost",
        message="pod w1-1-0: PodLost",
    )  # fmt: skip
    assert world.pods() == {}


async def test_pods_nobody_wants_are_deleted_after_a_grace(world):
    stray = Pod(name="w9-1-0", workload_id="w9", attempt=1, rank=0, size=1, epoch=1)
    await world.cluster.apply([Operation(verb="create", name=stray.name, pod=stray)])
    await world.advance(14)
    before = set(world.pods())

    await world.advance(3)

    assert before == {"w9-1-0"}
    assert world.pods() == {}


async def test_a_suspended_binder_touches_nothing(world):
    await world.send(bind())
    await world.handler.suspend()

    world.handler._actuator.evict(("w1", 1), 0)
    for _ in range(20):
        await asyncio.sleep(0)

    assert set(world.pods()) == {"w1-1-0"}


async def test_after_standing_still_it_is_quiet_until_the_lease_was_renewed(world, monkeypatch):
    monkeypatch.setattr(pulse, "QUIET_SECONDS", 0.05)
    acting = world.handler._actuator.pulse
    acting.last -= pulse.PAUSE_SECONDS_MAX + 1
    await world.send(bind())
    at_once = world.pods()

    await asyncio.sleep(0.1)
    acting.last += pulse.PAUSE_SECONDS_MAX + 1
    await world.settle()

    assert at_once == {}
    assert set(world.pods()) == {"w1-1-0"}


async def test_an_actuator_that_died_ends_the_service(world, monkeypatch):
    async def broken(operations):
        raise ZeroDivisionError

    monkeypatch.setattr(world.cluster, "apply", broken)
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await world.send(bind())


async def test_the_row_holds_what_is_needed_to_create_the_pods_again(world):
    await world.send(bind(nodes=("n1",)), kill="after commit")

    row = world.tables.rows["w1", 1]

    assert (row["state"], row["size"], row["epoch"]) == ("binding", 1, 1)
    assert stored_pods(row)[0]["node"] == "n1"


async def test_facts_on_their_way_are_dropped_once_an_eviction_is_recorded(world):
    world.cluster.pods.nodes_down.add("n1")
    await world.send(bind(), kill="after commit")
    late = PodsFinished(workload_id="w1", attempt=1, at_ms=world.clock.ms, succeeded=True)

    await world.unit([world.message(evict())], kill="after commit")
    await world.unit([world.message(late)], kill="after commit")
    await world.start()

    assert world.told() == ["PodsGone"]


async def test_after_a_start_nothing_is_told_or_sent_before_the_first_list(world):
    await world.send(bind())
    world.tables.rows["w1", 1] |= {"state": "binding", "evicting": True}
    world.facts.clear()
    list_pods, may_list = world.cluster.list_pods, asyncio.Event()

    async def late_list():
        await may_list.wait()
        return await list_pods()

    world.cluster.list_pods = late_list
    await world.start()
    before = (world.told(), len(world.pods()))
    may_list.set()
    await world.settle()

    assert before == ([], 1)
    assert (world.told(), world.pods()) == (["PodsGone"], {})


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
