"""What is nominated in which flavors, and what a queue owns while others hold it."""

from shared.core.model.value import replace
from shared.core.queueing.nomination.flavor_choice import FlavorChoice, FlavorKind
from shared.core.quota.queue_policy import QueuePolicy, WithinQueue
from tests.unit.quota.builders import PATIENT, Desk, a_cohort, a_pending, a_queue


def place(desk, pending, flavor="h100"):
    desk.core.placed(pending, flavor, pending.request, 1)
    return desk.settle()


def test_what_a_queue_owns_may_be_tried_while_others_hold_it():
    """Placement refuses it, and that is what asks for it back."""
    desk = Desk(a_cohort(), a_queue("q", parent="c"), a_queue("r", parent="c"))
    desk.queue(borrower := a_pending("w0", 16, queue="r"))
    place(desk, borrower)

    assert desk.queue(a_pending("x", 8), a_pending("y", 8)) == ["+x", "?y:WaitingForQuota"]
    assert desk.queue(a_pending("z", 1, queue="r")) == ["?z:WaitingForQuota"]


def test_flavors_are_offered_as_the_queue_says():
    flavors = {"h100": 8, "spot": 8, "a100": 8}
    desk = Desk(
        a_queue(flavors=flavors, policy=QueuePolicy(spot_first=True)),
        a_queue("r", flavors=flavors),
    )
    desk.core.apply_flavor("spot", FlavorKind(("H100",), spot=True))
    desk.core.apply_flavor("a100", FlavorKind(("A100",)))
    checkpoints = FlavorChoice(interruptible=True)
    prefers = FlavorChoice(preferred=(("A100", 5), ("H100", 3)), interruptible=True)

    desk.queue(
        a_pending("w", choice=checkpoints),
        a_pending("x", queue="r", choice=checkpoints),
        a_pending("y", queue="r", choice=prefers),
        a_pending("z"),
    )

    assert desk.offers["w"] == ("spot", "h100", "a100")
    assert desk.offers["x"] == ("h100", "spot", "a100")
    assert desk.offers["y"] == ("a100", "spot", "h100")
    assert desk.offers["z"] == ("h100", "a100")


def test_work_that_may_not_be_interrupted_is_told_that_there_is_only_spot():
    desk = Desk(a_queue(flavors={"spot": 8}))
    desk.core.apply_flavor("spot", FlavorKind(spot=True))

    assert desk.queue(a_pending("w")) == ["?w:NoMatchingFlavor"]
    assert "checkpoint_interval_seconds" in desk.refusals["w"].next_step
    assert desk.queue(a_pending("v", choice=FlavorChoice(interruptible=True))) == ["+v"]


def test_a_queue_that_does_not_borrow_before_it_reclaims_waits_for_its_own():
    def counted(policy):
        flavors = {"h100": 8, "a100": 0}
        desk = Desk(
            a_cohort(flavors={"a100": 8}),
            a_queue("q", parent="c", flavors=flavors, policy=policy),
            a_queue("r", parent="c"),
        )
        desk.queue(borrower := a_pending("w0", 16, queue="r"))
        place(desk, borrower)
        desk.queue(one := a_pending("x", 4))
        return one.flavor, one.hopes_in

    assert counted(QueuePolicy(borrow_before_preempt=True)) == ("a100", "")
    assert counted(QueuePolicy(borrow_before_preempt=False)) == ("", "h100")


def test_a_flavor_of_its_own_that_others_hold_does_not_hide_the_one_that_somebody_wants():
    """The queue borrows nothing in h100 while it owns it; who wants an a100 may borrow that."""
    policy = replace(PATIENT, borrow_before_preempt=False)
    desk = Desk(
        a_cohort(flavors={"a100": 2}),
        a_queue(parent="c", flavors={"h100": 2, "a100": 0}, policy=policy),
        a_queue("r", parent="c", flavors={"h100": 0, "a100": 0}),
    )
    desk.core.apply_flavor("a100", FlavorKind(("A100",)))
    desk.core.apply_flavor("h100", FlavorKind(("H100",)))
    lent, taken = a_pending("lent", 2, queue="r"), a_pending("taken", 2, queue="r")
    desk.queue(lent, taken)
    place(desk, lent)
    place(desk, taken, "a100")
    assert desk.queue(a_pending("w", 2, products=("A100",))) == ["?w:WaitingForQuota"]

    desk.core.forget(taken)

    assert desk.settle() == ["+w"]


STAYS = FlavorChoice(evictable=False)
LENDS = QueuePolicy(unevictable_may_borrow=True)


def two_queues(policy=PATIENT, **more):
    """8 GPUs each, of one cohort; `q` has the policy."""
    return Desk(
        a_cohort(), a_queue("q", parent="c", policy=policy, **more), a_queue("r", parent="c")
    )


def test_who_nobody_may_evict_takes_what_the_queue_owns_and_borrows_nothing():
    desk = two_queues()

    assert desk.queue(a_pending("w", 6, choice=STAYS), a_pending("x", 3, choice=STAYS)) == [
        "+w",
        "?x:WaitingForQuota",
    ]
    assert "gpu=6" in desk.refusals["x"].message
    assert "it may not be evicted" in desk.refusals["x"].message
    assert "gpu=1 less of q is used" in desk.refusals["x"].next_step
    assert desk.queue(a_pending("y", 3)) == ["+y"], "others borrow"


def test_more_than_the_queue_owns_never_starts_if_nobody_may_evict_it():
    desk = two_queues()

    assert desk.queue(a_pending("w", 9, choice=STAYS)) == ["?w:ExceedsMaxQuota"]
    assert "limited: gpu=8" in desk.refusals["w"].message
    assert "set preemptible" in desk.refusals["w"].next_step
    assert desk.queue(a_pending("x", 17, queue="r")) == ["?x:ExceedsMaxQuota"]
    assert "preemptible" not in desk.refusals["x"].next_step


def test_a_queue_whose_policy_says_so_borrows_for_whom_nobody_may_evict():
    assert two_queues(LENDS).queue(a_pending("w", 9, choice=STAYS)) == ["+w"]


def test_another_policy_of_borrowing_takes_back_what_was_permitted_by_the_one_before():
    desk = two_queues(LENDS)
    desk.queue(a_pending("w", 9, choice=STAYS))

    desk.core.apply(a_queue("q", parent="c", policy=PATIENT, version=2))

    assert "-w" in desk.settle()


def test_who_may_not_borrow_may_hope_for_the_place_of_a_lower_priority_of_its_queue():
    desk = two_queues(QueuePolicy())
    desk.queue(low := a_pending("low", 8))
    place(desk, low)

    assert desk.queue(a_pending("w", 3, choice=STAYS)) == ["?w:WaitingForQuota"]
    assert desk.queue(a_pending("x", 3, choice=STAYS, priority=5)) == ["+x"]


def test_who_may_not_borrow_hopes_for_nothing_where_its_queue_evicts_nobody():
    desk = two_queues(QueuePolicy(within_queue=WithinQueue.NEVER))
    desk.queue(low := a_pending("low", 8))
    place(desk, low)

    assert desk.queue(a_pending("x", 3, choice=STAYS, priority=5)) == ["?x:WaitingForQuota"]
