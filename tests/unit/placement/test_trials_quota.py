"""Trials within quota: charged along the tree, never exceeded, and waking who waits for it."""

from __future__ import annotations

import pytest

from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest
from shared.events.pods import PodsFinished
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)
from tests.unit.placement.trying import driver_with, fill, free, placed, refusals


def test_quota_is_charged_along_the_tree_and_is_never_exceeded():
    driver = driver_with(a_node(gpus=64))
    driver.send(a_quota("top", gpus=3, kind="cohort"))
    for name in ("a", "b"):
        driver.send(a_quota(name, gpus=0, parent="top", borrowing=2))

    payloads = driver.send(
        *(nominated(a_workload(f"a{n}", queue="a"), order=n) for n in range(3)),
        *(nominated(a_workload(f"b{n}", queue="b"), order=10 + n) for n in range(3)),
    )

    assert ["a0", "a1", "b0"] == placed(payloads)
    assert {("a2", Reason.WAITING_FOR_QUOTA), ("b1", Reason.WAITING_FOR_QUOTA)} <= set(
        refusals(payloads)
    )


def test_no_quota_named_is_no_quota():
    driver = Driver()
    driver.send(reported(a_node()))

    free_of_charge = a_workload("w2", gpu=GpuRequest(), cpu_milli=0, memory_mib=0)

    payloads = driver.send(nominated(a_workload()), nominated(free_of_charge))

    assert [] == placed(payloads)
    assert {"w1", "w2"} == {name for name, _ in refusals(payloads)}


def test_a_lowered_quota_takes_nothing_away_and_gives_nothing_new():
    driver = driver_with(a_node(), quota=8)
    fill(driver, gpus=4)
    driver.send(a_quota(gpus=2, version=2))
    assert State.PLACED is driver.state("full")
    driver.send(nominated(a_workload("w1")))
    assert State.QUEUED is driver.state("w1")

    assert ["w1"] == placed(free(driver))


def test_quota_given_back_helps_a_sister_queue_although_the_node_takes_nothing_new():
    driver = driver_with(a_node("n1"))
    driver.send(a_quota("top", gpus=8, kind="cohort"))
    driver.send(a_quota("a", gpus=0, parent="top"), a_quota("b", gpus=0, parent="top"))
    driver.send(nominated(a_workload("holder", gpus=8, queue="a")))
    driver.send(reported(a_node("n1", cordoned=True), 2), reported(a_node("n2")))
    driver.send(nominated(a_workload("sister", gpus=8, queue="b")))
    assert State.QUEUED is driver.state("sister")

    assert ["sister"] == placed(free(driver, "holder"))


def test_a_flavor_that_its_queue_names_later_helps_who_lacked_nodes_in_the_others():
    driver = driver_with(a_node("n1"), a_node("a1", flavor="a100", product="A100"))
    fill(driver)
    driver.send(nominated(a_workload("w1"), flavors=("h100", "a100")))
    assert State.QUEUED is driver.state("w1")

    assert ["w1"] == placed(driver.send(a_quota(flavors=("h100", "a100"), version=2)))


def test_who_lacked_nodes_first_and_quota_then_is_woken_by_quota():
    driver = driver_with(a_node(gpus=4), quota=8)
    fill(driver, gpus=4)
    driver.send(nominated(a_workload("w1", gpus=4)))
    driver.send(a_quota(gpus=2, version=2), pod_fact(PodsFinished, "full", succeeded=True))
    assert State.QUEUED is driver.state("w1")

    assert ["w1"] == placed(driver.send(a_quota(gpus=4, version=3)))


def test_who_owns_enough_in_a_full_flavor_is_woken_by_quota_in_another():
    driver = driver_with(a_node("a1", flavor="a100", product="A100", gpus=1), a_node(gpus=4))
    both = ("h100", "a100")
    driver.send(a_quota(gpus=2, flavors=both, version=2))
    driver.send(nominated(a_workload("on-a100"), flavors=("a100",)))
    fill(driver, gpus=2)
    driver.send(nominated(a_workload("w1"), flavors=both))
    assert State.QUEUED is driver.state("w1")

    assert ["w1"] == placed(driver.send(a_quota(gpus=3, flavors=both, version=3)))


def test_a_slice_that_its_board_charges_more_for_is_woken_by_quota():
    board = a_node(gpus=1, mig=1, product="NVIDIA-A100-SXM4-40GB")
    driver = driver_with(board, quota=1)
    slices = GpuRequest(mig_profile="1g.10gb", mig_count=1)
    driver.send(nominated(a_workload("share", gpu=GpuRequest(milli=800, memory_mib=1_024))))
    driver.send(nominated(a_workload("slice", gpu=slices)))
    assert State.QUEUED is driver.state("slice")

    assert ["slice"] == placed(driver.send(a_quota(gpus=2, version=2)))


def test_use_is_counted_once_while_the_cohort_of_a_queue_is_not_known_yet():
    driver = driver_with(a_node(gpus=64))
    driver.send(a_quota("a", parent="late"), a_quota("b", parent="late"))
    driver.send(nominated(a_workload("w1", gpus=2, queue="a")))

    driver.send(a_quota("c", parent="other"))  # the tree is counted anew
    driver.send(a_quota("late", gpus=4, kind="cohort"))

    assert ["w2"] == placed(driver.send(nominated(a_workload("w2", gpus=2, queue="b"))))


@pytest.mark.parametrize("version", [4, 5])
def test_a_quota_no_newer_than_the_last_is_ignored(version):
    driver = driver_with(a_node(), quota=1)
    driver.send(a_quota(gpus=1, version=5), a_quota(gpus=100, version=version))

    payloads = driver.send(nominated(a_workload(gpus=2)))

    assert [] == placed(payloads)


def test_when_a_queue_moves_to_another_cohort_its_use_moves_with_it():
    driver = driver_with(a_node(gpus=64))
    driver.send(a_quota("one", gpus=4, kind="cohort"), a_quota("two", gpus=4, kind="cohort"))
    driver.send(a_quota("a", gpus=0, parent="one"), a_quota("b", gpus=0, parent="two"))
    driver.send(nominated(a_workload("in-a", gpus=3, queue="a")))

    driver.send(a_quota("a", gpus=0, parent="two", version=2))
    payloads = driver.send(
        nominated(a_workload("too-much", gpus=2, queue="b"), order=0),
        nominated(a_workload("fits", gpus=1, queue="b"), order=1),
    )

    assert ["fits"] == placed(payloads)
    assert {"two", "a", "b"} == {
        name
        for name, node in driver.handler.state.usage.tree.nodes.items()
        if node.charged("h100")[0]
    }
