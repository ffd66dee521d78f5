"""Who waits behind a preemptor: room that is freed for one is counted on by those who follow."""

from __future__ import annotations

from typing import Any

import pytest

from services.preemption.preemptor_classes import REST_MS, REST_MS_MAX, PreemptorClasses
from shared.core.model.lifecycle import State
from shared.core.model.nouns import Level, TopologyRequest
from shared.core.model.value import replace as changed
from shared.core.quota.queue_policy import QueuePolicy
from shared.events.plans import EvictionPlanAccepted
from shared.events.pods import PodsFinished, PodsGone, PodsResized, PodsRunning
from shared.events.quotas import NominationWithdrawn
from shared.events.workloads import (
    CancelWorkload,
    PlacementRefused,
    ReprioritiseWorkload,
    WorkloadResized,
)
from tests.support.placement_driver import a_workload, command, kinds, nominated, pod_fact
from tests.unit.preemption.world import Cell

NEAR = TopologyRequest(required=Level.RACK)
SINGLES = [f"s{number}" for number in range(16)]


def a_cell(**fields: object) -> Cell:
    """An owner of 16 GPUs, whose room is held by a borrower."""
    cell = Cell(nodes=2)
    cell.queue("owner", 16, **fields)
    cell.queue("borrower", 0)
    return cell


def elastic(cell: Cell, *, pod_count: int = 8, min_count: int = 2, gpus: int = 2) -> None:
    gang = a_workload(
        "e", gpus=gpus, pod_count=pod_count, min_count=min_count, queue="borrower", team="blue"
    )
    cell.both(nominated(gang))
    cell.send(pod_fact(PodsRunning, "e", cell.driver.record("e").attempt))


def ask_all(cell: Cell, names: list[str], gpus: int = 1) -> None:
    for order, name in enumerate(names):
        cell.ask(name, "owner", gpus=gpus, order=order)


def shrink(cell: Cell, number: int, pods: int) -> list[object]:
    return cell.send(pod_fact(PodsResized, "e", number=number, pods=pods))


def test_an_elastic_gang_is_asked_once_for_all_equals_that_wait():
    cell = a_cell()
    elastic(cell)
    ask_all(cell, SINGLES[:7])

    out = cell.turn(1)

    (plan,) = cell.plans
    assert (4, 6) == (plan.victims[0].pods_kept, plan.followers)
    (accepted,) = (one for one in out if isinstance(one, EvictionPlanAccepted))
    assert 6 == accepted.followers
    out = shrink(cell, 1, 4)
    (resized,) = (one for one in out if isinstance(one, WorkloadResized))
    assert "for workload s0 and 6 more of team red (queue owner, rule reclaim)" in resized.message
    assert {State.PLACED} == {cell.driver.state(name) for name in SINGLES[:7]}
    assert ({}, {}) == (cell.handler.memory.flights, cell.handler.memory.followers)


@pytest.mark.parametrize(
    ("waiting", "kept", "followers"),
    [
        pytest.param(12, 2, 11, id="its surplus suffices"),
        pytest.param(16, 0, 12, id="it goes whole for the next, at once and not a grace later"),
    ],
)
def test_a_gang_gives_up_its_surplus_and_goes_whole_where_that_is_too_little(
    waiting: int, kept: int, followers: int
):
    cell = Cell(nodes=3)
    cell.queue("owner", 24)
    cell.queue("borrower", 0)
    elastic(cell)
    cell.run("dearer", "borrower", gpus=8, team="blue")
    ask_all(cell, SINGLES[:waiting])
    began = began_ms(cell)

    cell.turn(1)

    (plan,) = cell.plans
    (victim,) = plan.victims
    assert ("e", kept, followers) == (victim.workload_id, victim.pods_kept, plan.followers)
    assert victim.lost_gpu_ms == (8 - kept) * 2 * (cell.driver.now_ms - began)
    if kept:
        shrink(cell, 1, kept)
    else:
        cell.send(pod_fact(PodsGone, "e", cell.driver.record("e").attempt))
    assert {State.PLACED} == {cell.driver.state(name) for name in SINGLES[:waiting]}


def test_a_crowd_for_which_somebody_would_have_to_go_whole_is_made_smaller():
    """Each node holds a pod of five GPUs and a dear one of three."""
    cell = Cell(nodes=4)
    cell.queue("owner", 32)
    cell.queue("borrower", 0)
    elastic(cell, pod_count=4, min_count=1, gpus=5)
    for number in range(4):
        cell.run(f"dear{number}", "borrower", gpus=3, team="blue", priority=1_000_000)
    ask_all(cell, SINGLES[:5], gpus=3)

    cell.turn(1)

    first = cell.plans[0]
    assert ("s0", ["e"], 3) == (
        first.workload_id, [one.workload_id for one in first.victims], first.followers
    ), "two at once, and two join them, for the last of whom it goes whole"  # fmt: skip
    assert ["dear0"] == [one.victims[0].workload_id for one in cell.plans[1:]]


@pytest.mark.parametrize("pods", [2, 3])
def test_gangs_that_wait_are_a_crowd_too(pods: int):
    cell = a_cell()
    elastic(cell, pod_count=16, min_count=4, gpus=1)
    for order, name in enumerate(("p", "q")):
        cell.both(nominated(a_workload(name, pod_count=pods, queue="owner"), order=order))

    cell.turn(1)

    (plan,) = cell.plans
    assert (16 - 2 * pods, 1) == (plan.victims[0].pods_kept, plan.followers)
    assert pods == len(cell.handler.memory.followers["q"].pods)


def test_who_must_lie_near_together_is_looked_for_by_itself():
    cell = a_cell()
    elastic(cell)
    for order, name in enumerate("pq"):
        gang = a_workload(name, pod_count=2, queue="owner", topology=NEAR)
        cell.both(nominated(gang, order=order))

    cell.turn(1)

    (plan,) = cell.plans
    assert (6, 1) == (plan.victims[0].pods_kept, plan.followers), "it joins, in its own place"
    assert 1 == len({pod.node for pod in cell.handler.memory.followers["q"].pods})


def test_who_has_not_waited_for_the_delay_of_its_queue_does_not_follow():
    delayed = QueuePolicy(min_runtime_seconds=0, cooldown_seconds=0, preemption_delay_seconds=30)
    cell = a_cell(policy=delayed)
    elastic(cell)
    ask_all(cell, ["s0"])
    late = a_workload("s1", queue="owner")
    cell.driver.now_ms += 20_000
    cell.both(nominated(changed(late, submitted_at_ms=cell.driver.now_ms), order=1))

    cell.turn(11)

    assert [("s0", 0)] == [(one.workload_id, one.followers) for one in cell.plans]


def test_all_who_are_owed_are_looked_for_at_once_beside_what_is_being_freed():
    cell = a_cell()
    cell.run("a", "borrower", gpus=8, team="blue")
    cell.run("b", "borrower", gpus=8, team="blue")
    ask_all(cell, SINGLES)

    cell.turn(1)

    assert [State.EVICTING] * 2 == cell.states("ab")
    assert 14 == len(cell.handler.memory.followers)
    cell.leave("a", "b")
    assert {State.PLACED} == {cell.driver.state(name) for name in SINGLES}
    assert {} == cell.handler.memory.followers


def test_the_room_of_a_follower_whose_nomination_is_withdrawn_is_the_next_ones():
    cell = a_cell()
    cell.run("a", "borrower", gpus=8, team="blue")
    cell.run("b", "borrower", gpus=8, team="blue")
    ask_all(cell, SINGLES[:8])
    cell.turn(1)
    world = cell.handler.world
    world.refresh()
    assert 16_000 == world.cluster.gpu_milli_used()

    cell.hear(NominationWithdrawn(workload_id="s3", nomination=1))

    world.refresh()
    assert 15_000 == world.cluster.gpu_milli_used()


def test_a_follower_that_hears_of_another_refusal_still_follows():
    cell = a_cell()
    cell.run("a", "borrower", gpus=8, team="blue")
    cell.run("b", "borrower", gpus=8, team="blue")
    ask_all(cell, SINGLES[:2])
    cell.turn(1)

    cell.hear(*(one for one in cell.said if isinstance(one, PlacementRefused)))

    assert "s1" not in cell.handler.planner.lines


def test_who_followed_a_plan_that_failed_is_looked_for_again():
    cell = a_cell()
    cell.run("a", "borrower", gpus=8, team="blue")
    cell.run("b", "borrower", gpus=8, team="blue")
    ask_all(cell, SINGLES[:2])
    cell.turn(1)
    assert ["s1"] == list(cell.handler.memory.followers)

    cell.turn(100)

    assert {} == cell.handler.memory.followers
    assert {"s0", "s1"} == {one for one in SINGLES if one in cell.handler.planner.lines}


def test_a_follower_that_is_cancelled_gives_its_room_to_the_next():
    cell = a_cell()
    cell.run("a", "borrower", gpus=8, team="blue")
    cell.run("b", "borrower", gpus=8, team="blue")
    ask_all(cell, SINGLES[:8])
    cell.turn(1)
    cell.send(command(CancelWorkload, "s3"))
    ask_all(cell, ["s9"])

    cell.turn(1)

    assert "s9" in cell.handler.memory.followers
    assert [State.EVICTING, State.RUNNING] == sorted(cell.states("ab"))


async def test_a_restart_finds_those_who_follow_again():
    cell = a_cell()
    cell.run("a", "borrower", gpus=8, team="blue")
    cell.run("b", "borrower", gpus=8, team="blue")
    ask_all(cell, SINGLES[:8])
    cell.turn(1)
    known = set(cell.handler.memory.followers)

    await cell.reload()
    assert {} == cell.handler.memory.followers
    cell.turn(1)

    assert known == set(cell.handler.memory.followers)
    assert 1 == len(cell.plans)


def a_gang_asked_by_two_queues(**more: Any) -> Cell:
    """Its two pods that may go would do for both, but it is asked for one at a time."""
    cell = Cell(nodes=2)
    cell.queue("owner", 8)
    cell.queue("other", 8)
    cell.queue("borrower", 0)
    elastic(cell, pod_count=4, min_count=2, gpus=4)
    cell.ask("p", "owner", gpus=4)
    cell.ask("q", "other", gpus=4, order=1, **more)
    return cell


def test_of_two_queues_each_gets_a_plan_of_its_own_once_the_pods_of_the_first_are_gone():
    cell = a_gang_asked_by_two_queues()
    cell.turn(1)
    for _ in range(6):
        cell.turn(8)
    assert ["p"] == [one.workload_id for one in cell.plans]
    shrink(cell, 1, 3)

    cell.turn(0)

    assert ["p", "q"] == [one.workload_id for one in cell.plans]
    assert [3, 2] == [one.victims[0].pods_kept for one in cell.plans]


def test_what_joins_a_plan_is_told_with_it():
    cell = a_cell()
    elastic(cell)
    ask_all(cell, ["s0"])
    cell.ask("t0", "owner", gpus=4, order=1)

    out = cell.turn(1)

    (plan,) = cell.plans
    assert (5, 1) == (plan.victims[0].pods_kept, plan.followers)
    (flight,) = cell.handler.memory.flights.values()
    assert {"e": 5} == flight.victims
    assert plan.victims[0].lost_gpu_ms == 6 * (cell.driver.now_ms - began_ms(cell))
    (accepted,) = (one for one in out if isinstance(one, EvictionPlanAccepted))
    assert plan.victims == accepted.victims
    shrink(cell, 1, 5)
    assert {State.PLACED} == {cell.driver.state(name) for name in ("s0", "t0")}


def began_ms(cell: Cell) -> int:
    return cell.handler.memory.stands["e"].running_at_ms


def brief_work_ran(cell: Cell) -> None:
    """Nodes are kept for brief work only where such work began of late."""
    cell.run("brief", "owner", expected_duration_seconds=600)
    cell.driver.wait(600)
    cell.send(pod_fact(PodsFinished, "brief", succeeded=True))
    assert cell.driver.state("brief") is State.SUCCEEDED


def test_who_might_evict_others_goes_on_nodes_that_are_kept_for_brief_work_instead():
    cell = Cell(gpus=1, nodes=256)
    cell.queue("owner", 256)
    cell.queue("borrower", 0)
    brief_work_ran(cell)
    cell.run("g", "borrower", pod_count=254, team="blue", expected_duration_seconds=200_000)
    cell.ask("p", "owner", expected_duration_seconds=90_000)

    assert [] == cell.turn(1), "perhaps it is being placed"
    out = [one for _ in range(3) for one in cell.turn(1)]

    assert kinds(out)[:3] == ["EvictionPlanAccepted", "WorkloadPlaced", "BindWorkload"]
    assert [("room", ())] == [(one.rule, one.victims) for one in cell.plans]
    assert [State.RUNNING, State.PLACED] == cell.states("gp")


def test_who_may_not_evict_waits_beside_nodes_that_are_kept_for_brief_work():
    cell = Cell(gpus=1, nodes=256)
    cell.queue("owner", 256)
    brief_work_ran(cell)
    cell.run("g", "owner", pod_count=254, expected_duration_seconds=200_000)
    cell.ask("p", "owner", expected_duration_seconds=90_000)

    assert [] == [one for _ in range(9) for one in cell.turn(1)]


def test_a_class_of_which_one_gets_room_rests_anew_from_the_shortest_time():
    lines = PreemptorClasses()
    for number in range(3):
        lines.add(f"w{number}", "class", (number,))
    for _ in range(5):
        lines.rest("w0", 0)

    lines.remove("w0")
    lines.rest("w1", 0)
    assert REST_MS_MAX == lines.due_ms(), "a plan may be refused"
    lines.wake("class")
    assert "w1" == lines.first(0)
    lines.rest("w1", 0)

    assert REST_MS == lines.due_ms()


GRACE_SECONDS = 30


@pytest.mark.parametrize("gangs", [1, 6])
def test_a_crowd_that_is_owed_has_its_room_when_the_grace_of_the_victims_is_over(gangs: int):
    """One elastic gang of 24 nodes, or six gangs of four: each pod that must go has its grace."""
    cell = Cell(nodes=24)
    cell.queue("owner", 192)
    cell.queue("borrower", 0)
    names, pods = [f"g{number}" for number in range(gangs)], 24 // gangs
    for name in names:
        least = 4 if gangs == 1 else None
        cell.run(name, "borrower", gpus=8, pod_count=pods, min_count=least, team="blue")
    crowd = [f"s{number}" for number in range(150)]
    for order, name in enumerate(crowd):
        cell.ask(name, "owner", order=order)
    since_ms, leave_at_ms = cell.driver.now_ms, dict.fromkeys(names, 0)

    while any(cell.driver.state(name) is State.QUEUED for name in crowd):
        cell.turn(0.5)
        assert cell.driver.now_ms < since_ms + (GRACE_SECONDS + 3) * 1000
        for name in names:
            record = cell.driver.record(name)
            if record.resize.open or record.state is State.EVICTING:
                due_ms = leave_at_ms[name] or cell.driver.now_ms + GRACE_SECONDS * 1000
                leave_at_ms[name] = due_ms
                if due_ms <= cell.driver.now_ms:
                    go(cell, name)

    assert len(cell.plans) <= gangs


def go(cell: Cell, name: str) -> None:
    """Its pods that are to stop are gone."""
    record = cell.driver.record(name)
    if record.state is State.EVICTING:
        cell.leave(name)
    else:
        number, pods = record.resize.number, record.resize.pods
        cell.send(pod_fact(PodsResized, name, number=number, pods=pods))


def test_a_follower_of_another_class_is_looked_at_again_and_follows():
    cell = a_cell()
    cell.run("a", "borrower", gpus=8, team="blue")
    cell.run("b", "borrower", gpus=8, team="blue")
    for priority, name in ((2, "p"), (1, "q")):
        cell.ask(name, "owner", gpus=2, priority=priority, order=-priority)
    cell.turn(1)
    assert ["q"] == list(cell.handler.memory.followers)

    cell.send(command(ReprioritiseWorkload, "q", priority_class="other", priority=1))
    assert "q" in cell.handler.planner.lines
    cell.turn(1)

    assert ["q"] == list(cell.handler.memory.followers)
