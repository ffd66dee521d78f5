"""Who is nominated although quota has no room, because others could be asked to make it."""

import pytest

from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.decision import Nominate
from shared.core.queueing.nomination.pending import Phase
from shared.core.quota.queue_policy import QueuePolicy, Reclaim, WithinQueue
from shared.core.quota.tree import FlavorLimits, QuotaDocument
from tests.unit.quota.builders import PATIENT, Desk, a_cohort, a_pending, a_queue, gpus

NEVER_INSIDE = QueuePolicy(within_queue=WithinQueue.NEVER)


def run(desk, *pendings, flavor="h100"):
    desk.queue(*pendings)
    for one in pendings:
        desk.core.placed(one, flavor, one.request, 1)
    desk.settle()
    return pendings


def a_cohort_of_two(**rest):
    """`own` has 8 GPUs and uses none, `guest` has none and uses all 8."""
    desk = Desk(
        a_cohort(),
        a_queue("own", parent="c", **rest),
        a_queue("guest", parent="c", flavors={"h100": 0}),
    )
    run(desk, *(a_pending(f"g{number}", 2, queue="guest") for number in range(4)))
    return desk


def ask(desk, *pendings):
    """What is said; nominations in hope of evictions as `*id`."""
    said = desk.queue(*pendings)
    return [f"*{one[1:]}" if desk.hopes.get(one[1:]) and one[0] == "+" else one for one in said]


def test_a_lender_is_nominated_for_what_it_owns_and_borrowers_hold():
    desk = a_cohort_of_two()

    assert ask(desk, a_pending("w1", 8, queue="own")) == ["*w1"]
    assert desk.core.tree.node("own").taken("h100") == (0, 0, 0)


def test_no_more_is_nominated_in_hope_than_the_lender_owns():
    desk = a_cohort_of_two(policy=QueuePolicy(fair_share=False))

    said = ask(desk, *(a_pending(f"w{number}", 3, at=number, queue="own") for number in range(4)))

    assert said == ["*w0", "*w1", "?w2:WaitingForQuota", "?w3:WaitingForQuota"]


def test_hope_ends_with_the_nomination_and_the_next_has_it():
    desk = a_cohort_of_two(policy=QueuePolicy(fair_share=False))
    first, second = (a_pending(name, 8, at=at, queue="own") for at, name in enumerate("ab"))
    ask(desk, first, second)
    desk.core.refused(first, 1)
    assert desk.settle() == []

    desk.core.leave(first)

    assert desk.settle() == ["-a", "+b"]
    assert desk.core.line("own").hoped == {"h100": gpus(8)}


def test_what_hoped_is_placed_and_counted_once():
    desk = a_cohort_of_two()
    waiting = a_pending("w1", 2, queue="own")
    ask(desk, waiting)
    desk.core.refused(waiting, 1)

    desk.core.tree.charge("guest", "h100", gpus(2), -1)
    desk.core.placed(waiting, "h100", waiting.request, 1)

    assert desk.core.line("own").hoped == {}
    assert desk.core.tree.node("own").taken("h100") == gpus(2)


@pytest.mark.parametrize("policy", [PATIENT, QueuePolicy(reclaim=Reclaim.NEVER, fair_share=False)])
def test_who_may_not_reclaim_waits(policy):
    desk = a_cohort_of_two(policy=policy)

    assert ask(desk, a_pending("w1", 8, queue="own")) == ["?w1:WaitingForQuota"]


def test_work_of_lower_priority_of_the_same_queue_could_go():
    desk = Desk(a_queue(flavors={"h100": 4}))
    run(desk, a_pending("low", 2, priority=1), a_pending("high", 2, priority=5))

    assert ask(desk, a_pending("same", 1, priority=1)) == ["?same:WaitingForQuota"]
    assert ask(desk, a_pending("much", 3, priority=5)) == ["?much:WaitingForQuota"]
    assert ask(desk, a_pending("fits", 2, priority=5)) == ["*fits"]
    assert ask(desk, a_pending("more", 1, priority=5)) == ["?more:WaitingForQuota"]


def test_what_a_queue_never_lends_is_its_own_however_much_the_cohort_is_over():
    kept = FlavorLimits(
        nominal=(4000, UNLIMITED, UNLIMITED), lending_limit=(0, UNLIMITED, UNLIMITED)
    )
    own = QuotaDocument(name="own", kind="queue", version=1, parent="c", flavors={"h100": kept})
    desk = Desk(a_cohort(), own, a_queue("guest", parent="c", flavors={"h100": 4}))
    run(desk, a_pending("low", 4, queue="own", priority=1), a_pending("g1", 4, queue="guest"))
    desk.core.apply(a_queue("guest", 2, "c", flavors={"h100": 2}))
    desk.settle()
    assert desk.core.tree.node("c").available("h100")[0] == -2000

    assert ask(desk, a_pending("w1", 4, queue="own", priority=5)) == ["*w1"]
    assert ask(desk, a_pending("w2", 1, queue="own", priority=5)) == ["?w2:WaitingForQuota"]
    assert desk.core.tree.node("own").taken("h100")[0] == 4000


def test_a_queue_may_spare_its_own_work():
    desk = Desk(a_queue(flavors={"h100": 4}, policy=NEVER_INSIDE))
    run(desk, a_pending("low", 4, priority=1))

    assert ask(desk, a_pending("w1", 2, priority=5)) == ["?w1:WaitingForQuota"]


def test_use_by_priority_follows_changes_of_priority_and_releases():
    desk = Desk(a_queue(flavors={"h100": 4}))
    (low,) = run(desk, a_pending("low", 4, priority=1))
    line = desk.core.line("q")
    assert line.use_below("h100", 5) == low.request

    desk.core.reprioritise(low, 9)
    assert line.use_below("h100", 5) == (0, 0, 0)
    assert line.use_below("h100", 10) == low.request

    desk.core.released(low)
    assert line.use == {}


def shares(first, second, **rest):
    """Two borrowers of a pool of 8, with weights 1 and 2, which use so much of it."""
    desk = Desk(
        a_cohort(flavors={"h100": 8}),
        a_queue("a", parent="c", flavors={"h100": 0}, **rest),
        a_queue("b", parent="c", flavors={"h100": 0}, weight=2),
    )
    run(desk, a_pending("a0", first, queue="a"), a_pending("b0", second, queue="b"))
    return desk


def test_a_smaller_weighted_share_may_hope_for_what_a_larger_one_holds():
    assert ask(shares(1, 7), a_pending("w1", 2, queue="a")) == ["*w1"]
    # 4 of 8 by weight 1 is more than 7 of 8 by weight 2.
    assert ask(shares(1, 7), a_pending("w1", 3, queue="a")) == ["?w1:WaitingForQuota"]


def test_an_equal_share_may_not():
    assert ask(shares(2, 6), a_pending("w1", 1, queue="a")) == ["?w1:WaitingForQuota"]


def test_hopes_of_the_same_queue_count_as_its_share():
    said = ask(shares(1, 7), *(a_pending(f"w{n}", 1, at=n, queue="a") for n in range(4)))

    assert said == ["*w0", "*w1", "?w2:WaitingForQuota", "?w3:WaitingForQuota"]


def test_a_queue_may_be_barred_from_its_share():
    desk = shares(1, 7, policy=QueuePolicy(fair_share=False))

    assert ask(desk, a_pending("w1", 1, queue="a")) == ["?w1:WaitingForQuota"]


def test_nobody_makes_room_beyond_the_queues_own_borrowing_limit():
    desk = a_cohort_of_two()
    limited = FlavorLimits(
        nominal=(0, UNLIMITED, UNLIMITED), borrowing_limit=(1000, UNLIMITED, UNLIMITED)
    )
    document = QuotaDocument(
        name="poor", kind="queue", version=1, parent="c", flavors={"h100": limited}
    )
    desk.core.apply(document)
    desk.settle()

    assert ask(desk, a_pending("w1", 2, queue="poor")) == ["?w1:ExceedsMaxQuota"]
    assert ask(desk, a_pending("w2", 1, queue="poor")) == ["*w2"]
    assert ask(desk, a_pending("w3", 1, queue="poor")) == ["?w3:WaitingForQuota"]


def test_a_department_takes_back_what_it_owns_for_a_queue_that_borrows_inside_it():
    desk = Desk(
        a_cohort("top"),
        a_cohort("red", parent="top", flavors={"h100": 8}),
        a_cohort("blue", parent="top"),
        a_queue("r", parent="red", flavors={"h100": 0}, policy=QueuePolicy(fair_share=False)),
        a_queue("b", parent="blue", flavors={"h100": 0}, policy=QueuePolicy(fair_share=False)),
    )
    run(desk, a_pending("b0", 8, queue="b"))

    assert ask(desk, a_pending("w1", 8, queue="r")) == ["*w1"]
    assert ask(desk, a_pending("w2", 1, queue="b")) == ["?w2:WaitingForQuota"]


def test_a_department_is_asked_only_for_what_it_counts():
    kept = FlavorLimits(
        nominal=(2000, UNLIMITED, UNLIMITED), lending_limit=(0, UNLIMITED, UNLIMITED)
    )
    queue = QuotaDocument(
        name="r",
        kind="queue",
        version=1,
        parent="red",
        flavors={"h100": kept},
        policy=QueuePolicy(fair_share=False),
    )
    desk = Desk(
        a_cohort("top"),
        a_cohort("red", parent="top", flavors={"h100": 2}),
        queue,
        a_queue("b", parent="top", flavors={"h100": 0}),
    )
    run(desk, a_pending("b0", 2, queue="b"))

    assert ask(desk, a_pending("w1", 4, queue="r")) == ["*w1"]


def test_hope_is_remembered_over_a_restart():
    desk = a_cohort_of_two(policy=QueuePolicy(fair_share=False))
    waiting = a_pending("w1", 8, queue="own")
    ask(desk, waiting)
    again = a_cohort_of_two(policy=QueuePolicy(fair_share=False))
    known = a_pending("w1", 8, queue="own")
    known.nomination = 1

    again.core.restore(known, Phase.OFFERED, waiting.flavor, (0, 0, 0))
    again.core.resume()

    assert again.core.line("own").hoped == desk.core.line("own").hoped == {"h100": gpus(8)}
    assert ask(again, a_pending("w2", 1, queue="own")) == ["?w2:WaitingForQuota"]


def test_a_nomination_says_what_may_be_borrowed_beyond_the_own():
    desk = Desk(a_cohort(flavors={"h100": 3}), a_queue("q", parent="c"), a_queue("r", parent="c"))

    desk.core.enter(a_pending("w1", 2))
    (nominated,) = desk.core.take()

    assert isinstance(nominated, Nominate)
    assert nominated.borrowable == ((11_000, UNLIMITED, UNLIMITED),)
    assert not nominated.by_eviction


def test_what_a_sister_borrowed_may_be_asked_back_though_the_cohort_borrows_itself():
    """The root is full and the department holds more than it owns: its other team must give."""
    desk = Desk(
        a_cohort("org"),
        a_cohort("department", parent="org"),
        a_queue("mine", parent="department", flavors={"h100": 4}),
        a_queue("sister", parent="department", flavors={"h100": 0}),
        a_queue("lender", parent="org", flavors={"h100": 8}),
    )
    desk.queue(borrower := a_pending("w0", 12, queue="sister"))
    desk.core.placed(borrower, "h100", borrower.request, 1)
    desk.settle()

    assert ask(desk, a_pending("x", 4, queue="mine")) == ["*x"]


def test_large_work_that_would_have_to_borrow_does_not_keep_back_what_is_owed():
    desk = Desk(
        a_cohort("c"),
        a_queue("q", parent="c", flavors={"h100": 4}),
        a_queue("r", parent="c", flavors={"h100": 12}),
    )
    desk.queue(borrower := a_pending("w0", 16, queue="r"))
    desk.core.placed(borrower, "h100", borrower.request, 1)
    desk.settle()
    assert ask(desk, a_pending("large", 7)) == ["*large"]

    assert ask(desk, a_pending("small", 1, at=5)) == ["*small"]


def test_who_waits_may_hope_for_the_place_of_what_has_become_less_urgent():
    desk = Desk(a_queue(flavors={"h100": 1}))
    desk.queue(runs := a_pending("runs", priority=1))
    desk.core.placed(runs, "h100", runs.request, 1)
    assert desk.queue(a_pending("waits", priority=1)) == ["?waits:WaitingForQuota"]

    desk.core.reprioritise(runs, 0)

    assert desk.settle() == ["+waits"]
    assert desk.hopes["waits"]


def test_a_gang_that_was_refused_does_not_keep_back_smaller_work_that_is_owed():
    desk = a_cohort_of_two(policy=QueuePolicy(fair_share=False))
    gang = a_pending("gang", 8, queue="own")
    assert ask(desk, gang) == ["*gang"]
    desk.core.refused(gang, 1)

    assert ask(desk, a_pending("small", 1, at=5, queue="own")) == ["*small"]


def test_beside_a_refused_gang_as_much_may_hope_as_the_queue_owns():
    desk = a_cohort_of_two(policy=QueuePolicy(fair_share=False))
    gang = a_pending("gang", 8, queue="own")
    ask(desk, gang)
    desk.core.refused(gang, 1)

    said = ask(desk, *(a_pending(f"w{at:02}", at=at + 1, queue="own") for at in range(12)))

    assert said[:8] == [f"*w{at:02}" for at in range(8)]
    assert said[8:] == [f"?w{at:02}:WaitingForQuota" for at in range(8, 12)]


def test_many_that_would_have_to_borrow_do_not_keep_back_what_is_owed():
    """They hoped while another queue had borrowed much; now it has borrowed no more than two."""
    desk = Desk(
        a_cohort(),
        a_queue("own", parent="c", flavors={"h100": 64}),
        a_queue("guest", parent="c", flavors={"h100": 64}),
        a_queue("third", parent="c", flavors={"h100": 1_000}),
    )
    works = (("runs", 62, "own"), ("rest", 66, "guest"), ("much", 1_000, "guest"))
    _, _, much = run(desk, *(a_pending(name, size, queue=queue) for name, size, queue in works))
    many = [a_pending(f"m{at:03}", 3, queue="own", at=at) for at in range(200)]
    assert ask(desk, *many) == [f"*{one.id}" for one in many]
    desk.core.released(much)
    third = a_pending("third", 1_000, queue="third")
    desk.core.enter(third)
    desk.core.placed(third, "h100", third.request, 1)

    said = ask(desk, *(a_pending(f"s{at}", 1, queue="own", at=300 + at) for at in range(4)))

    assert said == ["*s0", "*s1", "?s2:WaitingForQuota", "?s3:WaitingForQuota"]
