"""Who is tried again when nodes or quota come free, and who rests on."""

from __future__ import annotations

import pytest

from services.placement import trials
from shared.events.nodes import GpuHealthReported
from shared.events.pods import PodsRunning
from shared.events.workloads import CancelWorkload
from tests.support.placement_driver import (
    a_node,
    a_quota,
    a_workload,
    command,
    nominated,
    pod_fact,
)
from tests.unit.placement.trying import driver_with, fill, free, placed, refusals


def test_a_freed_node_wakes_only_the_classes_that_it_can_help(tried):
    driver = driver_with(a_node("n1"), a_node("a1", flavor="a100", product="A100"))
    driver.send(a_quota("other", flavors=("h100", "a100")), a_quota("third"))
    fill(driver)
    other = a_workload("on-a100", gpus=8, queue="other")
    driver.send(nominated(other, flavors=("a100",)))
    driver.send(
        nominated(a_workload("more-a100", queue="other"), flavors=("a100",)),
        nominated(a_workload("h100", queue="third")),
    )
    tried.clear()

    driver.send(GpuHealthReported(node="n1", gpu=0, healthy=True, generation=2))
    assert [] == tried
    free(driver)

    assert ["h100"] == tried


def test_freed_quota_wakes_the_queues_below_it_and_no_others(tried):
    driver = driver_with(a_node("n1", gpus=64))
    driver.send(
        a_quota("top", gpus=2, kind="cohort"),
        a_quota("a", gpus=0, parent="top"),
        a_quota("b", gpus=0, parent="top"),
        a_quota("c", gpus=0),
    )
    driver.send(nominated(a_workload("holder", gpus=2, queue="a")))
    driver.send(
        nominated(a_workload("sister", queue="b")), nominated(a_workload("stranger", queue="c"))
    )
    tried.clear()

    payloads = driver.send(a_quota("top", gpus=3, kind="cohort", version=2))

    assert ["sister"] == tried == placed(payloads)


@pytest.mark.parametrize(
    ("quota", "later_hours", "expected"), [(100, 0, []), (10, 0, ["wide"]), (100, 49, ["wide"])]
)
def test_freed_quota_wakes_who_lacks_it_or_may_use_more_nodes_by_now(
    tried, quota, later_hours, expected
):
    driver = driver_with(a_node("n1"), a_node("n2", gpus=2), quota=quota)
    fill(driver)
    fill(driver, gpus=2, name="small")
    wide = a_workload("wide", gpus=8, expected_duration_seconds=200_000)
    driver.send(nominated(wide))
    tried.clear()
    driver.now_ms += later_hours * 3_600_000

    free(driver, "small")

    assert expected == tried


def test_who_would_hear_again_that_quota_is_short_is_not_tried(tried):
    driver = driver_with(a_node(gpus=16), quota=8)
    fill(driver, gpus=7)
    fill(driver, gpus=1, name="small")
    driver.send(nominated(a_workload("wide", gpus=8)))
    tried.clear()

    free(driver, "small")
    assert [] == tried

    assert ["wide"] == placed(free(driver)) == tried


def test_nothing_is_tried_when_nothing_became_free(tried):
    driver = driver_with(a_node())
    fill(driver)
    driver.send(nominated(a_workload("w1")))
    tried.clear()

    driver.send(pod_fact(PodsRunning, "full"), nominated(a_workload("w2", gpus=2), order=1))

    assert ["w2"] == tried


@pytest.fixture
def crowded():
    """A node with 7, 2 and 1 GPUs taken; three classes wait, of one GPU each."""
    driver = driver_with(a_node(gpus=10))
    for name, gpus in (("full", 7), ("two", 2), ("one", 1)):
        fill(driver, gpus, name)
    for order, name in enumerate(("a", "b", "c")):
        driver.send(nominated(a_workload(name, cpu_milli=1_000 + order), order=order))
    return driver


def test_what_others_took_is_not_searched_by_those_behind_them(crowded, tried):
    payloads = free(crowded, "one")

    assert ["a"] == placed(payloads) == tried
    assert [] == refusals(payloads)
    assert ["b", "c"] == placed(free(crowded)) == tried[1:]


def test_what_the_first_leaves_is_for_those_behind_him(crowded, tried):
    assert ["a", "b"] == placed(free(crowded, "two")) == tried


def test_what_came_free_is_remembered_until_all_whom_it_woke_were_tried(
    crowded, tried, monkeypatch
):
    monkeypatch.setattr(trials, "PLACED_MAX", 1)

    assert ["a"] == placed(free(crowded, "two"))
    assert ["b"] == placed(crowded.due())
    assert [] == placed(crowded.due())
    assert ["a", "b"] == tried


def test_the_next_of_a_strict_queue_is_not_refused_for_what_the_first_lacked():
    driver = driver_with(a_node(gpus=4))
    driver.send(nominated(a_workload("wide", gpus=8), strict=True))
    driver.send(nominated(a_workload("small"), strict=True, order=1))

    assert ["small"] == placed(driver.send(command(CancelWorkload, "wide")))
