"""The owner of an elastic gang asks for a size: while it runs, waits, starts or changes."""

from __future__ import annotations

import msgspec
import pytest

from services.placement.state.records import Resize
from services.placement.state.workload_rows import workload_writes
from shared.events.pods import PodsFinished, PodsGone, PodsResized, PodsRunning, ResizePods
from shared.events.workloads import (
    RequestEviction,
    ResizeWorkload,
    WorkloadPlaced,
    WorkloadResized,
)
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    command,
    kinds,
    nominated,
    pod_fact,
    queued,
    reported,
)
from tests.unit.placement.world import a_gang_below_its_size

RUNNING = pod_fact(PodsRunning, "w1")


def want(pods):
    return command(ResizeWorkload, "w1", pods=pods)


def resized(number, pods):
    return pod_fact(PodsResized, "w1", number=number, pods=pods)


def only(kind, payloads):
    """The one payload of `kind`."""
    (found,) = [one for one in payloads if isinstance(one, kind)]
    return found


def a_cell(**quota):
    driver = Driver()
    driver.send(reported(a_node()), a_quota(**quota))
    return driver


def running():
    """w1 runs with all of its eight pods."""
    driver = a_cell()
    driver.send(nominated(a_workload("w1", pod_count=8, min_count=2)))
    driver.send(RUNNING)
    assert 8 == len(driver.placement().pods)
    return driver


def test_a_gang_that_runs_gives_up_its_highest_ranks_and_stays_so():
    driver = running()

    asked = only(ResizePods, driver.send(want(5)))
    fact = only(WorkloadResized, driver.send(resized(1, 5)))

    assert 5 == len(asked.placement.pods)
    assert ([0, 1, 2, 3, 4], "resized") == ([one.rank for one in fact.placement.pods], fact.reason)
    assert fact.message == "5 of 5 pods: its owner asked for this size"
    assert 5_000 == driver.handler.state.cluster.gpu_milli_used()
    assert [] == driver.wait(600)


def test_it_grows_again_at_once_when_its_owner_asks():
    driver = running()
    driver.send(want(2))
    driver.send(resized(1, 2))

    asked = only(ResizePods, driver.send(want(7)))

    assert 7 == len(asked.placement.pods)
    driver.send(resized(2, 7))
    assert [] == driver.wait(600)
    assert 8 == len(only(ResizePods, driver.send(want(8))).placement.pods)


def test_what_finds_no_room_grows_when_there_is_some():
    driver = a_gang_below_its_size()
    assert [] == driver.send(want(6))

    asked = only(ResizePods, driver.send(pod_fact(PodsFinished, "full", succeeded=True)))

    assert 6 == len(asked.placement.pods)


def test_the_same_size_again_changes_nothing():
    driver = running()

    assert [] == driver.send(want(8))
    only(ResizePods, driver.send(want(5)))
    driver.send(resized(1, 5))
    assert [] == driver.send(want(5))


@pytest.mark.parametrize("pods", [0, 1, 9])
def test_a_size_that_it_cannot_have_changes_nothing(pods):
    driver = running()

    assert [] == driver.send(want(pods))
    assert 8 == driver.record().size


def test_another_wish_while_a_resize_is_open_comes_next():
    driver = running()
    driver.send(want(5))

    assert [] == driver.send(want(3))
    asked = only(ResizePods, driver.send(resized(1, 5)))

    assert (2, 3) == (asked.number, len(asked.placement.pods))


def test_one_that_waits_is_placed_with_the_size_that_was_asked_for():
    driver = a_cell()
    workload = a_workload("w1", pod_count=8, min_count=2)

    driver.send(queued(workload), want(3))
    placed = only(WorkloadPlaced, driver.send(nominated(workload)))

    assert 3 == len(placed.placement.pods)
    assert ["WorkloadRunning"] == kinds(driver.send(RUNNING))


def test_one_that_starts_is_made_smaller_when_it_runs():
    driver = a_cell()
    driver.send(nominated(a_workload("w1", pod_count=8, min_count=2)))

    assert [] == driver.send(want(4))
    asked = only(ResizePods, driver.send(RUNNING))

    assert 4 == len(asked.placement.pods)


def test_the_size_holds_for_the_next_attempt():
    driver = running()
    driver.send(want(4), resized(1, 4))
    driver.send(command(RequestEviction, "w1"), pod_fact(PodsGone, "w1"))

    again = nominated(a_workload("w1", pod_count=8, min_count=2), number=2)
    placed = only(WorkloadPlaced, driver.send(again))

    assert (2, 4) == (placed.attempt, len(placed.placement.pods))
    assert (0, 4) == (driver.record().resize.changes, driver.record().resize.wanted)


def test_the_wish_is_written_with_the_first_row():
    driver = a_cell()
    driver.send(queued(a_workload("w1", pod_count=8, min_count=2)))
    record = driver.record()
    record.resize, record.stored_version = Resize(wanted=4), -1

    (insert,) = workload_writes([record], 0)

    assert msgspec.json.decode(insert.arguments[-5][0], type=Resize) == Resize(wanted=4)
