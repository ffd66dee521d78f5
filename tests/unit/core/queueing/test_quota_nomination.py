"""Who is nominated, in which order, and what the others are told."""

from shared.core.model.decision import Reason
from shared.core.queueing.nomination.pending import Phase
from tests.unit.quota.builders import PATIENT, Desk, a_cohort, a_pending, a_queue, gpus


def test_what_fits_is_nominated_at_once_with_the_flavors_of_the_queue_in_order():
    desk = Desk(a_queue(flavors={"h100": 8, "a100": 8}))

    assert desk.queue(a_pending("w1")) == ["+w1"]
    assert desk.offers["w1"] == ("h100", "a100")


def test_nominations_without_an_answer_count_as_use():
    desk = Desk(a_queue())

    said = desk.queue(a_pending("w1", 5), a_pending("w2", 4), a_pending("w3", 3))

    assert said == ["+w1", "?w2:WaitingForQuota", "+w3"]


def test_a_refusal_says_what_was_asked_used_and_limited():
    desk = Desk(a_queue("team-fraud", flavors={"h100": 4}))
    first = a_pending("w1", 4, queue="team-fraud")
    desk.queue(first)
    desk.place(first)

    desk.queue(a_pending("w2", 1, queue="team-fraud"))

    refusal = desk.refusals["w2"]
    assert refusal.message == (
        "exceeded quota: team-fraud, requested: gpu=1, used: gpu=4, limited: gpu=4 (flavor h100)"
    )
    assert refusal.next_step == "starts when gpu=1 more of team-fraud is free"
    assert refusal.evidence == {
        "requested_gpu_milli": 1000,
        "used_gpu_milli": 4000,
        "limited_gpu_milli": 4000,
    }


def test_a_refused_nomination_stays_open_and_no_longer_counts():
    desk = Desk(a_queue())
    first = a_pending("w1", 8)
    desk.queue(first, a_pending("w2", 8))

    desk.core.refused(first, 1)

    assert desk.settle() == ["+w2"]
    assert desk.core.open == 2


def test_an_answer_to_an_earlier_nomination_is_no_answer():
    desk = Desk(a_queue())
    first = a_pending("w1", 8)
    desk.queue(first, a_pending("w2", 8))

    desk.core.refused(first, 7)

    assert desk.settle() == []


def test_a_release_lets_the_first_that_fits_go():
    desk = Desk(a_queue(), announces=False)
    holder = a_pending("w0", 8)
    desk.queue(holder)
    desk.place(holder)
    desk.queue(a_pending("w1", 6, at=1), a_pending("w2", 5, at=2), a_pending("w3", 2, at=3))

    assert desk.release(holder) == ["+w1", "+w3"]


def test_priority_goes_before_age():
    desk = Desk(a_queue(flavors={"h100": 1}), announces=False)
    holder = a_pending("w0", priority=5)
    desk.queue(holder)
    desk.queue(a_pending("w1", at=1), a_pending("w2", at=2, priority=5))
    desk.place(holder)

    assert desk.release(holder) == ["+w2"]


def test_an_older_one_goes_before_a_newcomer_of_the_same_batch():
    desk = Desk(a_queue(), announces=False)
    holder, older = a_pending("w0", 8), a_pending("w1", 8, at=1)
    desk.queue(holder)
    desk.place(holder)
    desk.queue(older)

    desk.core.released(holder)
    said = desk.queue(a_pending("w2", 1, at=2))

    assert said[0] == "+w1"


def test_a_strict_queue_lets_nobody_pass_its_head():
    desk = Desk(a_queue(strict=True), announces=False)
    holder = a_pending("w0", 4)
    desk.queue(holder)
    said = desk.queue(a_pending("w1", 8, at=1), a_pending("w2", 1, at=2))

    assert said == ["?w1:WaitingForQuota", "?w2:BehindStrictHead"]
    desk.place(holder)
    assert desk.release(holder) == ["+w1", "?w2:WaitingForQuota"]


def test_the_next_head_of_a_strict_queue_moves_up_when_the_head_leaves():
    desk = Desk(a_queue(strict=True))
    desk.queue(a_pending("w0", 4))
    head = a_pending("w1", 8, at=1)
    desk.queue(head, a_pending("w2", 1, at=2))

    desk.core.leave(head)

    assert desk.settle() == ["+w2"]


def test_a_held_queue_takes_its_nominations_back_and_gives_them_again():
    desk = Desk(a_queue())
    offered, refused = a_pending("w1"), a_pending("w2")
    desk.queue(offered, refused)
    desk.core.refused(refused, 1)

    desk.core.apply(a_queue(version=2, held=True))
    assert sorted(desk.settle()) == ["-w1", "-w2", "?w1:QueueHeld", "?w2:QueueHeld"]
    assert desk.core.tree.node("q").taken("h100") == (0, 0, 0)

    desk.core.apply(a_queue(version=3))
    assert desk.settle() == ["+w1", "+w2"]
    assert offered.nomination == 2


def test_more_quota_is_used_at_once():
    desk = Desk(a_queue(flavors={"h100": 1}))
    desk.queue(a_pending("w1", 2))
    assert desk.refusals["w1"].reason is Reason.EXCEEDS_QUOTA

    desk.core.apply(a_queue(version=2, flavors={"h100": 2}))

    assert desk.settle() == ["+w1"]


def test_a_reason_is_told_again_only_when_it_is_another():
    desk = Desk(a_queue(flavors={"h100": 1}))
    desk.queue(a_pending("w0", 1), a_pending("w1", 1))

    desk.core.apply(a_queue(version=2, flavors={"h100": 1, "a100": 0}))
    assert desk.settle() == []

    desk.core.apply(a_queue(version=3, held=True))
    assert "?w1:QueueHeld" in desk.settle()


def test_a_nomination_stands_when_only_the_amount_of_quota_changes():
    desk = Desk(a_queue(flavors={"h100": 8}))
    desk.queue(a_pending("w1"))

    desk.core.apply(a_queue(version=2, flavors={"h100": 4}))

    assert desk.settle() == []


def test_a_queue_that_quota_does_not_know_yet_waits_for_its_document():
    desk = Desk()
    assert desk.queue(a_pending("w1")) == ["?w1:NoMatchingFlavor"]

    desk.core.apply(a_queue())

    assert desk.settle() == ["+w1"]


def test_another_priority_takes_the_nomination_back_and_gives_another():
    desk = Desk(a_queue())
    first = a_pending("w1")
    desk.queue(first)

    desk.core.reprioritise(first, 9)

    assert desk.settle() == ["-w1", "+w1"]
    assert first.nomination == 2
    assert first.key[0] == -9


def test_a_placement_stands_against_a_withdrawal():
    desk = Desk(a_queue())
    first = a_pending("w1", 8)
    desk.queue(first)
    desk.core.leave(first)

    desk.place(first)

    assert first.phase is Phase.PLACED
    assert desk.core.tree.node("q").used["h100"] == list(gpus(8))


def test_a_release_in_a_cohort_wakes_a_queue_that_the_cohort_blocked():
    desk = Desk(
        a_cohort(flavors={"h100": 6}),
        a_queue("q", parent="c", flavors={"h100": 2}, policy=PATIENT),
        a_queue("r", parent="c"),
    )
    holders = [a_pending(f"w{i}", 4, queue="r") for i in range(2)]
    desk.queue(*holders)
    for one in holders:
        desk.place(one)
    desk.core.apply(a_queue("r", parent="c", version=2, flavors={"h100": 1}))

    assert desk.queue(a_pending("x", 4)) == ["?x:WaitingForQuota"]
    assert "exceeded quota: c," in desk.refusals["x"].message
    assert desk.release(holders[0]) == ["+x"]


def test_what_is_over_leaves_nothing_behind_and_takes_nothing_back():
    desk = Desk(a_queue())
    placed, offered, waits = a_pending("w1", 4), a_pending("w2", 4), a_pending("w3", 4)
    desk.queue(placed)
    desk.place(placed)
    desk.queue(offered, waits)

    for one in (placed, offered, waits):
        desk.core.forget(one)

    assert desk.settle() == []
    assert desk.core.open == 0
    assert desk.core.tree.node("q").taken("h100") == (0, 0, 0)
    assert {one.phase for one in (placed, offered, waits)} == {Phase.GONE}


def test_the_same_priority_again_changes_nothing():
    desk = Desk(a_queue())
    first = a_pending("w1", priority=3)
    desk.queue(first)

    desk.core.reprioritise(first, 3)

    assert desk.settle() == []
    assert first.nomination == 1


def test_the_priority_of_what_runs_changes_without_another_nomination():
    desk = Desk(a_queue())
    first = a_pending("w1")
    desk.queue(first)
    desk.place(first)

    desk.core.reprioritise(first, 9)

    assert desk.settle() == []
    assert (first.priority, first.key[0], first.phase) == (9, -9, Phase.PLACED)


def test_a_placement_stands_although_quota_let_it_wait():
    desk = Desk(a_queue(flavors={"h100": 4}))
    late, next_one = a_pending("w1", 4, at=1), a_pending("w2", 4, at=2)
    desk.queue(a_pending("w0", 4), late, next_one)

    assert desk.place(late) == []

    line = desk.core.line("q")
    assert late.phase is Phase.PLACED
    assert line.waiting() == 1
    assert line.head() is next_one
    assert desk.core.tree.node("q").taken("h100")[0] == 8000


def test_freed_quota_does_not_wake_a_queue_of_another_tree():
    desk = Desk(
        a_cohort("c"),
        a_queue("q", parent="c"),
        a_cohort("d", flavors={"h100": 4}),
        a_queue("r", parent="d", flavors={"h100": 2}, policy=PATIENT),
        a_queue("s", parent="d"),
    )
    holder, taken = a_pending("w0", 8), a_pending("x0", 8, queue="s")
    desk.queue(holder, taken)
    desk.place(holder)
    desk.place(taken)
    desk.core.apply(a_queue("s", parent="d", version=2, flavors={"h100": 1}))
    assert desk.queue(a_pending("x1", 4, queue="r")) == ["?x1:WaitingForQuota"]

    desk.core.released(holder)
    assert not desk.core.unsettled

    assert desk.release(taken) == ["+x1"]
