"""Who is announced to placement as the next for what his queue owns and holds itself."""

from shared.core.model.decision import Reason, Refusal
from shared.core.model.team_policy import AtLimit
from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.decision import Nominate
from shared.core.queueing.nomination.next_of_own import NEXT_MAX
from shared.core.queueing.nomination.pending import Phase
from shared.core.quota.budget import Restriction
from shared.core.quota.queue_policy import QueuePolicy, WithinQueue
from shared.core.quota.tree import FlavorLimits, QuotaDocument
from tests.unit.quota.builders import PATIENT, Desk, a_cohort, a_pending, a_queue, gpus

ONLY_RECLAIM = QueuePolicy(fair_share=False, within_queue=WithinQueue.NEVER)
SPENT = Refusal(reason=Reason.BUDGET_SPENT, message="spent", next_step="wait")


def run(desk, name, count, queue="own", **rest):
    desk.queue(one := a_pending(name, count, queue=queue, **rest))
    desk.place(one)
    return one


class Full(Desk):
    """`own` holds the 8 GPUs that it owns, as 6 and 2; `other` owns 8 and holds some of them."""

    def __init__(self, policy=ONLY_RECLAIM, other=8, **rest):
        own = a_queue("own", parent="c", policy=policy, **rest)
        super().__init__(a_cohort(), own, a_queue("other", parent="c"))
        self.large, self.little = run(self, "large", 6), run(self, "little", 2)
        if other:
            run(self, "others", other, "other")


def wait(desk, queue="own", **sizes):
    """They wait, in the order of their names; what is said."""
    works = {one: a_pending(one, n, queue=queue, at=ord(one)) for one, n in sizes.items()}
    return works, desk.queue(*works.values())


def told(desk, queue="own"):
    """Who is announced, as placement has heard too."""
    names = sorted(desk.core.line(queue).announced)
    assert set(names) <= set(desk.announced)
    return " ".join(names)


def test_of_a_queue_full_of_its_own_work_as_much_as_it_owns_is_announced_and_waits_on():
    desk = Full()

    works, said = wait(desk, v=4, w=3, x=2, y=1, z=1)

    assert told(desk) == "v w y"
    assert sorted(said) == [f"?{one}:WaitingForQuota" for one in "vwxyz"]
    assert {one.phase for one in works.values()} == {Phase.WAITING}
    assert desk.core.tree.node("own").taken("h100") == (8_000, 2, 2)
    assert desk.core.open == 0


def test_an_announcement_is_a_nomination_with_a_number_of_its_own():
    desk = Full()
    desk.core.enter(x := a_pending("x", 8, queue="own"))
    desk.core.settle()

    (announced,) = (one for one in desk.core.take() if isinstance(one, Nominate))

    assert (announced.nomination, announced.flavors) == (1, ("h100",))
    assert announced.next_of_own
    assert not announced.by_eviction
    desk.core.forget(desk.large)
    desk.core.forget(desk.little)
    assert x.nomination == 1, "it is tried under the number that placement knows"


def test_there_are_only_a_few():
    desk = Full()
    many = [a_pending(f"w{at:02}", queue="own", at=at, request=(1, 0, 0)) for at in range(20)]
    desk.queue(*many)
    assert told(desk) == " ".join(f"w{at:02}" for at in range(NEXT_MAX))

    desk.queue(a_pending("behind", queue="own", at=99, request=(1, 0, 0)))
    assert told(desk) == " ".join(f"w{at:02}" for at in range(NEXT_MAX))
    desk.queue(a_pending("before", queue="own", at=-1, request=(1, 0, 0)))

    assert told(desk) == " ".join(["before", *(f"w{at:02}" for at in range(NEXT_MAX - 1))])


def test_who_comes_before_takes_the_place_of_later_ones():
    desk = Full()
    wait(desk, w=2, x=2, y=2, z=2)

    desk.queue(a_pending("urgent", 5, queue="own", priority=2, at=999))

    assert told(desk) == "urgent w"


def test_once_their_queue_owns_room_they_count_as_nominated_in_their_order():
    """Placement hears of the room first, and tries them by itself."""
    desk = Full()
    works, _ = wait(desk, x=3, y=4, z=1)

    assert desk.release(desk.large) == []

    assert {name: one.phase.value for name, one in works.items()} == {
        "x": "offered",
        "y": "waiting",
        "z": "offered",
    }
    assert desk.core.tree.node("own").taken("h100")[0] == 6_000
    assert told(desk) == "y"
    assert desk.core.open == 2


def test_who_finds_the_room_gone_all_the_same_has_its_answer():
    desk = Full()
    works, _ = wait(desk, x=6)
    desk.release(desk.large)

    desk.core.refused(works["x"], 1)

    assert desk.settle() == []
    assert works["x"].phase is Phase.REFUSED
    assert desk.core.tree.node("own").taken("h100")[0] == 2_000


def test_who_was_placed_before_quota_heard_of_the_room_is_charged_and_no_more_announced():
    desk = Full()
    works, _ = wait(desk, x=6, y=1, z=1)

    desk.place(works["x"])

    assert works["x"].phase is Phase.PLACED
    assert told(desk) == "y", "the queue borrows until the other end is heard"
    desk.release(desk.large)
    assert told(desk) == "y z"


def test_a_new_size_of_what_runs_is_no_room():
    desk = Full()
    works, _ = wait(desk, x=6)

    desk.core.placed(desk.large, "h100", gpus(7), 1)

    assert works["x"].phase is Phase.WAITING


def test_a_queue_that_borrows_announces_its_head_alone():
    desk = Full(other=0)
    wait(desk, x=1)
    run(desk, "borrowed", 1)
    run(desk, "others", 7, "other")

    wait(desk, y=1)
    wait(desk, z=1)

    assert told(desk) == "y"


def test_who_begins_to_borrow_past_them_makes_them_wait_for_more():
    desk = Full(other=4)
    wait(desk, x=5)
    assert told(desk) == "x"

    assert desk.queue(a_pending("y", 1, queue="own", at=999)) == ["+y"]
    desk.queue(a_pending("z", 4, queue="own", at=1_000))

    assert told(desk) == "x"


def test_but_for_the_head_who_asks_for_more_than_his_queue_owns_is_passed_by():
    desk = Full()

    wait(desk, x=9, y=9, z=1)

    assert told(desk) == "x z"


def test_when_a_head_leaves_that_could_not_be_announced_the_next_is():
    desk = Full()
    head = a_pending("v", 99, queue="own")
    desk.queue(head)
    wait(desk, x=9)
    assert told(desk) == ""

    desk.core.leave(head)
    desk.settle()

    assert told(desk) == "x"


def test_only_what_is_asked_for_counts():
    """The queue holds more CPU than it owns; who asks for GPUs alone does not mind."""
    limits = FlavorLimits(nominal=(8000, 4000, UNLIMITED))
    own = QuotaDocument(
        name="own", kind="queue", version=1, parent="c", flavors={"h100": limits}, policy=PATIENT
    )
    desk = Desk(a_cohort(flavors={"h100": 8}), own)
    desk.core.tree.charge("own", "h100", (8_000, 8000, 0))
    desk.core.tree.charge("c", "h100", (8000, 0, 0))

    for name in ("w", "x"):
        desk.queue(a_pending(name, queue="own", request=(8000, 1000, 0)))
    desk.queue(a_pending("y", queue="own", at=1, request=(8000, 0, 0)))

    assert told(desk) == "w y", "the head whatever it asks for"


def test_a_queue_without_a_cohort_announces_too():
    desk = Desk(a_queue("own"))
    run(desk, "runs", 8)

    wait(desk, x=8)

    assert told(desk) == "x"


def test_while_somebody_hopes_nobody_is_announced():
    desk = Desk(
        a_cohort(), a_queue("own", parent="c", policy=ONLY_RECLAIM), a_queue("other", parent="c")
    )
    run(desk, "borrower", 16, "other")
    hopes = a_pending("hopes", 6, queue="own")
    desk.queue(hopes)
    wait(desk, x=8)
    assert told(desk) == ""

    desk.core.leave(hopes)

    assert desk.settle() == ["-hopes", "+x"]


def test_of_a_strict_queue_only_the_head_is_announced_and_nobody_past_an_open_one():
    desk = Full(strict=True)
    works, _ = wait(desk, x=2, y=2)
    assert told(desk) == "x"

    desk.core.leave(works["x"])
    desk.settle()
    assert told(desk) == "y"

    head = Full(strict=True)
    wait(head, x=9, y=1)
    assert told(head) == "x"

    behind = Full(strict=True)
    wait(behind, x=2, y=6)
    behind.release(behind.little)
    assert told(behind) == ""


def test_when_the_only_one_leaves_the_following_one_is_announced():
    desk = Full()
    works, _ = wait(desk, x=8, y=5)
    assert told(desk) == "x"

    desk.core.leave(works["x"])
    desk.settle()

    assert told(desk) == "y"


def test_of_a_strict_queue_the_head_is_announced_when_who_was_tried_before_it_has_gone():
    desk = Full(strict=True)
    works, _ = wait(desk, x=2, y=6)
    desk.release(desk.little)
    desk.core.refused(works["x"], 1)
    desk.queue(a_pending("refill", 2, queue="other"))
    assert told(desk) == ""

    desk.core.leave(works["x"])
    assert desk.settle() == ["-x"]

    assert told(desk) == "y"


def test_a_held_queue_announces_nobody():
    desk = Full()
    wait(desk, x=8)

    desk.core.apply(a_queue("own", 2, "c", policy=ONLY_RECLAIM, held=True))
    desk.settle()
    assert told(desk) == ""
    assert desk.announced == {}

    desk.core.apply(a_queue("own", 3, "c", policy=ONLY_RECLAIM))
    desk.settle()
    assert told(desk) == "x"


def test_other_rules_are_announced_anew():
    desk = Full()
    wait(desk, x=8)
    assert desk.announced == {"x": 1}

    desk.core.apply(a_queue("own", 2, "c", policy=ONLY_RECLAIM, strict=True))
    desk.settle()

    assert desk.announced == {"x": 2}


def test_who_is_held_or_over_is_announced_no_more():
    desk = Full()
    works, _ = wait(desk, x=4, y=4)
    desk.core.leave(works["x"])
    assert desk.settle() == []
    assert (told(desk), desk.announced) == ("y", {"y": 1})

    desk.core.forget(works["y"])
    assert desk.settle() == []
    assert told(desk) == ""


def test_a_team_that_may_use_only_what_it_owns_is_not_told_before_it_has_room():
    desk = Full(team="t")
    wait(desk, x=8)

    desk.core.restrict("t", Restriction(AtLimit.NOMINAL, SPENT))
    desk.settle()

    assert told(desk) == ""


def test_what_a_queue_owns_in_each_flavor_counts():
    flavors = {"h100": 8, "a100": 4}
    desk = Desk(a_cohort(), a_queue("own", parent="c", flavors=flavors, policy=ONLY_RECLAIM))
    run(desk, "runs", 8)
    desk.queue(one := a_pending("more", 4, queue="own"))
    desk.place(one, "a100")

    wait(desk, w=8, x=3, y=2, z=1)

    assert told(desk) == "w x z"


def test_nothing_is_announced_by_who_does_not_keep_up_until_he_does():
    desk = Full()
    desk.core.enter(a_pending("x", 8, queue="own"))

    desk.core.settle(announce=False)
    assert told(desk) == ""
    assert desk.core.unannounced

    desk.settle()
    assert told(desk) == "x"
    assert not desk.core.unannounced


def test_after_a_restart_they_are_announced_anew():
    desk = Full()
    known = a_pending("x", 8, queue="own")
    known.nomination = 1
    desk.core.restore(known, Phase.WAITING, "", (0, 0, 0))
    desk.core.resume()
    desk.settle()

    assert desk.announced == {"x": 2}
