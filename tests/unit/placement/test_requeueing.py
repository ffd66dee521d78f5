"""Who is tried again when nodes or quota come free, and who rests on."""

from __future__ import annotations

import pytest

from services.placement.cycle import inadmissible, scheduling_cycle
from services.placement.unit.cell_state import CellState
from shared.core.model.nouns import GpuChoice
from shared.events.nodes import GpuHealthReported
from shared.events.pods import PodsFinished, PodsRunning
from shared.events.workloads import CancelWorkload
from tests.support.placement_driver import (
    FLAVOR,
    QUEUE,
    a_node,
    a_quota,
    a_workload,
    command,
    nominated,
    pod_fact,
)
from tests.unit.placement.trying import driver_with, fill, free, placed, refusals

H100 = a_node().product


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
    monkeypatch.setattr(scheduling_cycle, "PLACED_MAX", 1)

    assert ["a"] == placed(free(crowded, "two"))
    assert ["b"] == placed(crowded.due())
    assert [] == placed(crowded.due())
    assert ["a", "b"] == tried


@pytest.fixture
def two_products():
    """Two A100 and two H100, taken one by one; two queues wait for an H100."""
    driver = driver_with(a_node("a1", gpus=2, product="A100"), a_node("n1", gpus=2))
    driver.send(a_quota("other"))
    for name, product in (("a", "A100"), ("a2", "A100"), ("h1", H100), ("h2", H100)):
        driver.send(nominated(a_workload(name, gpu_choice=GpuChoice(products=(product,)))))
    for order, (name, queue) in enumerate((("first", QUEUE), ("second", "other"))):
        waits = a_workload(name, queue=queue, gpu_choice=GpuChoice(products=(H100,)))
        driver.send(nominated(waits, order=order))
    return driver


def test_who_cannot_use_what_is_left_of_his_room_is_not_tried(two_products, tried):
    assert [] == placed(free(two_products, "a")) == tried

    two_products.send(nominated(a_workload("b", gpu_choice=GpuChoice(products=("A100",)))))
    tried.clear()
    ended = [pod_fact(PodsFinished, name, succeeded=True) for name in ("b", "h1")]
    assert ["first"] == placed(two_products.send(*ended)) == tried
    assert ["second"] == placed(free(two_products, "h2")) == tried[1:]


def test_who_lacks_nodes_is_looked_at_every_minute_and_tried_if_he_gains_some(tried, monkeypatch):
    driver = driver_with(a_node("n1"), a_node("n2", gpus=0))
    fill(driver, gpus=8)
    for number in range(5):
        fill(driver, gpus=0, name=f"cpu-{number}")
    looked: list[str] = []
    pins = {1, 2}
    promises = driver.handler.state.promises
    refused = promises.refused

    def noted(record, *rest):
        looked.append(record.workload.id)
        return refused(record, *rest)

    def pins_for(_, record):
        return tuple(pins) if record.workload.id == "wide" else ()

    monkeypatch.setattr(CellState, "pins_for", pins_for)
    driver.send(nominated(a_workload("wide", gpus=8)), nominated(a_workload("one"), order=1))
    monkeypatch.setattr(promises, "refused", noted)
    tried.clear()

    for number, (later_ms, may_use) in enumerate(
        [(59_000, {1, 2}), (1_000, {1}), (59_000, {1, 2}), (1_000, {1, 2})]
    ):
        driver.now_ms += later_ms
        pins = may_use
        assert [] == tried
        free(driver, f"cpu-{number}")

    assert {"wide"} == set(tried)
    assert ["wide", "one"] == looked[:2] == looked[2:4]


def test_once_the_first_of_a_class_has_started_the_next_is_promised_a_start(tried):
    driver = driver_with(a_node())
    fill(driver)
    for order, name in enumerate(("first", "next")):
        wide = a_workload(name, gpus=8, expected_duration_seconds=600)
        driver.send(nominated(wide, order=order))
    promises = driver.handler.state.promises
    assert promises.of("next") is None
    tried.clear()

    assert ["first"] == placed(free(driver)) == tried
    assert promises.of("next") is not None


def test_who_comes_to_a_class_that_is_awake_hears_why_he_waits(crowded, monkeypatch):
    monkeypatch.setattr(scheduling_cycle, "PLACED_MAX", 1)
    free(crowded, "two")
    like_c = a_workload("like-c", cpu_milli=1_002)

    payloads = crowded.send(nominated(like_c, order=9))

    assert ["b"] == placed(payloads)
    assert "like-c" in dict(refusals([*payloads, *crowded.due()]))


def test_who_has_gone_or_is_to_be_tried_anyway_is_not_looked_at(crowded, tried, monkeypatch):
    monkeypatch.setattr(scheduling_cycle, "PLACED_MAX", 1)
    crowded.send(nominated(a_workload("goes", cpu_milli=2_000), order=9))
    crowded.send(command(CancelWorkload, "goes"))
    tried.clear()
    assert ["a"] == placed(free(crowded, "two"))
    crowded.now_ms += inadmissible.LOOK_AFTER_MS

    assert ["b"] == placed(free(crowded))
    assert ["c"] == placed(crowded.due())
    assert ["a", "b", "c"] == tried


def test_only_reasons_of_who_waits_are_kept_once_there_are_many(crowded, tried, monkeypatch):
    monkeypatch.setattr(inadmissible, "REASONS_MAX", 1)
    crowded.send(command(CancelWorkload, "a"))
    tried.clear()

    like_b = nominated(a_workload("like-b", cpu_milli=1_001), order=9)
    assert ["like-b"] == [name for name, _ in refusals(crowded.send(like_b))]
    assert [] == tried


def test_who_has_waited_long_is_promised_a_start_without_being_tried(tried):
    driver = driver_with(a_node("n1"), a_node("n2", gpus=0))
    fill(driver, gpus=8)
    fill(driver, gpus=0, name="cpu")
    driver.send(nominated(a_workload("small", expected_duration_seconds=600), order=1))
    assert driver.handler.state.promises.of("small") is None
    tried.clear()
    driver.now_ms += 7 * 3_600_000

    free(driver, "cpu")

    assert [] == tried
    assert driver.handler.state.promises.of("small") is not None


def test_refused_again_it_is_no_new_demand(tried):
    driver = driver_with(a_node("n1", gpus=4))
    fill(driver, gpus=4)
    small, wide = a_workload("small", gpus=2), a_workload("wide", gpus=2, pod_count=3)
    driver.send(nominated(small), nominated(wide, order=1))

    def asked():
        mix = driver.handler.state.cluster.packing(FLAVOR).mix
        return {one.gpus: many for one, many in mix.counts.items()}

    assert {4: 1, 2: 1} == asked()
    tried.clear()
    assert ["small"] == placed(free(driver))
    assert ["small", "wide"] == tried
    assert {4: 1, 2: 2} == asked()


def test_the_next_of_a_strict_queue_is_not_refused_for_what_the_first_lacked():
    driver = driver_with(a_node(gpus=4))
    driver.send(nominated(a_workload("wide", gpus=8), strict=True))
    driver.send(nominated(a_workload("small"), strict=True, order=1))

    assert ["small"] == placed(driver.send(command(CancelWorkload, "wide")))
