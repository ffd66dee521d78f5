"""Kills, restarts, lost replies and a lost lease: no pod twice, no fact lost."""

import asyncio

import pytest

from services.binder import pulse, watcher
from shared.core.nodes.pod_failures import FailureCause
from shared.events.pods import PodsFinished
from shared.ports.cluster import Pod, PodOperation
from shared.simulator.faults import Faults
from tests.unit.binder.world import bind, stored_pods


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


async def test_all_is_listed_again_after_a_while_though_the_watch_goes_on(world, monkeypatch):
    monkeypatch.setattr(watcher, "RELIST_SECONDS", (0.01, 0.02))
    await world.relist()
    before = world.handler._actuator.watcher.round

    await asyncio.sleep(0.1)

    assert world.handler._actuator.watcher.round >= before + 3


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
        message="pod w1-1-0: PodLost", lost=True, cause=FailureCause.TAKEN_AWAY,
    )  # fmt: skip
    assert world.pods() == {}


async def test_pods_nobody_wants_are_deleted_after_a_grace(world):
    stray = Pod(name="w9-1-0", workload_id="w9", attempt=1, rank=0, size=1, epoch=1)
    await world.cluster.apply([PodOperation(verb="create", name=stray.name, pod=stray)])
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
