"""What follows from why the pods of an attempt did not work: an end, or another try."""

import pytest

from services.placement.unit.cell_state import START_SECONDS, START_SECONDS_MAX
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.nodes.pod_failures import FailureCause
from shared.events.pods import (
    EXCEEDED_QUOTA,
    NAMESPACE_NOT_FOUND,
    SERVICE_ACCOUNT_NOT_FOUND,
    BindRefused,
    PodsFinished,
    PodsPulled,
    PodsPulling,
)
from tests.support.placement_driver import pod_fact
from tests.unit.placement.world import at, cancel, lost


def test_what_never_starts_has_failed_though_retries_are_left():
    driver = at(State.BOUND, max_retries=5)
    never = pod_fact(
        PodsFinished, "w1", succeeded=False, reason="CreateContainerConfigError",
        message='secret "token" not found', cause=FailureCause.NEVER_STARTS,
    )  # fmt: skip

    (fact,) = driver.send(never)

    assert ("WorkloadFailed", Reason.NEVER_STARTS) == (type(fact).__name__, fact.reason)
    assert "CreateContainerConfigError" == fact.pod_reason
    assert 'secret "token" not found' == fact.message
    assert driver.now_ms == fact.released_at_ms


def test_what_the_cluster_would_refuse_again_has_failed_with_field_and_rule():
    driver = at(State.PLACED, max_retries=5)
    text = "spec.containers[0].image: must be a reference (got A B)"

    (fact,) = driver.send(pod_fact(BindRefused, "w1", reason="Invalid", message=text, ends=True))

    assert ("WorkloadFailed", Reason.POD_REFUSED, "Invalid", text) == (
        type(fact).__name__, fact.reason, fact.pod_reason, fact.message,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (
            EXCEEDED_QUOTA,
            "exceeded quota: gpus, requested: pods=1, used: pods=4, limited: pods=4",
        ),
        (NAMESPACE_NOT_FOUND, "Namespace red does not exist; create it"),
        (SERVICE_ACCOUNT_NOT_FOUND, "ServiceAccount a does not exist in namespace red; create it"),
    ],
)
def test_who_lacks_what_an_operator_mends_waits_and_is_told_that(reason, text):
    driver = at(State.PLACED, max_retries=0)

    evicted, requeued = driver.send(pod_fact(BindRefused, "w1", reason=reason, message=text))

    told = evicted.reason, evicted.pod_reason, evicted.message
    assert (Reason.BIND_REFUSED, reason, text) == told
    assert f"{text}; tried again in 1 s" == requeued.message
    assert (State.QUEUED, 0) == (driver.state(), driver.record().failures)


def test_the_time_to_start_counts_from_the_end_of_the_image_pull():
    driver = at(State.BOUND)
    driver.send(pod_fact(PodsPulling, "w1"))

    driver.wait(1_000)
    while_pulling = driver.state()
    driver.send(pod_fact(PodsPulled, "w1"))
    driver.wait(START_SECONDS - 1)
    in_time = driver.state()
    driver.wait(1)

    assert (while_pulling, in_time) == (State.BOUND, State.BOUND)
    assert driver.state() is State.EVICTING
    assert driver.record().message == "not running 1120 s after placing"


def test_an_image_may_be_pulled_for_half_an_hour_and_no_longer():
    pulls, ends_late = at(State.BOUND), at(State.BOUND)
    for driver in (pulls, ends_late):
        driver.send(pod_fact(PodsPulling, "w1"))
        driver.wait(START_SECONDS_MAX - 1)
    ends_late.send(pod_fact(PodsPulled, "w1"))
    before = (pulls.state(), ends_late.state())

    for driver in (pulls, ends_late):
        driver.wait(1)

    assert before == (State.BOUND, State.BOUND)
    assert (pulls.state(), ends_late.state()) == (State.EVICTING, State.EVICTING)


def test_what_runs_is_not_stopped_by_late_news_of_a_pull():
    driver = at(State.RUNNING)

    driver.send(pod_fact(PodsPulling, "w1"), pod_fact(PodsPulled, "w1"))
    driver.wait(START_SECONDS_MAX + 1)

    assert driver.state() is State.RUNNING


def test_what_was_said_of_a_pod_is_told_no_more_once_something_else_is_the_reason():
    driver = at(State.RUNNING)
    driver.send(lost)

    (fact,) = driver.send(cancel)

    assert (Reason.CANCELLED, "") == (fact.reason, fact.pod_reason)
