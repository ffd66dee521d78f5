"""Idle work is stopped with its grace and held until its owner releases it."""

import pytest

from shared.core.model.lifecycle import State
from shared.events.plans import IdleReleaseRefused, ReleaseIdleWorkload
from shared.events.pods import EvictPods, PodsFinished, PodsGone
from shared.events.workloads import IdleRelease, WorkloadEvicted, WorkloadHeld
from tests.support.placement_driver import pod_fact
from tests.unit.placement.world import at, cancel, release, reprioritise

SINCE_MS, UNTIL_MS = 1_000, 601_000
gone = pod_fact(PodsGone, "w1")


def idle(attempt=1, priority_class=""):
    return ReleaseIdleWorkload(
        plan_id="p1",
        workload_id="w1",
        attempt=attempt,
        since_ms=SINCE_MS,
        until_ms=UNTIL_MS,
        utilization_percent=3,
        team="red",
        queue="q",
        priority_class=priority_class,
    )


def test_idle_work_is_stopped_with_its_grace_and_held():
    driver = at(State.RUNNING, grace_seconds=20)

    evicted, stop = driver.send(idle())
    (held,) = driver.send(gone)

    assert isinstance(evicted, WorkloadEvicted)
    assert evicted.idle == IdleRelease(
        plan_id="p1", since_ms=SINCE_MS, until_ms=UNTIL_MS, utilization_percent=3
    )
    assert isinstance(stop, EvictPods)
    assert (stop.reason, stop.grace_seconds) == ("idle", 20)
    assert isinstance(held, WorkloadHeld)
    assert (held.reason, held.released_attempt) == ("idle", 1)
    assert "used 3 % at most" in held.message
    assert 0 == driver.record().failures


def test_its_owner_releases_it():
    driver = at(State.RUNNING)
    driver.send(idle(), gone)

    driver.send(release)

    assert driver.state() is State.QUEUED


def test_a_release_while_its_pods_stop_queues_it_again():
    driver = at(State.RUNNING)

    driver.send(idle(), release, gone)

    assert driver.state() is State.QUEUED


@pytest.mark.parametrize(
    ("message", "expected"),
    [(pod_fact(PodsFinished, "w1", succeeded=True), State.SUCCEEDED), (cancel, State.CANCELLING)],
)
def test_an_end_of_its_own_comes_first(message, expected):
    driver = at(State.RUNNING)

    driver.send(idle(), message)

    assert driver.state() is expected


@pytest.mark.parametrize("state", [State.BOUND, State.QUEUED, State.EVICTING, State.CANCELLING])
def test_what_does_not_run_is_left_alone(state):
    driver = at(state)

    (refused,) = driver.send(idle())

    assert isinstance(refused, IdleReleaseRefused)
    assert driver.state() is state


def test_another_attempt_is_left_alone():
    driver = at(State.RUNNING)

    (refused,) = driver.send(idle(attempt=2))

    assert refused.reason == "workload-changed"
    assert driver.state() is State.RUNNING


def test_of_another_class_than_preemption_knew_it_is_left_alone():
    driver = at(State.RUNNING)
    driver.send(reprioritise)

    (refused,) = driver.send(idle())

    assert isinstance(refused, IdleReleaseRefused)
    assert ("workload-changed", "its priority class is high by now") == (
        refused.reason,
        refused.message,
    )
    assert driver.state() is State.RUNNING
    driver.send(idle(priority_class="high"))
    assert driver.state() is State.EVICTING
