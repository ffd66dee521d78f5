"""Nodes that are cordoned, drained or announced to go: nothing new there, and who leaves when."""

from __future__ import annotations

from typing import Any
from unittest.mock import create_autospec

import pytest

from services.placement.nodes import drains
from shared.core.model.lifecycle import State
from shared.events.nodes import (
    CordonNode,
    NodeCordoned,
    NodeNoticeReported,
    NodeRemoved,
    NodeUncordoned,
    UncordonNode,
)
from shared.events.plans import ReservationExpired
from shared.events.pods import EvictPods, PodsGone, PodsRunning
from shared.ports.reader import Reader
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    kinds,
    nominated,
    pod_fact,
    reported,
)
from tests.unit.placement.evicting import a_plan, full_world


def busy(**spec: Any) -> Driver:
    """One node with a workload that runs."""
    driver = Driver()
    driver.send(reported(a_node()), a_quota(), nominated(a_workload(**spec)))
    driver.send(pod_fact(PodsRunning, "w1"))
    return driver


def a_notice(driver: Driver, seconds: int, generation: int = 2) -> NodeNoticeReported:
    gone_at_ms = driver.now_ms + seconds * 1000
    return NodeNoticeReported(node="n1", gone_at_ms=gone_at_ms, generation=generation)


def rows_of_cordons(driver: Driver) -> list[str]:
    """What the last batch did to them."""
    return [one.sql.split()[0] for one in driver.outcome.writes if "cordon" in one.sql]


def test_a_cordoned_node_keeps_what_runs_and_takes_nothing_new():
    driver = busy()

    ops = "key ops (operator)"
    (fact,) = driver.send(CordonNode(node="n1", note="firmware", actor="abcd2345", by=ops))
    driver.send(nominated(a_workload("w2")))

    assert isinstance(fact, NodeCordoned)
    assert (fact.reason, fact.evicted) == ("cordoned", 0)
    assert fact.message == "node n1 is cordoned by key ops (operator): firmware"
    assert fact.note == "firmware"
    assert (State.RUNNING, State.QUEUED) == (driver.state("w1"), driver.state("w2"))


def test_a_drained_node_is_emptied_and_its_work_goes_elsewhere_at_once():
    driver = busy(grace_seconds=40)

    out = driver.send(CordonNode(node="n1", drain=True, note="new fans"))
    assert ["NodeCordoned", "WorkloadEvicted", "EvictPods"] == kinds(out)
    assert ("drained", 40) == (out[1].reason, out[2].grace_seconds)
    assert ("new fans", "node n1 is drained by an operator: new fans") == (
        out[1].note,
        out[1].message,
    )
    driver.send(reported(a_node("n2")))
    (requeued,) = driver.send(pod_fact(PodsGone, "w1"))
    assert (requeued.state, requeued.reason) == (State.QUEUED, "drained")
    driver.send(nominated(a_workload(), number=2))

    assert "n2" == driver.placement().pods[0].node
    assert 0 == driver.record().failures


@pytest.mark.parametrize(("seconds", "grace"), [(120, 30), (10, 10), (0, 1), (-5, 1)])
def test_after_a_spot_notice_no_grace_is_longer_than_the_node_stays(seconds: int, grace: int):
    driver = busy()

    out = driver.send(a_notice(driver, seconds))

    (stop,) = (one for one in out if isinstance(one, EvictPods))
    assert (stop.reason, stop.grace_seconds) == ("spot-notice", grace)


def test_a_notice_that_came_before_the_inventory_was_told_is_not_old():
    driver = busy()

    out = driver.send(a_notice(driver, 60, generation=1))

    assert ["NodeCordoned", "WorkloadEvicted", "EvictPods"] == kinds(out)


def test_old_news_of_a_node_changes_nothing():
    driver = busy()

    assert [] == driver.send(a_notice(driver, 60, generation=0))
    assert [] == driver.send(UncordonNode(node="n1"))
    assert [] == driver.send(UncordonNode(node="n7"))


def test_a_cordon_of_a_machine_that_was_removed_is_not_for_the_next_of_its_name():
    driver = busy()
    driver.send(NodeRemoved(node="n1", generation=2))
    driver.send(pod_fact(PodsGone, "w1"))

    assert [] == driver.send(CordonNode(node="n1", drain=True))

    driver.send(reported(a_node(), 3), nominated(a_workload("w2")))
    assert driver.state("w2") is State.PLACED


@pytest.mark.parametrize(("drain", "reason"), [(False, "cordoned"), (True, "drained")])
def test_a_cordon_that_is_read_before_the_inventory_of_its_node_is_in_force(drain, reason):
    driver = Driver()
    driver.send(a_quota())

    (fact,) = driver.send(CordonNode(node="n1", drain=drain, actor="alice"))
    (row,) = rows_of_cordons(driver)
    driver.send(reported(a_node()), nominated(a_workload()))

    assert (fact.node, fact.reason, fact.evicted) == ("n1", reason, 0)
    assert "INSERT" == row
    assert driver.state() is State.QUEUED
    driver.send(UncordonNode(node="n1"))
    assert driver.state() is State.PLACED


async def test_a_cordon_of_a_node_that_is_yet_to_come_outlives_a_restart():
    driver, again = Driver(), Driver()
    driver.send(CordonNode(node="n1"))
    ((_, bodies),) = (one.arguments for one in driver.outcome.writes if "cordon" in one.sql)
    reader = create_autospec(Reader, instance=True)
    reader.fetch.return_value = [{"body": one} for one in bodies]

    await again.handler.drains.load(reader)

    again.send(a_quota(), reported(a_node()), nominated(a_workload()))
    assert again.state() is State.QUEUED


@pytest.mark.parametrize("end", [UncordonNode(node="n1"), NodeRemoved(node="n1", generation=1)])
def test_a_cordon_of_a_node_that_never_came_ends_as_any_other(end):
    driver = Driver()
    driver.send(CordonNode(node="n1"))

    (fact,) = driver.send(end)

    assert fact == NodeUncordoned(node="n1")
    assert ["DELETE"] == rows_of_cordons(driver)
    driver.send(a_quota(), reported(a_node(), 2), nominated(a_workload()))
    assert driver.state() is State.PLACED


def test_an_old_removal_lifts_no_cordon():
    driver = busy()
    driver.send(CordonNode(node="n1"))

    assert [] == driver.send(NodeRemoved(node="n1", generation=1))

    driver.send(nominated(a_workload("w2")))
    assert driver.state("w2") is State.QUEUED


def test_cordons_of_nodes_that_never_come_are_bounded_and_the_first_is_told_to_be_lifted(
    monkeypatch,
):
    monkeypatch.setattr(drains, "UNMET_MAX", 2)
    driver = busy()
    driver.send(*(CordonNode(node=name) for name in ("n1", "n2", "n3")))

    out = driver.send(CordonNode(node="n4"), CordonNode(node="n4", drain=True))

    assert ["NodeCordoned", "NodeUncordoned", "NodeCordoned"] == kinds(out)
    assert "n2" == out[1].node
    assert ["INSERT", "DELETE"] == rows_of_cordons(driver)


def test_a_new_inventory_does_not_lift_a_cordon_and_an_operator_does():
    driver = busy()
    driver.send(CordonNode(node="n1"))
    driver.send(reported(a_node(), 2), nominated(a_workload("w2")))
    assert driver.state("w2") is State.QUEUED

    (fact, *_) = driver.send(UncordonNode(node="n1"))

    assert isinstance(fact, NodeUncordoned)
    assert driver.state("w2") is State.PLACED


def test_a_machine_that_comes_back_after_its_removal_is_another_machine():
    driver = busy()
    driver.send(a_notice(driver, 60))
    out = driver.send(NodeRemoved(node="n1", generation=3))
    assert isinstance(out[0], NodeUncordoned)
    driver.send(pod_fact(PodsGone, "w1"))

    driver.send(reported(a_node(), 4), nominated(a_workload("w2")))

    assert driver.state("w2") is State.PLACED


def test_room_that_was_kept_on_a_drained_node_is_given_up():
    driver = full_world()
    driver.send(a_plan(driver, "a", "b"))

    out = driver.send(CordonNode(node="n1", drain=True))

    assert ["no-longer-fits"] == [one.reason for one in out if isinstance(one, ReservationExpired)]


def test_the_row_of_a_cordon_comes_and_goes_with_it():
    driver = busy()

    driver.send(CordonNode(node="n1"))
    assert ["INSERT"] == rows_of_cordons(driver)
    driver.send(UncordonNode(node="n1"))
    assert ["DELETE"] == rows_of_cordons(driver)
