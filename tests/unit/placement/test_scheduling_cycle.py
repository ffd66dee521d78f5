"""In which order open nominations are tried, and what they are told."""

from __future__ import annotations

import pytest

from services.placement.cycle import attempts, scheduling_cycle
from shared.core.model.decision import Reason
from shared.core.model.lifecycle import State
from shared.core.model.nouns import GpuRequest
from shared.events.nodes import GpuHealthReported
from shared.events.pods import PodsFinished, PodsGone
from shared.events.quotas import NominationWithdrawn
from shared.events.workloads import CancelWorkload
from tests.support.placement_driver import (
    a_node,
    a_quota,
    a_workload,
    command,
    nominated,
    pod_fact,
    reported,
)
from tests.unit.placement.trying import driver_with, fill, free, placed, refusals


def test_the_smallest_order_key_is_placed_first_whatever_came_first():
    driver = driver_with(a_node())
    names = [nominated(a_workload(f"w{key}", gpus=1 + key), order=key) for key in (3, 1, 2, 0)]

    assert ["w0", "w1", "w2"] == placed(driver.send(*names))


def test_a_free_node_goes_to_the_smallest_order_key_over_all_classes():
    driver = driver_with(a_node())
    fill(driver)
    driver.send(nominated(a_workload("late", gpus=2), order=9))
    driver.send(nominated(a_workload("early", gpus=7), order=1))

    assert ["early"] == placed(free(driver))


def test_of_equal_requests_only_the_first_is_tried_and_all_are_told_why(tried):
    driver = driver_with(a_node())
    fill(driver)

    payloads = driver.send(*(nominated(a_workload(f"w{n}"), order=n) for n in range(5)))

    assert ["full", "w0"] == tried
    assert {(f"w{n}", Reason.NO_CAPACITY) for n in range(5)} == set(refusals(payloads))


def test_a_request_like_one_that_rests_is_told_at_once_and_not_tried(tried):
    driver = driver_with(a_node())
    fill(driver)
    driver.send(nominated(a_workload("w1"), order=1))

    payloads = driver.send(nominated(a_workload("w0"), order=0))

    assert ["full", "w1"] == tried
    assert [("w0", Reason.NO_CAPACITY)] == refusals(payloads)


def test_a_reason_is_told_once():
    driver = driver_with(a_node(), quota=100)
    fill(driver)
    driver.send(nominated(a_workload("w1")))

    again = driver.send(a_quota(gpus=99, version=2), a_quota(gpus=8, version=3))
    other = driver.send(reported(a_node("n2")))

    assert [] == refusals(again)
    assert [("w1", Reason.WAITING_FOR_QUOTA)] == refusals(other)


def test_a_new_reason_is_told_to_the_whole_class():
    driver = driver_with(a_node(), quota=8)
    fill(driver)
    driver.send(nominated(a_workload("w1"), order=1), nominated(a_workload("w2"), order=2))

    payloads = driver.send(reported(a_node("n2")))

    assert {("w1", Reason.WAITING_FOR_QUOTA), ("w2", Reason.WAITING_FOR_QUOTA)} == set(
        refusals(payloads)
    )


def test_what_is_placed_at_once_has_its_own_nomination_as_cause():
    driver = driver_with(a_node())
    first, last = (driver.message(nominated(a_workload(name))) for name in ("w1", "w2"))

    driver.take([first, last])

    causes = {emit.subject: emit.cause.event.id for emit in driver.outcome.emits}
    assert {"w1": first.event.id, "w2": last.event.id} == causes


def test_a_class_that_comes_again_is_told_again():
    driver = driver_with(a_node())
    fill(driver)
    driver.send(nominated(a_workload("w1")))
    driver.send(command(CancelWorkload, "w1"))

    payloads = driver.send(nominated(a_workload("w2"), order=1), nominated(a_workload("w3")))

    assert {"w2", "w3"} == {name for name, _ in refusals(payloads)}


def test_what_comes_behind_a_placed_class_head_is_told_why_it_waits():
    driver = driver_with(a_node(gpus=1))

    payloads = driver.send(*(nominated(a_workload(f"w{n}"), order=n) for n in range(3)))

    assert ["w0"] == placed(payloads)
    assert ["w1", "w2"] == sorted(name for name, _ in refusals(payloads))


def test_a_strict_queue_tries_nothing_behind_its_refused_head(tried):
    driver = driver_with(a_node())
    fill(driver, gpus=4)

    payloads = driver.send(
        nominated(a_workload("head", gpus=8), order=0, strict=True),
        nominated(a_workload("small", gpus=1), order=1, strict=True),
    )

    assert [] == placed(payloads)
    assert ["full", "head"] == tried
    assert ["head", "small"] == placed(free(driver)) + placed(
        driver.send(pod_fact(PodsFinished, "head", succeeded=True))
    )


def test_who_waits_behind_the_head_of_a_strict_queue_hears_that_and_not_what_the_head_lacks():
    driver = driver_with(a_node())
    fill(driver, gpus=4)
    driver.send(
        nominated(a_workload("head", gpus=8), order=0, strict=True),
        nominated(a_workload("small", gpus=1), order=1, strict=True),
    )
    driver.send(nominated(a_workload("late", gpus=1), order=2, strict=True))

    told = {one: driver.record(one) for one in ("head", "small", "late")}

    assert told["head"].refused_as == Reason.NO_CAPACITY
    assert told["small"].refused_as == told["late"].refused_as == Reason.BEHIND_HEAD
    assert "head is ahead" in told["small"].message
    assert told["late"].message == told["small"].message


def test_a_queue_that_is_not_strict_goes_around_its_refused_head():
    driver = driver_with(a_node())
    fill(driver, gpus=4)

    payloads = driver.send(
        nominated(a_workload("head", gpus=8), order=0),
        nominated(a_workload("small", gpus=1), order=1),
    )

    assert ["small"] == placed(payloads)


@pytest.mark.parametrize(
    "leaves",
    [command(CancelWorkload, "head"), NominationWithdrawn(workload_id="head", nomination=1)],
    ids=["cancelled", "withdrawn"],
)
def test_when_the_refused_head_of_a_strict_queue_leaves_the_next_is_tried(leaves):
    driver = driver_with(a_node())
    fill(driver, gpus=4)
    driver.send(
        nominated(a_workload("head", gpus=8), order=0, strict=True),
        nominated(a_workload("small", gpus=1), order=1, strict=True),
    )

    assert ["small"] == placed(driver.send(leaves))


def test_a_new_head_of_a_strict_queue_is_tried_before_the_refused_one(tried):
    driver = driver_with(a_node())
    fill(driver, gpus=4)
    driver.send(nominated(a_workload("head", gpus=8), order=5, strict=True))

    payloads = driver.send(nominated(a_workload("urgent", gpus=1), order=0, strict=True))

    assert ["urgent"] == placed(payloads)


def test_two_strict_queues_do_not_hold_each_other_up():
    driver = driver_with(a_node())
    driver.send(a_quota("other"))
    fill(driver, gpus=4)

    payloads = driver.send(
        nominated(a_workload("head", gpus=8), order=0, strict=True),
        nominated(a_workload("free", gpus=1, queue="other"), order=1, strict=True),
    )

    assert ["free"] == placed(payloads)


def test_the_permitted_flavors_are_tried_in_the_order_of_quota():
    driver = driver_with(a_node("h"), a_node("a", flavor="a100", product="A100"))
    driver.send(a_quota(version=2, flavors=("h100", "a100")))

    driver.send(nominated(a_workload(), flavors=("a100", "h100")))

    assert "a100" == driver.placement().flavor


def test_a_gang_that_does_not_fit_whole_leaves_nothing_behind():
    driver = driver_with(a_node("n1"), a_node("n2"))
    fill(driver, gpus=1)

    payloads = driver.send(nominated(a_workload("gang", gpus=8, pod_count=2)))

    assert [("gang", Reason.GANG_SHORT)] == refusals(payloads)
    assert 1000 == driver.handler.state.cluster.gpu_milli_used()


@pytest.mark.parametrize(
    "gpu",
    [GpuRequest(milli=300, memory_mib=10_000), GpuRequest(mig_profile="3g.40gb", mig_count=1)],
    ids=["share", "mig"],
)
def test_parts_of_a_gpu_are_given_until_it_is_full_and_again_when_one_is_given_back(gpu):
    driver = driver_with(a_node(gpus=1 if gpu.milli else 0, mig=0 if gpu.milli else 1))
    names = [f"w{number}" for number in range(5)]
    fit = 3 if gpu.milli else 2

    payloads = driver.send(
        *(nominated(a_workload(name, gpu=gpu), order=n) for n, name in enumerate(names))
    )

    assert names[:fit] == placed(payloads)
    assert [names[fit]] == placed(free(driver, names[0]))


def test_trials_that_were_cut_short_go_on_in_the_next_unit(monkeypatch):
    monkeypatch.setattr(scheduling_cycle, "PLACED_MAX", 2)
    driver = driver_with(a_node())

    first = driver.send(*(nominated(a_workload(f"w{n}"), order=n) for n in range(5)))
    assert ["w0", "w1"] == placed(first)
    assert 0 == driver.handler.next_due_ms()

    assert ["w2", "w3"] == placed(driver.due())
    assert ["w4"] == placed(driver.due())
    assert [] == driver.handler.due(driver.now_ms)


def test_a_long_class_hears_of_a_new_reason_within_bounds(monkeypatch):
    monkeypatch.setattr(attempts, "TOLD_MAX", 3)
    driver = driver_with(a_node())
    fill(driver)

    payloads = driver.send(*(nominated(a_workload(f"w{n}"), order=n) for n in range(9)))

    assert 3 <= len(refusals(payloads)) <= 4


def test_what_is_told_later_has_another_cause_than_its_nomination():
    """An event id is (cause, index): a cause used in two units would give one id twice."""
    driver = driver_with(a_node())
    fill(driver)
    driver.send(nominated(a_workload("w1")))

    assert ["w1"] == placed(free(driver))  # the driver checks that no event id comes twice


def test_a_nomination_told_again_with_a_new_number_moves_it():
    driver = driver_with(a_node())
    fill(driver)
    driver.send(
        nominated(a_workload("w1", gpus=6), order=1), nominated(a_workload("w2", gpus=5), order=2)
    )
    driver.send(nominated(a_workload("w1", gpus=6), number=2, order=3))

    assert ["w2"] == placed(free(driver))


def test_an_evicted_workload_gives_its_place_to_the_next_in_one_unit():
    driver = driver_with(a_node())
    fill(driver)
    driver.send(nominated(a_workload("w1", gpus=8)))

    payloads = driver.send(pod_fact(PodsGone, "full"))

    assert ["WorkloadEvicted", "WorkloadRequeued", "WorkloadPlaced", "BindWorkload"] == [
        type(one).__name__ for one in payloads
    ]


def test_a_node_that_recovers_takes_work_again():
    driver = driver_with(a_node())
    driver.send(GpuHealthReported(node="n1", gpu=-1, healthy=False, generation=2))
    driver.send(nominated(a_workload("w1")))
    assert State.QUEUED is driver.state("w1")

    payloads = driver.send(GpuHealthReported(node="n1", gpu=-1, healthy=True, generation=3))

    assert ["w1"] == placed(payloads)


@pytest.mark.parametrize("generation", [1, 2])
def test_news_of_a_node_no_newer_than_the_last_is_ignored(generation):
    driver = driver_with()
    driver.send(reported(a_node(gpus=2), 2))

    driver.send(reported(a_node(gpus=8), generation))
    driver.send(GpuHealthReported(node="n1", gpu=0, healthy=False, generation=generation))

    assert ["w1"] == placed(driver.send(nominated(a_workload("w1", gpus=2))))
    assert 2000 == driver.handler.state.cluster.gpu_milli_total()


def test_a_unit_without_messages_tries_and_tells_nothing(tried):
    """It has no cause of its own: ids of events would come twice."""
    driver = driver_with(a_node())
    driver.send(nominated(a_workload(pod_count=2, gpus=8)))
    driver.handler.state.waiting.requeue(lambda _: True)
    tried.clear()

    assert [] == driver.handler.decide([], driver.now_ms).emits
    assert [] == tried
