"""Who may be evicted across queues, and whose quota is respected, in cases small enough to see."""

from __future__ import annotations

from shared.core.preemption.victims.choose import (
    EvictionPlan,
    NoEviction,
    Obstacle,
    PreemptionRules,
    Rule,
)
from shared.core.quota.queue_policy import QueuePolicy, Reclaim
from tests.support import placing
from tests.support.evicting import NOW_MS, Scene, victims, waiting


def test_a_queue_reclaims_its_nominal_quota_from_one_above_its_own() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=1)
    full.queue("other", nominal=1)
    full.put("a", queue="other", ran_ms=500_000)
    full.put("b", queue="other", ran_ms=100_000, priority=100)

    found = full.choose(waiting("p", 1, priority=-5))

    assert victims(found) == ["b"]
    assert isinstance(found, EvictionPlan)
    assert found.rule is Rule.RECLAIM


def test_nobody_takes_from_a_queue_within_its_nominal() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=1)
    full.queue("other", nominal=2)
    full.put("a", queue="other")
    full.put("b", queue="other")

    found = full.choose(waiting("p", 1, priority=1000))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.NOMINAL
    assert "2 GPUs are of queues within their nominal quota" in found.message


def test_of_a_queue_that_borrows_it_is_told_that_its_cohort_is_within_its_nominal() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.cohort("theirs", parent="all")
    full.queue("q", nominal=1)
    full.queue("lender", parent="theirs", nominal=2)
    full.queue("borrower", parent="theirs")
    full.put("a", 2, queue="borrower")

    found = full.choose(waiting("p", 1, priority=1000))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.COHORT_NOMINAL
    assert "2 GPUs are of cohorts within their nominal quota" in found.message


def test_what_would_leave_its_queue_below_its_nominal_is_told_so() -> None:
    full = Scene(placing.node("n0", gpus=8))
    full.queue("q", nominal=4, policy=QueuePolicy(reclaim=Reclaim.NEVER))
    full.queue("other", nominal=4)
    full.put("wide", 6, queue="other")

    found = full.choose(waiting("p", 4))

    assert isinstance(found, NoEviction)
    assert found.obstacle is Obstacle.BELOW_NOMINAL
    assert "6 GPUs would leave their queue or cohort below its nominal quota" in found.message


def test_where_quota_alone_is_short_one_of_the_queue_goes_although_devices_are_free() -> None:
    full = Scene(placing.node("n0", gpus=8))
    full.queue("q", nominal=2)
    full.queue("other", nominal=6)
    full.put("mine", 2, ran_ms=900_000)
    full.put("theirs", 4, queue="other", ran_ms=1000)
    full.tree.charge("other", "a100", (2000, 0, 0))

    found = full.choose(waiting("p", 1, priority=5))

    assert victims(found) == ["mine"]


def test_a_queue_is_not_pushed_below_its_nominal_while_another_way_is_left() -> None:
    full = Scene(placing.node("n0", gpus=6))
    full.queue("q", nominal=2)
    full.queue("other", nominal=4)
    full.put("large", 4, queue="other", ran_ms=1000)
    full.put("small", 2, queue="other", ran_ms=90_000_000)

    found = full.choose(waiting("p", 2))

    assert victims(found) == ["small"]


def test_a_gang_that_needs_borrowed_quota_gives_it_back_whole_if_nobody_else_can() -> None:
    full = Scene(placing.node("n0", gpus=8))
    full.queue("q", nominal=4)
    full.queue("other", nominal=4)
    full.put("wide", 8, queue="other")

    found = full.choose(waiting("p", 1))

    assert victims(found) == ["wide"]
    assert isinstance(found, EvictionPlan)
    assert found.rule is Rule.RECLAIM


def test_nobody_of_the_queue_goes_so_that_it_borrows_more() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q", nominal=1)
    full.queue("other", nominal=3)
    full.put("low", 1)
    full.put("theirs", 1, queue="other")

    grown = full.choose(waiting("p", 3, priority=5))

    assert isinstance(grown, NoEviction)
    assert grown.obstacle is Obstacle.QUOTA


def test_a_queue_of_no_cohort_above_a_lowered_quota_gives_back() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=1)
    full.queue("alone", parent="", nominal=1)
    full.put("a", queue="alone", ran_ms=1000)
    full.put("b", queue="alone", ran_ms=2000)

    found = full.choose(waiting("p", 1))

    assert victims(found) == ["a"]


def test_fair_share_takes_from_a_strictly_larger_share_only() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q")
    full.queue("other")
    full.queue("rest", nominal=4)
    for name in ("a", "b", "c"):
        full.put(name, queue="other")
    full.put("d", queue="q")

    one = full.choose(waiting("p", 1))
    two = full.choose(waiting("p", 2))

    # With one more q has 2 of other's 3; with two more it would have as many as other has now.
    assert isinstance(one, EvictionPlan)
    assert one.rule is Rule.FAIR_SHARE
    assert isinstance(two, NoEviction)
    assert two.obstacle is Obstacle.SHARE


def test_a_debt_counts_as_share_and_goes_back_only_when_it_is_turned_round() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q")
    full.queue("other")
    full.queue("rest", nominal=4)
    full.put("a", 4, queue="other")

    def takes(debt: int) -> bool:
        full.tree.set_debt("other", debt)
        full.tree.set_debt("q", -debt)
        return isinstance(full.choose(waiting("p", 4)), EvictionPlan)

    # All of the pool for all of it: their debts must differ by a whole share.
    assert not takes(0)
    assert not takes(499_999)
    assert takes(500_000)


def test_what_is_owed_waits_for_no_cooldown_but_others_go_first() -> None:
    full = Scene(placing.node("n0", gpus=2))
    full.queue("q", nominal=2)
    full.queue("guest")
    full.put("a", queue="guest", ran_ms=1_000)
    cooling = PreemptionRules(cooldown_until_ms={"a": NOW_MS + 1})

    alone = full.choose(waiting("p", 2), cooling)
    full.put("b", queue="guest", ran_ms=9_000_000)
    beside = full.choose(waiting("p", 1), cooling)

    assert victims(alone) == ["a"]
    assert victims(beside) == ["b"]


def test_who_may_not_borrow_has_nobody_evicted_to_borrow() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q")
    full.queue("other")
    full.queue("lender", nominal=4)
    for name in "abcd":
        full.put(name, queue="other")

    assert len(victims(full.choose(waiting("p", 1)))) == 1, "its share is smaller"
    assert isinstance(full.choose(waiting("p", 1), owned_only=True), NoEviction)


def test_who_may_not_borrow_takes_back_what_his_queue_owns() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q", nominal=2)
    full.queue("other", nominal=2)
    full.put("a", 2, queue="other", ran_ms=1000)
    full.put("b", 2, queue="other")

    assert victims(full.choose(waiting("p", 2), owned_only=True)) == ["a"]
    assert isinstance(full.choose(waiting("p", 3), owned_only=True), NoEviction)


def test_who_may_not_borrow_may_take_the_place_of_a_lower_priority_of_his_queue() -> None:
    full = Scene(placing.node("n0", gpus=4))
    full.queue("q", nominal=2)
    full.queue("other", nominal=2)
    full.put("mine", 2)
    full.put("theirs", 1, queue="other")

    assert victims(full.choose(waiting("p", 2, priority=5), owned_only=True)) == ["mine"]
