"""A queue that is held or drained: what starts, what is evicted, and what goes on afterwards."""

from services.placement.workloads import queue_drains
from shared.core.model.lifecycle import State
from shared.events.pods import EvictPods, PodsFinished, PodsGone, PodsRunning
from shared.events.workloads import WorkloadEvicted
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)


def a_driver(count: int = 3) -> Driver:
    """So many workloads of the queue run, and one of another."""
    driver = Driver()
    driver.send(reported(a_node()), a_quota(), a_quota("other"))
    for number in range(count):
        driver.send(nominated(a_workload(f"w{number}"), order=number))
        driver.send(pod_fact(PodsRunning, f"w{number}"))
    driver.send(nominated(a_workload("stranger", queue="other")))
    driver.send(pod_fact(PodsRunning, "stranger"))
    return driver


def evicted(payloads) -> list[str]:
    return [one.workload_id for one in payloads if isinstance(one, WorkloadEvicted)]


def test_a_draining_queue_evicts_what_runs_of_it_and_nothing_else():
    driver = a_driver()

    payloads = driver.send(a_quota(version=2, draining=True))

    assert ["w0", "w1", "w2"] == evicted(payloads)
    facts = [one for one in payloads if isinstance(one, WorkloadEvicted)]
    assert {("drained", "queue q is drained")} == {(one.reason, one.message) for one in facts}
    assert ["drained"] * 3 == [one.reason for one in payloads if isinstance(one, EvictPods)]
    assert State.RUNNING is driver.state("stranger")


def test_what_was_evicted_waits_in_its_queue_until_that_is_opened():
    driver = a_driver(1)
    driver.send(a_quota(version=2, draining=True))
    driver.send(pod_fact(PodsGone, "w0"))
    assert State.QUEUED is driver.state("w0")

    driver.send(nominated(a_workload("w0"), number=2))
    assert State.QUEUED is driver.state("w0")
    driver.send(a_quota(version=3))

    assert State.PLACED is driver.state("w0")


def test_a_held_queue_starts_nothing_and_keeps_what_runs():
    driver = a_driver(1)

    driver.send(a_quota(version=2, held=True))
    driver.send(nominated(a_workload("late")))

    assert (State.RUNNING, State.QUEUED) == (driver.state("w0"), driver.state("late"))


def test_a_long_queue_is_drained_in_bounded_units(monkeypatch):
    monkeypatch.setattr(queue_drains, "EVICTED_MAX", 2)
    driver = a_driver(5)

    first = driver.send(a_quota(version=2, draining=True))
    assert 0 == driver.handler.next_due_ms()
    second, third = driver.due(), driver.due()

    assert [["w0", "w1"], ["w2", "w3"], ["w4"]] == [evicted(one) for one in (first, second, third)]
    assert [] == driver.due()


def test_a_drain_ends_when_the_document_says_so(monkeypatch):
    monkeypatch.setattr(queue_drains, "EVICTED_MAX", 2)
    driver = a_driver(5)
    driver.send(a_quota(version=2, draining=True))

    driver.send(a_quota(version=3))

    assert [] == evicted(driver.due())
    assert State.RUNNING is driver.state("w4")


def test_what_ended_by_itself_is_not_evicted(monkeypatch):
    monkeypatch.setattr(queue_drains, "EVICTED_MAX", 1)
    driver = a_driver(2)
    driver.send(a_quota(version=2, draining=True))

    payloads = driver.send(pod_fact(PodsFinished, "w1", succeeded=True))

    assert [] == evicted(payloads + driver.due())


def test_the_drain_goes_on_after_a_restart(monkeypatch):
    monkeypatch.setattr(queue_drains, "EVICTED_MAX", 1)
    driver = a_driver(3)
    driver.send(a_quota(version=2, draining=True))

    driver.handler.cell.queue_drains._line.clear()
    driver.handler.cell.queue_drains.load()

    assert [["w1"], ["w2"], []] == [evicted(driver.due()) for _ in range(3)]
