"""Deadlines of a state, and nominations that come early, late or twice."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from services.placement.unit.cell_state import START_SECONDS, START_SECONDS_MAX
from shared.core.model.lifecycle import State
from shared.core.nodes.backoff import FORGIVEN_AFTER_MS
from shared.events.nodes import GpuHealthReported
from shared.events.quotas import NominationWithdrawn
from shared.events.workloads import (
    RequestEviction,
)
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    command,
    kinds,
    nominated,
    queued,
    reported,
)
from tests.unit.placement.world import (
    PATHS,
    at,
    bound,
    cancel,
    evict,
    failed,
    gone,
    refused,
    reprioritise,
    running,
    succeeded,
)


def test_a_start_that_takes_too_long_is_given_up():
    driver = at(State.BOUND)
    assert [] == driver.wait(START_SECONDS - 1)

    facts = driver.wait(1)

    assert ["WorkloadEvicted", "EvictPods"] == kinds(facts)
    assert "bind-timeout" == facts[0].reason


def test_the_time_of_a_start_counts_from_bound_because_the_binder_may_have_a_backlog():
    driver = at(State.PLACED)
    assert [] == driver.wait(2 * START_SECONDS)
    driver.send(bound)
    assert [] == driver.wait(START_SECONDS - 1)

    assert ["WorkloadEvicted", "EvictPods"] == kinds(driver.wait(1))


def test_what_is_not_bound_in_the_longest_time_of_a_start_is_given_up():
    driver = at(State.PLACED)
    assert [] == driver.wait(START_SECONDS_MAX - 1)

    (evicted, _) = driver.wait(1)

    assert f"not running {START_SECONDS_MAX} s after placing" == evicted.message


def test_a_late_bind_leaves_no_more_than_the_longest_time_of_a_start():
    driver = at(State.PLACED)
    driver.wait(START_SECONDS_MAX - 5)
    driver.send(bound)

    assert ["WorkloadEvicted", "EvictPods"] == kinds(driver.wait(5))


def test_the_bind_deadline_goes_on_when_bound_and_ends_when_running():
    driver = at(State.BOUND)
    assert driver.now_ms + START_SECONDS * 1000 == driver.handler.next_due_ms()
    driver.send(running)

    assert [] == driver.wait(START_SECONDS + 1)
    assert State.RUNNING is driver.state()


def test_a_bind_deadline_that_passes_with_the_news_that_it_runs_changes_nothing():
    driver = at(State.BOUND)
    driver.now_ms += START_SECONDS * 1000
    late = driver.handler.due(driver.now_ms)

    facts = driver.take([driver.message(running), *late])

    assert 1 == len(late)
    assert ["WorkloadRunning"] == kinds(facts)


def test_a_deadline_of_an_attempt_that_ended_changes_nothing():
    driver = at(State.PLACED)
    driver.now_ms += 60_000
    driver.send(gone)
    driver.send(nominated(a_workload(), number=2))
    driver.wait(1)

    assert [] == driver.wait(60)
    assert State.PLACED is driver.state()


@pytest.mark.parametrize("news", [refused, failed, gone])
def test_what_was_refused_or_failed_rests_longer_before_each_attempt(news):
    driver = at(State.PLACED)
    for attempt, seconds in enumerate((1, 2, 4), 1):
        last = driver.send(replace(news, attempt=attempt))[-1]
        assert f"tried again in {seconds} s" in last.message

        assert [] == driver.send(nominated(a_workload(), number=attempt + 1))
        assert [] == driver.wait(seconds - 0.001)
        assert ["WorkloadPlaced", "BindWorkload"] == kinds(driver.wait(0.001))


@pytest.mark.parametrize(
    ("ran_seconds", "seconds"),
    [(0, 4), (FORGIVEN_AFTER_MS / 1000 - 0.001, 4), (FORGIVEN_AFTER_MS / 1000, 1)],
)
def test_an_attempt_that_ran_for_a_while_starts_the_rests_anew(ran_seconds, seconds):
    driver = at(State.PLACED)
    for attempt in (1, 2):
        driver.send(replace(failed, attempt=attempt), nominated(a_workload(), number=attempt + 1))
        driver.wait(attempt)
    driver.send(replace(running, attempt=3))
    driver.now_ms += round(ran_seconds * 1000)

    last = driver.send(replace(failed, attempt=3))[-1]

    assert f"tried again in {seconds} s" in last.message


def test_an_attempt_that_never_ran_has_not_run_for_a_while():
    """Nor does the time count for which the one before it ran."""
    driver = at(State.RUNNING)
    driver.send(replace(failed, attempt=1), nominated(a_workload(), number=2))
    driver.wait(1)
    driver.now_ms += FORGIVEN_AFTER_MS

    assert "tried again in 2 s" in driver.send(replace(failed, attempt=2))[-1].message


def lose_its_node(attempt):
    return [
        GpuHealthReported(node="n1", gpu=-1, healthy=healthy, generation=2 * attempt + healthy)
        for healthy in (False, True)
    ]


@pytest.mark.parametrize("ends", [lambda _: [evict], lose_its_node])
def test_evictions_and_lost_nodes_lengthen_no_rest(ends):
    driver = at(State.RUNNING)
    for attempt in range(1, 9):
        driver.send(*ends(attempt))
        driver.send(replace(gone, attempt=attempt))
        driver.send(nominated(a_workload(), number=attempt + 1))
        driver.send(replace(running, attempt=attempt + 1))
        assert State.RUNNING is driver.state()

    assert "tried again in 1 s" in driver.send(replace(failed, attempt=9))[-1].message


def test_an_eviction_between_two_setbacks_does_not_start_the_rests_anew():
    driver = at(State.PLACED)
    driver.send(refused, nominated(a_workload(), number=2))
    driver.wait(1)
    driver.send(replace(running, attempt=2), evict, replace(gone, attempt=2))
    driver.send(nominated(a_workload(), number=3))

    assert "tried again in 2 s" in driver.send(replace(refused, attempt=3))[-1].message


def test_starts_that_time_out_are_setbacks():
    driver = at(State.PLACED)
    for attempt, seconds in enumerate((1, 2), 1):
        driver.wait(START_SECONDS)
        last = driver.send(replace(gone, attempt=attempt))[-1]
        assert f"tried again in {seconds} s" in last.message
        driver.send(nominated(a_workload(), number=attempt + 1))
        driver.wait(seconds)


def test_an_evicted_workload_does_not_rest():
    driver = at(State.EVICTING)
    driver.send(gone)

    answer = driver.send(nominated(a_workload(), number=2))

    assert ["WorkloadPlaced", "BindWorkload"] == kinds(answer)


def test_the_time_limit_of_what_runs_ends_in_failed():
    driver = at(State.RUNNING, max_duration_seconds=100)
    assert [] == driver.wait(99)

    assert ["WorkloadEvicted", "EvictPods"] == kinds(driver.wait(1))
    (fact,) = driver.send(gone)

    assert ("WorkloadFailed", "duration") == (type(fact).__name__, fact.reason)


def test_who_had_succeeded_before_his_limit_passed_has_succeeded():
    driver = at(State.RUNNING, max_duration_seconds=100)
    driver.wait(100)

    (fact,) = driver.send(succeeded)

    assert "WorkloadSucceeded" == type(fact).__name__


def lived(driver, seconds):
    """Seconds from now to so many after the submission of w1."""
    submitted_ms = driver.record("w1").workload.submitted_at_ms
    return (submitted_ms + seconds * 1000 - driver.now_ms) / 1000


def test_a_time_to_live_counts_from_the_submission_and_ends_in_cancelled():
    driver = at(State.RUNNING, max_duration_seconds=100, time_to_live_seconds=50)
    left = lived(driver, 50)
    assert [] == driver.wait(left - 0.001)

    told = driver.wait(0.001)
    (fact,) = driver.send(gone)

    assert ["WorkloadCancelling", "EvictPods"] == kinds(told)
    assert ("WorkloadCancelled", "time-to-live") == (type(fact).__name__, fact.reason)
    assert "50 s since it was submitted" in fact.message


@pytest.mark.parametrize("state", [State.QUEUED, State.HELD])
def test_a_time_to_live_ends_what_waits(state):
    driver = at(state, time_to_live_seconds=50)

    told = driver.wait(lived(driver, 50))

    assert ["WorkloadCancelled"] == kinds(told)
    assert [] == driver.send(nominated(a_workload(), number=2))


def test_what_is_evicted_when_its_time_to_live_is_over_does_not_come_back():
    driver = at(State.EVICTING, time_to_live_seconds=50)

    told = driver.wait(lived(driver, 50))
    after = driver.send(gone)

    assert ["WorkloadCancelling"] == kinds(told)
    assert ["WorkloadCancelled"] == kinds(after)


def test_a_time_to_live_is_nothing_to_what_is_stopped_or_over():
    stopping = at(State.CANCELLING, time_to_live_seconds=50)
    assert [] == stopping.wait(lived(stopping, 50))
    assert ["WorkloadCancelled"] == kinds(stopping.send(gone))
    assert [] == stopping.wait(1)

    over = at(State.RUNNING, time_to_live_seconds=50)
    left = lived(over, 50)
    over.send(succeeded)
    assert [] == over.wait(left)


def test_the_time_limit_of_an_attempt_does_not_wait_for_the_time_to_live():
    driver = at(State.RUNNING, max_duration_seconds=20, time_to_live_seconds=50)

    assert ["WorkloadEvicted", "EvictPods"] == kinds(driver.wait(20))


def test_an_operator_cannot_make_an_eviction_a_time_limit():
    driver = at(State.RUNNING)
    driver.send(command(RequestEviction, "w1", reason="duration"))
    driver.send(gone)

    assert State.QUEUED is driver.state()


def test_a_withdrawal_loses_against_a_placement():
    driver = at(State.PLACED)

    assert [] == driver.send(NominationWithdrawn(workload_id="w1", nomination=1))
    assert State.PLACED is driver.state()


def test_a_withdrawn_nomination_is_not_tried_any_more():
    driver = Driver()
    driver.send(a_quota(), nominated(a_workload()))
    driver.send(NominationWithdrawn(workload_id="w1", nomination=1))

    assert [] == driver.send(reported(a_node()))


def test_a_withdrawal_of_an_older_nomination_leaves_the_present_one():
    driver = Driver()
    driver.send(a_quota(), nominated(a_workload(), number=2))
    driver.send(NominationWithdrawn(workload_id="w1", nomination=1))

    assert "WorkloadPlaced" in kinds(driver.send(reported(a_node())))


def test_a_nomination_may_come_before_the_workload_is_queued():
    driver = Driver()
    driver.send(a_quota(), reported(a_node()))

    assert "WorkloadPlaced" in kinds(driver.send(nominated(a_workload())))
    assert [] == driver.send(queued(a_workload()))
    assert (State.PLACED, 2) == (driver.state(), driver.record().version)


def test_a_nomination_of_what_is_over_makes_no_second_workload():
    driver = at(State.QUEUED)
    driver.send(cancel)

    assert [] == driver.send(nominated(a_workload()), queued(a_workload()))
    assert {} == driver.handler.state.records.alive


@pytest.mark.parametrize("state", [one for one in PATHS if one is not State.QUEUED])
def test_a_nomination_of_what_is_not_queued_is_ignored(state):
    driver = at(state)

    assert [] == driver.send(nominated(a_workload(), number=7))
    assert state is driver.state()


@pytest.mark.parametrize(("given_by", "waits"), [(0, False), (9, True)])
def test_a_nomination_by_the_new_priority_outlives_the_command(given_by: int, waits: bool):
    """Quota does not nominate anew whom it has nominated by this priority already."""
    driver = Driver()
    driver.send(a_quota(), nominated(a_workload(), order=-given_by))
    assert State.QUEUED is driver.state()

    driver.send(reprioritise)
    driver.send(reported(a_node()))

    assert 9 == driver.record().priority
    assert (State.PLACED if waits else State.QUEUED) is driver.state()
