"""What each message does to one workload in each of its states."""

from __future__ import annotations

import pytest

from shared.core.model.lifecycle import TERMINAL, TRANSITIONS, State
from shared.core.model.reason import Reason
from shared.core.model.value import replace
from shared.events.nodes import GpuHealthReported, NodeRemoved
from shared.events.pods import (
    BindWorkload,
    EvictPods,
    PodsFinished,
    PodsGone,
)
from shared.events.workloads import (
    CancelWorkload,
    ReprioritiseWorkload,
    RequestEviction,
    WorkloadEvicted,
    WorkloadPlaced,
    WorkloadRequeued,
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
from tests.unit.placement.world import (
    PATHS,
    a_gang_below_its_size,
    at,
    bound,
    cancel,
    evict,
    failed,
    gone,
    gone_well,
    hold,
    lost,
    refused,
    release,
    reprioritise,
    running,
    succeeded,
)


def test_a_workload_is_placed_bound_run_and_ends_well():
    driver = at(State.QUEUED)

    assert ["WorkloadPlaced", "BindWorkload"] == kinds(driver.send(nominated(a_workload())))
    assert ["WorkloadBound"] == kinds(driver.send(bound))
    assert ["WorkloadRunning"] == kinds(driver.send(running))
    (fact,) = driver.send(succeeded)

    assert (State.SUCCEEDED, 5, 1) == (fact.state, fact.version, fact.released_attempt)
    assert driver.now_ms == fact.released_at_ms
    assert {} == driver.handler.state.records.alive


def test_the_binder_is_told_the_whole_placement_and_the_attempt():
    driver = at(State.QUEUED)

    placed, bind = driver.send(nominated(a_workload()))

    assert isinstance(placed, WorkloadPlaced)
    assert isinstance(bind, BindWorkload)
    assert placed.placement == bind.placement
    assert (1, 1) == (placed.attempt, bind.attempt)
    assert a_workload().spec.pod_sets == bind.pod_sets


def test_the_binder_is_told_where_the_pods_are_as_whom_they_speak_and_their_labels():
    driver = at(State.QUEUED, labels={"run": "7"}, grace_seconds=77)
    record = driver.handler.state.records.alive["w1"]
    record.workload = replace(record.workload, namespace="red-prod", service_account="trainer")

    _, bind = driver.send(nominated(a_workload()))

    assert isinstance(bind, BindWorkload)
    assert (bind.namespace, bind.service_account) == ("red-prod", "trainer")
    assert (bind.labels, bind.grace_seconds) == ({"run": "7"}, 77)


S = State
AFTER = {
    "cancel": (
        cancel,
        {
            S.QUEUED: S.CANCELLED,
            S.HELD: S.CANCELLED,
            S.PLACED: S.CANCELLING,
            S.BOUND: S.CANCELLING,
            S.RUNNING: S.CANCELLING,
            S.EVICTING: S.CANCELLING,
        },
    ),
    "hold": (
        hold,
        {S.QUEUED: S.HELD, S.PLACED: S.EVICTING, S.BOUND: S.EVICTING, S.RUNNING: S.EVICTING},
    ),
    "release": (release, {S.HELD: S.QUEUED}),
    "reprioritise": (
        reprioritise,
        {one: one for one in (S.QUEUED, S.HELD, S.PLACED, S.BOUND, S.RUNNING, S.EVICTING)},
    ),
    "evict": (evict, {S.PLACED: S.EVICTING, S.BOUND: S.EVICTING, S.RUNNING: S.EVICTING}),
    "bound": (bound, {S.PLACED: S.BOUND}),
    "running": (running, {S.PLACED: S.RUNNING, S.BOUND: S.RUNNING}),
    "succeeded": (
        succeeded,
        dict.fromkeys((S.PLACED, S.BOUND, S.RUNNING, S.EVICTING, S.CANCELLING), S.SUCCEEDED),
    ),
    "failed": (
        failed,
        {
            S.PLACED: S.QUEUED,
            S.BOUND: S.QUEUED,
            S.RUNNING: S.QUEUED,
            S.EVICTING: S.QUEUED,
            S.CANCELLING: S.CANCELLED,
        },
    ),
    "lost": (
        lost,
        {
            S.PLACED: S.QUEUED,
            S.BOUND: S.QUEUED,
            S.RUNNING: S.QUEUED,
            S.EVICTING: S.QUEUED,
            S.CANCELLING: S.CANCELLED,
        },
    ),
    "gone": (
        gone,
        {
            S.PLACED: S.QUEUED,
            S.BOUND: S.QUEUED,
            S.RUNNING: S.QUEUED,
            S.EVICTING: S.QUEUED,
            S.CANCELLING: S.CANCELLED,
        },
    ),
    "gone well": (
        gone_well,
        {
            S.PLACED: S.QUEUED,
            S.BOUND: S.QUEUED,
            S.RUNNING: S.QUEUED,
            S.EVICTING: S.SUCCEEDED,
            S.CANCELLING: S.SUCCEEDED,
        },
    ),
    "refused": (
        refused,
        {
            S.PLACED: S.QUEUED,
            S.BOUND: S.QUEUED,
            S.RUNNING: S.QUEUED,
            S.EVICTING: S.QUEUED,
            S.CANCELLING: S.CANCELLED,
        },
    ),
}
CASES = [
    pytest.param(message, before, table.get(before), id=f"{name} when {before}")
    for name, (message, table) in AFTER.items()
    for before in PATHS
]


@pytest.mark.parametrize(("message", "before", "after"), CASES)
def test_every_message_in_every_state_leads_where_the_table_says_or_changes_nothing(
    message, before, after
):
    driver = at(before)
    version = driver.record().version

    facts = driver.send(message)

    assert (after or before) is driver.state()
    if after is None:
        assert [] == facts
        assert version == driver.record().version
    if driver.state() not in PATHS or driver.state() in (State.QUEUED, State.HELD):
        assert 0 == driver.handler.state.cluster.gpu_milli_used()


@pytest.mark.parametrize("message", [case[0] for case in AFTER.values()], ids=AFTER)
@pytest.mark.parametrize("end", [cancel, "succeed"])
def test_what_is_over_stays_so(message, end):
    driver = at(State.QUEUED) if end is cancel else at(State.RUNNING)
    driver.send(cancel if end is cancel else succeeded)
    assert driver.state() in TERMINAL

    assert [] == driver.send(message)


def test_every_transition_of_placement_is_taken_by_some_message():
    taken = set()
    for before in PATHS:
        for message, _ in AFTER.values():
            for spec in ({}, {"max_retries": 0}):
                driver = at(before, **spec)
                driver.send(message)
                taken |= driver.rows
    over_time = at(State.RUNNING, max_duration_seconds=10)
    over_time.wait(11)
    over_time.send(gone)
    held_later = at(State.RUNNING)
    held_later.send(hold)
    held_later.send(gone)

    smaller = a_gang_below_its_size()
    smaller.send(pod_fact(PodsFinished, "full", succeeded=True))

    taken |= over_time.rows | held_later.rows | smaller.rows

    of_admission = {(State.RECEIVED, State.QUEUED), (State.RECEIVED, State.REJECTED)}
    table = {(before, after) for before, afters in TRANSITIONS.items() for after in afters}
    assert table - of_admission == taken


def test_cancelling_what_runs_stops_its_pods_and_holds_the_devices_until_they_are_gone():
    driver = at(State.RUNNING)

    facts = driver.send(cancel)

    assert ["WorkloadCancelling", "EvictPods"] == kinds(facts)
    assert 1000 == driver.handler.state.cluster.gpu_milli_used()
    driver.send(gone)
    assert 0 == driver.handler.state.cluster.gpu_milli_used()


def test_cancelling_what_is_being_evicted_does_not_stop_its_pods_twice():
    driver = at(State.EVICTING)

    assert ["WorkloadCancelling"] == kinds(driver.send(cancel))


def test_a_hold_on_what_runs_ends_in_held():
    driver = at(State.RUNNING)
    driver.send(hold)

    assert ["WorkloadHeld"] == kinds(driver.send(gone))
    assert State.HELD is driver.state()


def test_a_hold_counts_for_one_stop_only():
    driver = at(State.RUNNING)
    driver.send(hold)
    driver.send(gone)
    driver.send(release)
    driver.send(nominated(a_workload(), number=2))
    driver.send(evict)
    driver.send(pod_fact(PodsGone, "w1", 2))

    assert State.QUEUED is driver.state()


def test_a_hold_during_an_eviction_ends_in_held():
    driver = at(State.EVICTING)
    driver.send(hold)
    driver.send(gone)

    assert State.HELD is driver.state()


def test_a_hold_taken_back_before_the_pods_are_gone_ends_in_queued():
    driver = at(State.RUNNING)
    driver.send(hold)
    driver.send(release)
    driver.send(gone)

    assert State.QUEUED is driver.state()


def test_a_held_workload_is_not_placed_and_its_nomination_is_gone():
    driver = Driver()
    driver.send(a_quota(), queued(a_workload()), nominated(a_workload()))
    driver.send(hold)

    assert [] == driver.send(reported(a_node()))
    assert [] == driver.send(nominated(a_workload(), number=2))
    assert State.HELD is driver.state()


def test_who_held_or_cancelled_it_is_told_not_why_it_waited_before():
    driver = Driver()
    driver.send(a_quota(), queued(a_workload()), nominated(a_workload()))

    record = driver.handler.state.records.alive["w1"]
    assert record.refused_as
    (held,) = driver.send(hold)
    assert "" == record.refused_as, "as it is after a restart"
    (released,) = driver.send(release)
    asked = command(CancelWorkload, "w1", by="key nightly-ci (team admin)")
    (cancelled,) = driver.send(asked)

    assert ("held", "held by its owner") == (held.reason, held.message)
    assert ("", "") == (released.reason, released.message)
    assert ("cancelled", "cancelled by key nightly-ci (team admin)") == (
        cancelled.reason,
        cancelled.message,
    )


def test_a_new_priority_takes_the_nomination_away_because_the_order_is_another():
    driver = Driver()
    driver.send(a_quota(), queued(a_workload()), nominated(a_workload()))

    (fact,) = driver.send(reprioritise)

    assert 9 == fact.priority
    assert [] == driver.send(reported(a_node()))


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING])
def test_the_same_priority_and_class_again_is_no_change(state):
    driver = at(state)
    driver.send(reprioritise)

    assert [] == driver.send(reprioritise)


def test_another_class_of_the_same_value_is_told_and_takes_no_nomination_away():
    driver = Driver()
    driver.send(a_quota(), nominated(a_workload(priority_class="low"), order=3))

    (fact,) = driver.send(command(ReprioritiseWorkload, "w1", priority_class="high", priority=0))

    assert ("high", 0) == (fact.priority_class, fact.priority)
    driver.send(reported(a_node()))
    assert State.PLACED is driver.state()


def test_every_fact_says_the_class_that_it_was_given_and_none_before():
    driver = at(State.QUEUED)
    (before,) = driver.send(hold)
    driver.send(release, reprioritise)

    (placed, _) = driver.send(nominated(a_workload(), number=2))

    assert ("", "high") == (before.priority_class, placed.priority_class)


def test_a_workload_that_ended_in_the_same_batch_keeps_its_priority():
    driver = at(State.RUNNING)

    assert ["WorkloadSucceeded"] == kinds(driver.send(succeeded, reprioritise))


def test_an_operator_s_eviction_names_its_reason_and_gives_grace():
    driver = at(State.RUNNING)

    asked = command(RequestEviction, "w1", note="maintenance", by="key ops (operator)")
    fact, stop = driver.send(asked)

    assert isinstance(fact, WorkloadEvicted)
    assert ("operator", "maintenance") == (fact.reason, fact.note)
    assert "evicted by key ops (operator): maintenance" == fact.message
    assert isinstance(stop, EvictPods)
    assert (1, 30) == (stop.attempt, stop.grace_seconds)


def test_after_an_eviction_it_is_queued_and_placed_again_as_a_new_attempt():
    driver = at(State.EVICTING)

    (fact,) = driver.send(gone)
    placed, _ = driver.send(nominated(a_workload(), number=2))

    assert isinstance(fact, WorkloadRequeued)
    assert (1, 2) == (fact.released_attempt, placed.attempt)


LATE = [bound, running, succeeded, failed, gone, gone_well, refused]


@pytest.mark.parametrize("late", LATE)
def test_late_facts_of_an_old_attempt_change_nothing(late):
    driver = at(State.EVICTING)
    driver.send(gone)
    assert [] == driver.send(late)
    driver.send(nominated(a_workload(), number=2))
    version = driver.record().version

    assert [] == driver.send(late)
    assert (State.PLACED, version) == (driver.state(), driver.record().version)


@pytest.mark.parametrize("message", [*LATE, cancel, hold, release, evict, reprioritise])
def test_messages_about_a_workload_nobody_knows_change_nothing(message):
    assert [] == Driver().send(message)


def test_retries_are_counted_and_the_last_failure_is_final():
    driver = at(State.QUEUED, max_retries=2)
    facts = []
    for attempt in (1, 2, 3):
        driver.send(nominated(a_workload(), number=attempt))
        driver.wait(10)
        told = {"succeeded": False, "reason": "Error", "exit_code": attempt}
        facts = driver.send(pod_fact(PodsFinished, "w1", attempt, **told))
        wanted = ["WorkloadEvicted", "WorkloadRequeued"] if attempt < 3 else ["WorkloadFailed"]
        assert (attempt, wanted) == (facts[0].exit_code, kinds(facts))

    assert (Reason.FAILED, "Error") == (facts[0].reason, facts[0].pod_reason)
    assert State.FAILED is driver.state()


def test_after_a_failure_that_is_final_no_retry_is_made():
    driver = at(State.RUNNING, max_retries=5, final_failures=("OOMKilled",))

    (fact,) = driver.send(failed)

    told = type(fact).__name__, fact.reason, fact.pod_reason
    assert ("WorkloadFailed", Reason.FAILED, "OOMKilled") == told
    assert "exit 137; no retry after OOMKilled" in fact.message


def test_a_failure_that_does_not_count_uses_up_no_retry():
    driver = at(State.RUNNING, max_retries=0, uncounted_failures=("OOMKilled",))

    assert ["WorkloadEvicted", "WorkloadRequeued"] == kinds(driver.send(failed))
    assert 0 == driver.record().failures


def test_pods_that_were_taken_from_it_are_no_failure_of_the_work():
    driver = at(State.RUNNING, max_retries=0)

    evicted, requeued = driver.send(lost)

    assert ("pods-lost", "pod w1-1-0: NodeLost") == (evicted.reason, evicted.message)
    assert "NodeLost" == evicted.pod_reason == requeued.pod_reason
    assert "tried again in" in requeued.message
    assert (State.QUEUED, 0) == (driver.state(), driver.record().failures)


def test_a_lost_node_evicts_what_has_pods_there_and_only_that():
    driver = Driver()
    first, second = a_workload("w1", gpus=8), a_workload("w2", gpus=8)
    driver.send(a_quota(), reported(a_node("n1")), reported(a_node("n2")))
    driver.send(nominated(first, order=1), nominated(second, order=2))
    node = driver.placement("w1").pods[0].node

    facts = driver.send(NodeRemoved(node=node, generation=2))

    assert ["WorkloadEvicted", "EvictPods"] == kinds(facts)
    assert ("w1", "node-lost", 1) == (
        facts[0].workload_id,
        facts[0].reason,
        facts[1].grace_seconds,
    )
    assert State.PLACED is driver.state("w2")


@pytest.mark.parametrize(
    "news",
    [
        GpuHealthReported(node="n1", gpu=-1, healthy=False, generation=2),
        reported(a_node(ready=False), 2),
        NodeRemoved(node="n1", generation=2),
    ],
    ids=["unhealthy", "not ready", "removed"],
)
def test_a_gang_with_one_pod_on_a_lost_node_is_evicted_whole(news):
    driver = Driver()
    gang = a_workload(gpus=8, pod_count=2)
    driver.send(a_quota(), reported(a_node("n1")), reported(a_node("n2")), nominated(gang))

    assert ["WorkloadEvicted", "EvictPods"] == kinds(driver.send(news))


def test_an_unhealthy_gpu_lets_what_runs_there_go_on_and_takes_nothing_new():
    driver = at(State.RUNNING)
    gpu = driver.placement().pods[0].shares[0].index

    facts = driver.send(GpuHealthReported(node="n1", gpu=gpu, healthy=False, generation=2))
    driver.send(nominated(a_workload("w2", gpus=8)), succeeded)

    assert [] == facts
    assert State.QUEUED is driver.state("w2")


def test_pods_are_stopped_with_the_grace_that_their_owner_asked_for():
    driver = at(State.RUNNING, grace_seconds=77)

    _, stop = driver.send(evict)

    assert isinstance(stop, EvictPods)
    assert stop.grace_seconds == 77
