"""What comes free of a quota is kept for the first who lacks it; others go around him."""

from __future__ import annotations

from typing import Any

import msgspec

from services.placement.cycle import scheduling_cycle
from shared.core.model.value import replace
from shared.events.pods import PodsFinished, PodsRunning
from shared.events.workloads import CancelWorkload, PlacementRefused
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
from tests.unit.placement.trying import placed

SECONDS = 100


def wants(name, queue, gpus=1, seconds=SECONDS, **more):
    """All of one priority, unless `order` says so."""
    order, flavors = more.pop("order", 0), more.pop("flavors", ("h100",))
    nomination = {one: more.pop(one) for one in ("within_nominal", "next_of_own") if one in more}
    one = a_workload(
        name, queue=queue, team=queue, gpus=gpus, expected_duration_seconds=seconds, **more
    )
    return msgspec.structs.replace(nominated(one, order=order, flavors=flavors), **nomination)


def ends(driver, *names):
    """Work that ends, and who starts therefore."""
    return placed(driver.send(*(pod_fact(PodsFinished, one, succeeded=True) for one in names)))


def all_used(*, apart_seconds=10, head_after_hours=72, **owned):
    """Of more GPUs quota has 16, all of which run work of `b`; the first for 100 seconds."""
    driver = Driver(head_after_hours=head_after_hours)
    driver.send(a_quota("top", gpus=0, kind="cohort"))
    for name, gpus in (owned or {"a": 8, "b": 8}).items():
        driver.send(a_quota(name, gpus=gpus, parent="top"))
    driver.send(*(reported(a_node(f"n{at}")) for at in range(4)))
    names = [f"b{at:02}" for at in range(16)]
    lengths = [SECONDS + at * apart_seconds for at in range(16)]
    driver.send(*(wants(name, "b", seconds=one) for name, one in zip(names, lengths, strict=True)))
    driver.send(*(pod_fact(PodsRunning, name) for name in names))
    return driver


def kept_from(driver, name):
    """What it was told of quota that is kept for another."""
    message = driver.record(name).message
    return message if "is kept for work of" in message else ""


def test_who_comes_later_does_not_take_what_comes_free_bit_by_bit():
    driver = all_used()
    driver.send(wants("gang", "a", 4, pod_count=2))
    driver.wait(50)
    driver.send(wants("later", "b", seconds=1_000))

    for at in range(7):
        assert [] == ends(driver, f"b{at:02}")

    message = kept_from(driver, "later")
    assert "what comes free of top (flavor h100) is kept for work of queue a" in message
    assert "needs gpu=8" in message
    assert ["gang"] == ends(driver, "b07")
    assert ["later"] == ends(driver, "b08"), "it waits for nobody now"


def test_who_will_have_ended_by_then_goes_first():
    driver = all_used()
    driver.send(wants("gang", "a", 4, pod_count=2))
    driver.wait(50)  # the gang is expected to start in 120 seconds

    driver.send(wants("long", "b", seconds=121), wants("brief", "b", seconds=120))

    assert ["brief"] == ends(driver, "b00")
    assert [] == ends(driver, "b01")


def test_what_is_left_over_beside_it_then_is_free_for_all():
    driver = all_used(apart_seconds=0)
    driver.send(wants("gang", "a", 4, pod_count=2))
    driver.wait(50)  # in 50 seconds all end, and 16 are free: 8 beside the gang

    driver.send(*(wants(f"later{at}", "b") for at in range(9)))

    started = [name for at in range(8) for name in ends(driver, f"b{at:02}")]
    assert [f"later{at}" for at in range(8)] == started
    assert ["gang", "later8"] == ends(driver, *(f"b{at:02}" for at in range(8, 16)), "later0")


def test_who_comes_before_it_or_takes_what_its_queue_owns_is_not_held_back():
    driver = all_used(a=8, b=4, c=4)
    driver.send(wants("gang", "a", 4, pod_count=2, order=1))
    driver.wait(50)
    later = {"seconds": 1_000, "order": 2}

    driver.send(wants("first", "b", seconds=1_000, order=0), wants("own", "c", **later))
    driver.send(wants("borrows", "b", **later), wants("same", "a", **later))

    assert ["first"] == ends(driver, "b00")
    assert ["own"] == ends(driver, "b01")
    assert [] == ends(driver, "b02", "b03")
    assert kept_from(driver, "borrows")
    assert kept_from(driver, "same"), "in its own queue the order holds whoever owns it"


def test_those_who_were_held_back_go_on_when_it_leaves():
    driver = all_used()
    driver.send(wants("gang", "a", 4, pod_count=2))
    driver.wait(50)
    driver.send(wants("later", "b", seconds=1_000))
    assert [] == ends(driver, "b00")

    assert ["later"] == placed(driver.send(command(CancelWorkload, "gang")))


def test_an_elastic_gang_does_not_grow_into_what_is_kept():
    driver = all_used()
    elastic = wants("elastic", "b", pod_count=4, min_count=1, seconds=1_000)
    driver.send(elastic)
    assert ["elastic"] == ends(driver, "b00")
    driver.send(pod_fact(PodsRunning, "elastic"), wants("gang", "a", 4, pod_count=2))
    driver.wait(1)

    ends(driver, "b01", "b02")
    driver.wait(60)

    assert 1 == len(driver.placement("elastic").pods)
    driver.send(command(CancelWorkload, "gang"))
    driver.wait(60)
    assert 3 == len(driver.placement("elastic").pods)


def test_without_lengths_what_runs_is_expected_to_end_before_what_begins_later():
    driver = all_used()
    driver.send(wants("gang", "a", 4, pod_count=2))
    driver.wait(1)
    unknown = a_workload("unknown", queue="b", team="b")

    told = driver.send(nominated(unknown), pod_fact(PodsFinished, "b00", succeeded=True))

    assert [] == placed(told)
    assert any(isinstance(one, PlacementRefused) for one in told)


def test_its_own_limit_holds_back_nobody_of_another_queue():
    driver = all_used()
    driver.send(a_quota("a", gpus=8, parent="top", borrowing=0, version=2))
    assert ["mine"] == (ends(driver, "b00"), placed(driver.send(wants("mine", "a"))))[1]
    driver.send(pod_fact(PodsRunning, "mine"))

    driver.send(wants("gang", "a", 4, pod_count=2))
    driver.wait(50)
    assert not kept_from(driver, "gang")
    driver.send(a_quota("top", gpus=16, kind="cohort", version=2))
    driver.wait(10)

    assert ["other"] == placed(driver.send(wants("other", "b", seconds=1_000)))
    assert [] == placed(driver.send(wants("same", "a", seconds=1_000, order=1)))


def test_who_is_old_comes_before_higher_priority():
    driver = all_used(head_after_hours=1)
    driver.send(wants("old", "a", 8, pod_count=1, order=5))
    driver.wait(3_601)
    young = wants("young", "b", seconds=100_000, order=1)
    born = replace(young.workload, submitted_at_ms=driver.now_ms)

    driver.send(msgspec.structs.replace(young, workload=born))

    assert [] == ends(driver, "b00")
    assert kept_from(driver, "young")


def test_it_is_worked_out_anew_when_the_time_has_passed_though_nothing_else_happens():
    driver = all_used(apart_seconds=0)
    driver.send(wants("gang", "a", 4, pod_count=4))
    driver.wait(60)
    driver.send(wants("later", "b", seconds=45))
    assert [] == ends(driver, "b00"), "all end in 40 seconds"

    placed_later = [placed(driver.wait(5)) for _ in range(10)]

    # They do not, and are expected to last twice as long: 45 seconds, or even 90, are less.
    assert [["later"]] == [one for one in placed_later if one]


def test_quota_is_kept_for_whom_nodes_were_promised():
    driver = Driver()
    driver.send(a_quota("top", gpus=0, kind="cohort"), a_quota("x", gpus=100))
    driver.send(a_quota("a", gpus=8, parent="top"), a_quota("b", gpus=2, parent="top"))
    for at in range(3):
        length = SECONDS * (1 + at)
        driver.send(reported(a_node(f"n{at}")), wants(f"x{at}", "x", 5, seconds=length))
        driver.send(pod_fact(PodsRunning, f"x{at}"))
    driver.send(wants("whole", "a", 8))
    driver.wait(11)

    later = wants("later", "b", 3, seconds=1_000, order=1)
    brief = wants("brief", "b", 3, seconds=80, order=1)

    assert ["brief"] == placed(driver.send(later, brief))
    assert kept_from(driver, "later")
    assert ["whole"] == ends(driver, "brief", "x0")


def test_of_its_flavors_it_is_kept_where_it_is_there_first():
    driver = Driver()
    both: Any = {"flavors": ("h100", "a100")}
    driver.send(a_quota("top", gpus=0, kind="cohort", **both))
    for name in ("a", "b"):
        driver.send(a_quota(name, gpus=4, parent="top", **both))
    driver.send(reported(a_node("n0", gpus=16)))
    driver.send(reported(a_node("n1", gpus=16, flavor="a100", product="A100")))
    for at in range(8):
        driver.send(wants(f"h{at}", "b", seconds=100 + at))
        driver.send(wants(f"o{at}", "b", seconds=50 + at, flavors=("a100",)))
        driver.send(pod_fact(PodsRunning, f"h{at}"), pod_fact(PodsRunning, f"o{at}"))
    driver.send(wants("gang", "a", 4, **both))
    driver.wait(2)
    later = {"seconds": 1_000, "order": 1}
    driver.send(wants("h", "b", **later), wants("o", "b", flavors=("a100",), **later))

    assert ["h"] == ends(driver, "h0", "o0")


def test_who_may_not_borrow_has_kept_for_it_what_its_queue_owns():
    driver = all_used()
    driver.send(wants("gang", "a", 4, pod_count=2, within_nominal=True))
    driver.send(wants("too-much", "a", 5, pod_count=2, within_nominal=True))
    driver.wait(50)
    driver.send(wants("later", "b", seconds=1_000, order=1))
    assert [] == ends(driver, "b00")

    assert ["later"] == placed(driver.send(command(CancelWorkload, "gang")))


def test_quota_is_kept_for_the_next_of_a_queue_before_lower_priority():
    driver = Driver()
    driver.send(a_quota("a", gpus=4), reported(a_node("n0")))
    for at in range(4):
        driver.send(wants(f"a{at}", "a", seconds=100 + at))
        driver.send(pod_fact(PodsRunning, f"a{at}"))
    driver.send(wants("next", "a", 4, next_of_own=True))
    driver.wait(2)
    driver.send(wants("later", "a", seconds=1_000, order=1))

    assert [] == ends(driver, "a0", "a1", "a2")
    assert ["next"] == ends(driver, "a3")


def test_what_is_due_at_once_after_a_start_is_another_message_than_after_the_last_start(
    monkeypatch,
):
    monkeypatch.setattr(scheduling_cycle, "PLACED_MAX", 1)

    def ids_after_a_start(seconds):
        driver = Driver()
        driver.now_ms += 1000 * seconds
        driver.send(reported(a_node()), a_quota("q", gpus=8), a_quota("none", gpus=0))
        lacks = wants("lacks", "none", gpus=2)
        driver.send(lacks, *(wants(name, "q", order=1) for name in ("w1", "w2", "w3")))
        assert driver.handler.cell.cycle.unfinished, "the unit was cut short before they were made"
        return {one.event.id for one in driver.handler.due(driver.now_ms) if "heads" in one.topic}

    first, second = ids_after_a_start(0), ids_after_a_start(60)

    assert (1, 1, set()) == (len(first), len(second), first & second)
