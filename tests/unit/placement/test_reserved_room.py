"""What is kept of GPUs that are shared or cut in slices, rows, and gangs that only shrink."""

from __future__ import annotations

from typing import Any

import pytest

from services.placement.handlers import PlacementHandler
from services.placement.state.reservations import SAVE
from services.placement.unit.agreement import held_in_memory
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest
from shared.core.model.value import replace
from shared.events.plans import (
    EvictionPlanAccepted,
    EvictionPlanRefused,
    PlannedVictim,
    ProposeEvictionPlan,
)
from shared.events.pods import PodsFinished, PodsResized, PodsRunning, ResizePods
from shared.events.workloads import (
    WorkloadPlaced,
)
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_workload,
    kinds,
    nominated,
    pod_fact,
    reported,
)
from tests.unit.placement.evicting import a_plan, a_world, ask, full_world, gone, run

SHARE = GpuRequest(milli=600, memory_mib=40_000)
SMALL = GpuRequest(milli=300, memory_mib=10_000)
SLICE = GpuRequest(mig_profile="1g.10gb", mig_count=1)
HALF = GpuRequest(mig_profile="3g.40gb", mig_count=1)


@pytest.mark.parametrize(
    ("running", "wanted", "team"),
    [
        (SHARE, SHARE, "red"),
        (SHARE, SHARE, "blue"),
        (SMALL, SHARE, "blue"),
        (SHARE, GpuRequest(count=1), "red"),
        (GpuRequest(count=1), SHARE, "red"),
    ],
)
def test_shares_of_a_gpu_are_kept_from_all_others(running: Any, wanted: Any, team: str):
    driver = a_world(gpus=1)
    run(driver, "a", gpu=running, team="blue")
    run(driver, "z", gpu=GpuRequest(), team="blue")
    if running is SMALL:
        run(driver, "b", gpu=SHARE, team="blue")
    ask(driver, gpu=wanted, team=team)

    out = driver.send(a_plan(driver, "b" if running is SMALL else "a"))
    assert isinstance(out[0], EvictionPlanAccepted)
    for number in range(3):
        thief = a_workload(f"t{number}", gpu=SMALL, queue="borrower", team="blue")
        driver.send(nominated(thief))
    driver.send(gone("b" if running is SMALL else "a"))

    assert driver.state("p") is State.PLACED


@pytest.mark.parametrize("wanted", [SLICE, HALF])
def test_slices_of_a_gpu_are_kept_from_all_others(wanted: Any):
    driver = a_world(gpus=0, mig=1, quota=1)
    for name in "abcdefg":
        run(driver, name, gpu=SLICE, team="blue")
    ask(driver, gpu=wanted)
    record = driver.record("p")

    for victims in (("a",), ("a", "b", "c", "d"), tuple("abcdefg")):
        (*_, last) = driver.send(a_plan(driver, *victims))
        if not isinstance(last, EvictionPlanRefused):
            break
    assert driver.handler.state.reservations.of("p") is not None
    thief = nominated(a_workload("thief", gpu=SLICE, queue="borrower", team="blue"))
    for victim in victims:
        driver.send(gone(victim), thief)

    assert record.state is State.PLACED


def test_what_memory_holds_beyond_the_ledger_is_what_is_reserved():
    driver = a_world()
    run(driver, "a", gpu=SHARE)
    run(driver, "b", gpus=3)
    before = held_in_memory(driver.handler.state.cluster)
    ask(driver, gpus=8)
    driver.send(a_plan(driver, "a", "b"))
    state = driver.handler.state

    assert before != held_in_memory(state.cluster)
    assert before == held_in_memory(state.cluster, list(state.reservations.pieces()))


def test_a_row_is_written_with_the_plan_and_removed_with_the_placing():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))

    saved = [one for one in driver.outcome.writes if one.sql == SAVE]
    assert [["p"]] == [one.arguments[0] for one in saved]
    driver.send(gone("a"))
    assert not any("reservation" in one.sql for one in driver.outcome.writes)
    driver.send(gone("b"))

    deleted = [one for one in driver.outcome.writes if "DELETE FROM placement.res" in one.sql]
    assert [(["p"],)] == [one.arguments for one in deleted]


def test_the_same_history_gives_the_same_bytes():
    def tell() -> list[bytes]:
        driver = full_world()
        driver.send(a_plan(driver, "a", "b"))
        driver.send(gone("b"), gone("a"))
        return [row.value for unit in driver.units for row in unit.outbox]

    assert tell() == tell()
    assert isinstance(full_world().handler, PlacementHandler)


def test_a_workload_is_placed_only_once_when_victims_go_in_one_batch():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))

    out = driver.send(gone("a"), gone("b"))

    assert 1 == sum(isinstance(one, WorkloadPlaced) for one in out)


def an_elastic_world() -> Driver:
    """A gang of four pods with two GPUs each, of which it needs one; `p` wants four GPUs."""
    driver = a_world()
    gang = a_workload("a", gpus=2, pod_count=4, queue="borrower", team="blue")
    pod_set = replace(gang.spec.pod_sets[0], min_count=1)
    driver.send(nominated(replace(gang, spec=replace(gang.spec, pod_sets=(pod_set,)))))
    driver.send(pod_fact(PodsRunning, "a"))
    ask(driver, gpus=4)
    return driver


def keeping(driver: Driver, pods_kept: int) -> ProposeEvictionPlan:
    """The plan that lets the gang go on with so many pods."""
    version = driver.record("a").version
    victim = PlannedVictim(workload_id="a", version=version, attempt=1, pods_kept=pods_kept)
    return a_plan(driver, victims=(victim,))


def test_an_elastic_gang_gives_up_its_surplus_and_runs_on():
    driver = an_elastic_world()

    out = driver.send(keeping(driver, 2))
    assert ["EvictionPlanAccepted", "ResizePods"] == kinds(out)
    driver.send(nominated(a_workload("thief", gpus=1, queue="borrower", team="blue")))
    out = driver.send(pod_fact(PodsResized, "a", number=1, pods=2))

    assert ["WorkloadResized", "WorkloadPlaced", "BindWorkload"] == kinds(out)[:3]
    assert (State.RUNNING, State.PLACED) == (driver.state("a"), driver.state("p"))
    assert out[0].reason == "preempted"
    assert driver.state("thief") is State.QUEUED


def test_a_gang_that_ends_while_it_shrinks_leaves_its_room_too():
    driver = an_elastic_world()
    driver.send(keeping(driver, 2))

    driver.send(pod_fact(PodsFinished, "a", succeeded=True))

    assert driver.state("p") is State.PLACED


@pytest.mark.parametrize(("kept", "reason"), [(3, "no-longer-fits"), (4, "victim-changed")])
def test_a_gang_gives_up_enough_and_what_it_can(kept: int, reason: str):
    driver = an_elastic_world()

    (refused,) = driver.send(keeping(driver, kept))

    assert refused.reason == reason
    assert driver.state("a") is State.RUNNING


def two_that_make_room(kept: int) -> Driver:
    """Of gang `a`, one GPU for each of four pods, `kept` stay; `b` stops; there is a second node.

    `p` waits for all of what they leave, `b` takes 300 s.
    """
    driver = a_world(quota=16)
    run(driver, "a", team="blue", gpus=1, pod_count=4, min_count=2)
    run(driver, "b", gpus=4, team="blue", grace_seconds=300)
    ask(driver, gpus=8 - kept)
    victims = (
        PlannedVictim(
            workload_id=name, version=driver.record(name).version, attempt=1, pods_kept=pods_kept
        )
        for name, pods_kept in (("a", kept), ("b", 0))
    )
    driver.send(a_plan(driver, victims=tuple(victims)))
    driver.send(reported(a_node("n2", gpus=2)))
    return driver


def test_who_made_room_does_not_grow_elsewhere_while_that_room_is_waited_for():
    driver = two_that_make_room(kept=2)
    driver.send(pod_fact(PodsResized, "a", number=1, pods=2))
    assert [] == [*driver.wait(61), *driver.wait(1)]

    out = driver.send(gone("b"))

    assert driver.state("p") is State.PLACED
    assert ["a"] == [one.workload_id for one in out if isinstance(one, ResizePods)]


def test_who_made_room_as_a_whole_and_came_back_elsewhere_grows_as_any_other():
    driver = two_that_make_room(kept=0)
    gang = a_workload("a", queue="borrower", team="blue", gpus=1, pod_count=4, min_count=2)
    driver.send(gone("a"))
    driver.send(nominated(gang, number=2))
    driver.send(pod_fact(PodsRunning, "a", attempt=2))
    assert 2 == len(driver.placement("a").pods)

    out = driver.send(reported(a_node("n2", gpus=3), 2))

    assert [3] == [len(one.placement.pods) for one in out if isinstance(one, ResizePods)]
    driver.send(gone("b"))
    assert driver.state("p") is State.PLACED
