"""Whose turn it is among queues: owed first, then the smaller share, then who used less."""

import pytest
from msgspec.structs import replace

from services.placement.state.queue_order import QueueOrder
from shared.core.quota.queue_policy import QueuePolicy
from shared.events.pods import PodsFinished, PodsRunning
from shared.events.quotas import DebtsTold, QueueUsageTold
from shared.events.workloads import WorkloadPlaced
from shared.ports.store import Write
from tests.support.placement_driver import (
    FLAVOR,
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)
from tests.unit.placement.trying import driver_with, fill, free, placed

HALF_LIFE_MS = 604_800_000


def used(queue, gpu_seconds, at_ms=1_000_000):
    return QueueUsageTold(
        queue=queue, gpu_seconds=gpu_seconds, at_ms=at_ms, half_life_ms=HALF_LIFE_MS
    )


def a_cohort_of(*queues, pool=4, gpus=2):
    return (
        a_quota("all", gpus=pool, kind="cohort"),
        *(a_quota(name, gpus=gpus, parent="all") for name in queues),
    )


def test_who_no_longer_owns_enough_where_he_waited_borrows_elsewhere():
    patient = QueuePolicy(borrow_before_preempt=False)
    flavors = (FLAVOR, "a100")
    own, other = a_quota("q", gpus=4, parent="all"), a_quota(gpus=0, flavors=("a100",))
    driver = Driver()
    driver.send(
        reported(a_node("h", gpus=2)),
        reported(a_node("a", gpus=8, flavor="a100")),
        a_quota("all", gpus=9, kind="cohort", flavors=flavors),
        replace(own, flavors=(*own.flavors, *other.flavors), policy=patient),
    )
    gang = nominated(a_workload("gang", queue="q", gpus=1, pod_count=3), flavors=flavors)
    assert [] == placed(driver.send(gang))

    two = nominated(a_workload("two", queue="q", gpus=2), order=1)

    assert ["two", "gang"] == placed(driver.send(two))
    assert "a100" == driver.placement("gang").flavor


def wants(name, queue, order=0, **more):
    return aged(nominated(a_workload(name, queue=queue), **more), order)


def aged(nomination, order):
    return replace(nomination, order_key=(0, order, 0))


def test_of_three_queues_everybody_gets_his_own_before_anybody_borrows():
    driver = Driver()
    driver.send(reported(a_node()), *a_cohort_of("a", "b", "c"))

    payloads = driver.send(
        *(wants(f"a{n}", "a", order=n) for n in range(8)),
        *(wants(f"b{n}", "b", order=10 + n) for n in range(2)),
        *(wants(f"c{n}", "c", order=20 + n) for n in range(2)),
    )

    assert len(placed(payloads)) == 8
    assert set(placed(payloads)[:6]) == {"a0", "a1", "b0", "b1", "c0", "c1"}
    assert placed(payloads)[6:] == ["a2", "a3"]


def test_borrowers_take_turns():
    driver = Driver()
    driver.send(reported(a_node()), *a_cohort_of("a", "b", pool=8, gpus=0))

    payloads = driver.send(
        *(wants(f"a{n}", "a", order=0) for n in range(8)),
        *(wants(f"b{n}", "b", order=0) for n in range(8)),
    )

    assert "".join(one[0] for one in placed(payloads)) == "abababab"


def test_of_equal_shares_the_queue_that_used_less_goes_first():
    driver = Driver()
    driver.send(reported(a_node()), *a_cohort_of("a", "b", pool=1, gpus=0))
    driver.send(used("a", 500), used("b", 400), used("b", 900, at_ms=1))

    payloads = driver.send(wants("a0", "a", order=0), wants("b0", "b", order=7))

    assert placed(payloads) == ["b0"]


def test_use_is_compared_at_one_time():
    """What a used long ago counts half of what it was when it was told."""
    driver = Driver()
    driver.send(reported(a_node()), *a_cohort_of("a", "b", pool=1, gpus=0))
    driver.send(used("a", 700, at_ms=0), used("b", 400, at_ms=HALF_LIFE_MS))

    payloads = driver.send(wants("b0", "b", order=0), wants("a0", "a", order=7))

    assert placed(payloads) == ["a0"]


def test_a_nomination_within_nominal_borrows_nothing():
    driver = Driver()
    driver.send(reported(a_node()), *a_cohort_of("a", "b"))

    three, two = (a_workload(f"a{count}", queue="a", pod_count=count) for count in (3, 2))

    assert placed(driver.send(replace(nominated(three), within_nominal=True))) == []
    assert placed(driver.send(replace(nominated(two), within_nominal=True))) == ["a2"]


def test_who_may_borrow_is_not_held_up_by_an_equal_one_who_may_not():
    driver = Driver()
    driver.send(reported(a_node()), *a_cohort_of("a", "b", gpus=0))

    assert placed(driver.send(replace(wants("stays", "a"), within_nominal=True))) == []
    assert placed(driver.send(wants("leaves", "a", order=1))) == ["leaves"]


@pytest.mark.parametrize(("before", "flavor"), [(True, "other"), (False, "")])
def test_flavors_are_tried_where_the_queue_owns_first(before, flavor):
    driver = Driver()
    own, other = a_quota("a", gpus=1, parent="all"), a_quota(gpus=0, flavors=("other",))
    policy = QueuePolicy(borrow_before_preempt=before)
    driver.send(
        reported(a_node("n1", gpus=1)),
        reported(a_node("n2", flavor="other")),
        a_quota("all", gpus=8, kind="cohort", flavors=("other",)),
        replace(own, flavors=(*own.flavors, *other.flavors), policy=policy),
    )
    first = driver.send(wants("a0", "a", flavors=("other", FLAVOR)))
    assert [one.placement.flavor for one in first if isinstance(one, WorkloadPlaced)] == [FLAVOR]
    driver.send(pod_fact(PodsRunning, "a0"))
    driver.send(pod_fact(PodsFinished, "a0", succeeded=True))
    driver.send(reported(a_node("n1", gpus=1, ready=False), generation=2))

    payloads = driver.send(wants("a1", "a", flavors=("other", FLAVOR)))

    got = [one.placement.flavor for one in payloads if isinstance(one, WorkloadPlaced)]
    assert got == ([flavor] if flavor else [])


async def test_what_was_told_outlives_a_restart():
    driver = Driver()
    turns = driver.handler.state.queue_order
    turns.told(used("a", 500))
    turns.told(used("b", 700, at_ms=500_000))
    (write,) = turns.writes()
    assert isinstance(write, Write)
    assert turns.writes() == ()

    class Rows:
        async def fetch(self, sql):
            if "placement.queue_usage" not in sql:
                return []
            names = ("queue", "gpu_seconds", "at_ms", "half_life_ms")
            return [
                dict(zip(names, row, strict=True)) for row in zip(*write.arguments, strict=True)
            ]

    state = driver.handler.state
    again = QueueOrder(state.usage, state.records)
    await again.load(Rows())

    assert [again._used(one) for one in "abc"] == [turns._used(one) for one in "abc"]
    assert again._used("c") == 0 < again._used("a")


def test_ranks_that_fell_rewind_what_was_left_over(monkeypatch):
    monkeypatch.setattr("services.placement.cycle.scheduling_cycle.PLACED_MAX", 1)
    driver = Driver()
    driver.send(reported(a_node()), *a_cohort_of("a", "b", pool=8, gpus=0))
    driver.send(used("a", 100), used("b", 900))
    first = driver.send(*(wants(f"{name}{n}", name, order=n) for name in "ab" for n in range(2)))
    assert placed(first) == ["a0"]

    payloads = driver.send(used("b", 10, at_ms=2_000_000), used("a", 5_000, at_ms=2_000_000))

    assert placed(payloads) == ["b0"]


def test_who_had_more_than_his_part_waits_behind_who_had_less():
    driver = Driver()
    driver.send(reported(a_node()), *a_cohort_of("a", "b", pool=1, gpus=0))

    payloads = driver.send(
        DebtsTold(debts={"a": 1_000, "b": -1_000}, at_ms=1_000_000),
        DebtsTold(debts={"a": -9_000}, at_ms=999_999),
        wants("w1", "a", order=1),
        wants("w2", "b", order=2),
    )

    assert placed(payloads) == ["w2"]


async def test_debts_are_kept_over_a_restart():
    driver = Driver()
    turns = driver.handler.state.queue_order
    driver.send(DebtsTold(debts={"a": 1_000, "all": -5}, at_ms=1_000_000))
    (write,) = turns_writes(driver)
    rows = [
        {"node": node, "debt": debt, "at_ms": at_ms}
        for node, debt, at_ms in zip(*write.arguments, strict=True)
    ]

    class Reader:
        async def fetch(self, sql):
            return rows if "node_debt" in sql else []

    fresh = Driver()
    await fresh.handler.state.queue_order.load(Reader())

    assert turns.writes() == ()
    assert [fresh.handler.state.usage.tree.node(one).debt for one in ("a", "all")] == [1_000, -5]


def turns_writes(driver):
    return [one for one in driver.outcome.writes if "placement.node_debt" in one.sql]


def test_who_borrows_is_asked_anew_when_use_or_a_limit_changes():
    driver = driver_with(a_node(gpus=4), quota=8)
    driver.send(nominated(a_workload("wide", gpus=8)))
    turns = driver.handler.state.queue_order
    seen = [turns.borrows("wide")]

    fill(driver, gpus=4)
    seen.append(turns.borrows("wide"))
    driver.send(a_quota(gpus=12, version=2))
    seen.append(turns.borrows("wide"))
    driver.send(a_quota(gpus=8, version=3))
    seen.append(turns.borrows("wide"))
    free(driver)
    seen.append(turns.borrows("wide"))
    driver.handler.state.usage.keep([("q", FLAVOR, (1_000, 0, 0), 1)], 1)
    seen.append(turns.borrows("wide"))

    assert [False, True, False, True, False, True] == seen
    assert not turns.borrows("nobody")


def test_the_turn_of_who_waits_follows_what_is_told_and_what_he_asks_for():
    driver = driver_with(a_node("n1", gpus=1))
    fill(driver, gpus=1)
    driver.send(*a_cohort_of("a", pool=8, gpus=1))
    driver.send(
        nominated(a_workload("one", gpus=1, queue="a"), order=1),
        nominated(a_workload("two", gpus=2, queue="a"), order=2),
    )
    turns = driver.handler.state.queue_order

    assert (0, (), 0) == turns.rank("one") == turns.rank_at_least("two")
    assert 1 == turns.rank("two")[0]
    driver.send(used("a", 500))
    assert (0, (), 500) == turns.rank_at_least("one")
    driver.send(a_quota("a", gpus=0, parent="all", version=2))
    before = turns.rank("one")
    assert 1 == before[0]
    driver.send(DebtsTold(debts={"a": 700}, at_ms=1))
    assert before < turns.rank("one") == turns.rank_at_least("one")
