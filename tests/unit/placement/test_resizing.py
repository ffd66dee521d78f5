"""Elastic gangs that run: when they grow, how they shrink, what is told and charged by then."""

from __future__ import annotations

import msgspec
import pytest

from services.placement.cycle import growth
from services.placement.state.records import Resize
from services.placement.workloads import resizing
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.team_policy import AtLimit
from shared.core.model.value import replace
from shared.core.placement.resize import REST_SECONDS
from shared.events.pods import (
    EvictPods,
    PodsFinished,
    PodsGone,
    PodsResized,
    PodsRunning,
    ResizePods,
    ResizeRefused,
)
from shared.events.workloads import (
    CancelWorkload,
    ReprioritiseWorkload,
    RequestEviction,
    ResizeWorkload,
    WorkloadResized,
)
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    command,
    nominated,
    pod_fact,
    reported,
)
from tests.support.two_teams import budget_told
from tests.unit.placement.world import a_gang_below_its_size

END_FULL = pod_fact(PodsFinished, "full", succeeded=True)


def only(kind, payloads):
    """The one payload of `kind`."""
    (found,) = [one for one in payloads if isinstance(one, kind)]
    return found


def resized(number=1, pods=8):
    return pod_fact(PodsResized, "w1", number=number, pods=pods)


def refused(number=1):
    return pod_fact(ResizeRefused, "w1", number=number, reason="Conflict", message="x", node="n1")


def grown():
    """A gang of w1 that ran with four pods and now has eight."""
    driver = a_gang_below_its_size()
    driver.send(END_FULL)
    driver.send(resized())
    return driver


def shrink(driver, pods_kept, reason=Reason.PREEMPTED):
    """Ask placement to make w1 smaller, as the service does inside a batch; what came out."""
    kept = []
    handler = driver.handler
    run = handler.cell.cycle.run

    def first():
        record = handler.state.records.alive["w1"]
        kept.append(
            resizing.shrink(handler.state, record, pods_kept, reason, cause, message="by x")
        )
        run()

    handler.cell.cycle.run = first
    cause = driver.message(pod_fact(PodsRunning, "nobody"))
    told = driver.take([cause])
    handler.cell.cycle.run = run
    return kept[0], told


def test_a_gang_takes_the_room_that_is_given_back():
    driver = a_gang_below_its_size()
    assert 4 == len(driver.placement().pods)

    told = driver.send(END_FULL)

    fact, asked = only(WorkloadResized, told), only(ResizePods, told)
    assert (State.RUNNING, 8, 8_000) == (
        fact.state, len(fact.placement.pods), fact.placement.charge.gpu_milli
    )  # fmt: skip
    assert [pod.rank for pod in fact.placement.pods] == list(range(8))
    assert (1, driver.now_ms, "grown") == (fact.resizes, fact.resized_at_ms, fact.reason)
    assert (fact.placement, 1) == (asked.placement, asked.number)
    assert 8_000 == driver.handler.state.cluster.gpu_milli_used()


def test_a_pod_that_joins_runs_as_long_as_those_that_began_before_it():
    driver = a_gang_below_its_size(expected_duration_seconds=600)
    driver.now_ms += 200_000

    asked = only(ResizePods, driver.send(END_FULL))

    assert asked.expected_duration_seconds == 400


def test_what_it_gives_up_is_stopped_with_its_own_grace():
    driver = a_gang_below_its_size(grace_seconds=300)

    assert 300 == only(ResizePods, driver.send(END_FULL)).grace_seconds


def test_what_grew_stays_so_when_its_pods_are_bound():
    driver = a_gang_below_its_size()
    driver.send(END_FULL)

    assert [] == driver.send(resized())

    assert not driver.record().resize.open
    assert 8 == len(driver.placement().pods)


def test_a_gang_whose_growth_the_cluster_refuses_runs_on_as_it_was():
    driver = a_gang_below_its_size()
    driver.send(END_FULL)

    fact = only(WorkloadResized, driver.send(refused()))

    assert (4, 2, "resize-refused") == (len(fact.placement.pods), fact.resizes, fact.reason)
    assert "n1: Conflict x" in fact.message
    assert 4_000 == driver.handler.state.cluster.gpu_milli_used()
    assert State.RUNNING is driver.state()


def test_after_a_refusal_it_rests_and_then_grows_by_itself():
    driver = a_gang_below_its_size()
    driver.send(END_FULL)
    driver.send(refused())

    assert [] == driver.wait(REST_SECONDS - 1)

    assert 2 == only(ResizePods, driver.wait(2)).number


def growing_twice(**spec):
    """A gang of w1 that ran with four of eight pods and grew by two; two more have room now."""
    driver = Driver()
    driver.send(reported(a_node()), a_quota())
    driver.send(nominated(a_workload("a", pod_count=2)), nominated(a_workload("b", pod_count=2)))
    driver.send(nominated(a_workload("w1", pod_count=8, min_count=4, **spec)))
    driver.send(*(pod_fact(PodsRunning, name) for name in ("a", "b", "w1")))
    only(ResizePods, driver.send(pod_fact(PodsFinished, "a", succeeded=True)))
    driver.send(resized(pods=6))
    driver.now_ms += 1_000
    return driver


@pytest.mark.parametrize(("restart_seconds", "rests"), [(0, 59), (30, 599), (10_000, 3_599)])
def test_a_gang_that_grew_is_left_to_work_before_it_grows_again(restart_seconds, rests):
    driver = growing_twice(restart_seconds=restart_seconds)

    assert [] == [
        one
        for one in driver.send(pod_fact(PodsFinished, "b", succeeded=True))
        if isinstance(one, ResizePods)
    ]
    assert [] == driver.wait(rests - 0.001)
    assert 8 == len(only(ResizePods, driver.wait(0.001)).placement.pods)


def test_its_owner_need_not_wait_for_it_to_grow_again():
    driver = growing_twice()
    driver.send(pod_fact(PodsFinished, "b", succeeded=True))

    told = driver.send(command(ResizeWorkload, "w1", pods=7))

    assert 7 == len(only(ResizePods, told).placement.pods)


def test_nobody_grows_into_room_for_which_another_waits():
    driver = a_gang_below_its_size()
    driver.send(nominated(a_workload("large", gpus=8)))

    assert "WorkloadResized" not in {type(one).__name__ for one in driver.send(END_FULL)}

    driver.send(command(CancelWorkload, "large"))
    only(WorkloadResized, driver.wait(growth.AGAIN_MS / 1000))


def test_who_waits_for_quota_stands_in_nobodys_way():
    driver = a_gang_below_its_size()
    driver.send(a_quota("poor", gpus=0))
    driver.send(nominated(a_workload("later", queue="poor")))

    only(WorkloadResized, driver.send(END_FULL))


def test_a_crowded_cell_lets_nobody_grow(monkeypatch):
    monkeypatch.setattr(growth, "CLASSES_MAX", 0)
    driver = a_gang_below_its_size()
    driver.send(a_quota("poor", gpus=0))
    driver.send(nominated(a_workload("later", queue="poor")))

    assert "WorkloadResized" not in {type(one).__name__ for one in driver.send(END_FULL)}


def test_growth_stays_within_quota():
    driver = a_gang_below_its_size(quota=9)

    told = driver.send(END_FULL, a_quota(gpus=6, version=2))

    assert 6 == len(only(WorkloadResized, told).placement.pods)


@pytest.mark.parametrize(("preemptible", "pods"), [(True, 8), (False, 6)])
def test_a_gang_that_nobody_may_evict_grows_within_what_its_queue_owns(preemptible, pods):
    driver = a_gang_below_its_size(quota=9, preemptible=preemptible)

    told = driver.send(
        a_quota("all", gpus=0, kind="cohort", version=2),
        a_quota("lender", gpus=10, parent="all", version=2),
        a_quota(gpus=6, parent="all", version=2),
        END_FULL,
    )

    assert pods == len(only(WorkloadResized, told).placement.pods)


@pytest.mark.parametrize(
    ("percent", "at_limit", "spot_flavors", "pods"),
    [
        pytest.param(99, AtLimit.STOP, (), 8, id="not spent yet"),
        pytest.param(100, AtLimit.WARN, (), 8, id="only told"),
        pytest.param(100, AtLimit.STOP, (), 0, id="nothing starts"),
        pytest.param(100, AtLimit.NOMINAL, (), 6, id="what its queue owns"),
        pytest.param(100, AtLimit.SPOT, ("a100",), 0, id="not a spot flavor"),
        pytest.param(100, AtLimit.SPOT, ("a100", "h100"), 8, id="a spot flavor"),
    ],
)
def test_a_gang_grows_as_a_spent_budget_allows(percent, at_limit, spot_flavors, pods):
    driver = a_gang_below_its_size(quota=9)
    spent = replace(budget_told("red", percent), at_limit=at_limit, spot_flavors=spot_flavors)

    told = driver.send(
        spent,
        replace(spent, percent=0, at_ms=spent.at_ms - 1),
        a_quota("all", gpus=0, kind="cohort", version=2),
        a_quota("lender", gpus=10, parent="all", version=2),
        a_quota(gpus=6, parent="all", version=2),
        END_FULL,
    )

    grown = [len(one.placement.pods) for one in told if isinstance(one, WorkloadResized)]
    assert grown == ([pods] if pods else [])


def test_what_was_told_before_the_newest_fact_changes_nothing():
    driver = a_gang_below_its_size(quota=9)
    spent = budget_told("red", 100)
    later = [replace(spent, at_ms=spent.at_ms + after) for after in (0, 2)]
    driver.send(*later, replace(spent, percent=0, at_ms=spent.at_ms + 1))

    told = driver.send(END_FULL)

    assert [] == [one for one in told if isinstance(one, WorkloadResized)]


def test_a_gang_grows_again_in_the_next_month():
    driver = a_gang_below_its_size(quota=9)
    spent = budget_told("red", 100)
    driver.send(spent, END_FULL)

    driver.send(replace(spent, month="2026-12", percent=0, at_ms=spent.at_ms + 1))

    assert 8 == len(only(WorkloadResized, driver.wait(growth.AGAIN_MS / 1000)).placement.pods)


def test_a_unit_tries_a_few_gangs_and_goes_on_after_a_pause(monkeypatch):
    monkeypatch.setattr(growth, "TRIED_MAX", 1)
    driver = Driver()
    driver.send(reported(a_node()), a_quota())
    for name, count in (("full", 4), ("half", 2), ("w1", 4)):
        driver.send(nominated(a_workload(name, pod_count=count, min_count=2)))
    second = nominated(a_workload("w2", pod_count=4, min_count=2))
    driver.send(pod_fact(PodsFinished, "half", succeeded=True), second)
    driver.send(pod_fact(PodsRunning, "w1"), pod_fact(PodsRunning, "w2"))
    driver.wait(growth.PAUSE_MS / 1000)

    assert "w1" == only(ResizePods, driver.send(END_FULL)).workload_id
    assert "w2" == only(ResizePods, driver.wait(growth.PAUSE_MS / 1000)).workload_id


@pytest.mark.parametrize(("name", "priority"), [("w3", 9), ("w2", -9)])
def test_the_line_of_those_to_grow_is_that_of_the_priorities_of_now(monkeypatch, name, priority):
    monkeypatch.setattr(growth, "TRIED_MAX", 1)
    driver = Driver()
    driver.send(reported(a_node(gpus=10)), a_quota())
    for one, count in (("full", 4), ("half", 2), ("rest", 2), ("w1", 4)):
        driver.send(nominated(a_workload(one, pod_count=count, min_count=2)))
    for ends, after in (("half", "w2"), ("rest", "w3")):
        next_one = nominated(a_workload(after, pod_count=4, min_count=2))
        driver.send(pod_fact(PodsFinished, ends, succeeded=True), next_one)
    driver.send(*(pod_fact(PodsRunning, one) for one in ("w1", "w2", "w3")))
    driver.wait(growth.PAUSE_MS / 1000)
    driver.wait(growth.PAUSE_MS / 1000)
    changed = command(ReprioritiseWorkload, name, priority_class="x", priority=priority)
    first = only(ResizePods, driver.send(END_FULL)).workload_id

    told = [*driver.send(changed), *driver.wait(growth.PAUSE_MS / 1000)]

    assert ("w1", "w3") == (first, only(ResizePods, told).workload_id)


def test_a_gang_gives_its_surplus_back_when_the_pods_are_gone():
    driver = grown()

    accepted, told = shrink(driver, 6)

    asked = only(ResizePods, told)
    assert accepted
    assert (2, 6) == (asked.number, len(asked.placement.pods))
    assert 8_000 == driver.handler.state.cluster.gpu_milli_used()
    fact = only(WorkloadResized, driver.send(resized(2, 6)))
    assert (6, "preempted", "6 of 8 pods: by x") == (
        len(fact.placement.pods), fact.reason, fact.message
    )  # fmt: skip
    assert 6_000 == driver.handler.state.cluster.gpu_milli_used()


@pytest.mark.parametrize("pods_kept", [0, 3, 8, 9])
def test_it_shrinks_to_no_size_that_it_may_not_have(pods_kept):
    driver = grown()

    assert (False, []) == shrink(driver, pods_kept)


def test_one_resize_is_open_at_a_time():
    driver = a_gang_below_its_size()
    driver.send(END_FULL)

    assert (False, []) == shrink(driver, 4)


def test_what_was_made_smaller_is_not_made_larger_at_once():
    driver = grown()
    shrink(driver, 4)

    told = driver.send(resized(2, 4))

    assert ["WorkloadResized"] == [type(one).__name__ for one in told]
    only(ResizePods, driver.wait(REST_SECONDS))


def test_an_eviction_during_a_resize_gives_back_all_of_it():
    driver = a_gang_below_its_size()
    driver.send(END_FULL)

    only(EvictPods, driver.send(command(RequestEviction, "w1")))

    assert [] == driver.send(resized())
    driver.send(nominated(a_workload("next", gpus=8)), pod_fact(PodsGone, "w1"))
    assert State.PLACED is driver.state("next")


def test_the_end_of_a_gang_says_which_size_ends():
    driver = grown()

    (fact,) = driver.send(pod_fact(PodsFinished, "w1", succeeded=True))

    assert (1, 1) == (fact.released_attempt, fact.released_resizes)


@pytest.mark.parametrize("answer", [resized(7), refused(7)])
def test_an_answer_to_another_resize_changes_nothing(answer):
    driver = a_gang_below_its_size()
    driver.send(END_FULL)

    assert [] == driver.send(answer)
    assert driver.record().resize.open


def test_a_resize_is_read_back_as_it_was_written():
    driver = a_gang_below_its_size()
    driver.send(END_FULL)
    resize = driver.record().resize

    assert resize == msgspec.json.decode(msgspec.json.encode(resize), type=Resize)


def test_the_next_attempt_begins_without_resizes():
    driver = grown()
    driver.send(command(RequestEviction, "w1"))
    driver.send(pod_fact(PodsGone, "w1"))

    driver.send(nominated(a_workload("w1", pod_count=8, min_count=4), number=2))

    assert (0, 2) == (driver.record().resize.changes, driver.record().attempt)
