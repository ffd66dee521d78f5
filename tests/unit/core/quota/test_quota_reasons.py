"""What a workload that waits for quota is told: which limit, at which level of the tree."""

from shared.core.model.decision import Reason
from shared.core.model.units import UNLIMITED
from shared.core.quota.attainable import Attainable
from shared.core.quota.reasons import beyond
from shared.core.quota.tree import FlavorLimits, QuotaDocument
from tests.unit.quota.builders import PATIENT, Desk, a_cohort, a_pending, a_queue, gpus


def a_member(name, nominal, borrowing=None, lending=None):
    def milli(count):
        return None if count is None else (count * 1000, UNLIMITED, UNLIMITED)

    limits = FlavorLimits(
        nominal=(nominal * 1000, UNLIMITED, UNLIMITED),
        borrowing_limit=milli(borrowing),
        lending_limit=milli(lending),
    )
    return QuotaDocument(
        name=name,
        kind="queue",
        version=1,
        parent="research",
        flavors={"h100": limits},
        policy=PATIENT,
    )


def refused(desk, *pendings):
    desk.queue(*pendings)
    return desk.refusals[pendings[-1].id]


def test_a_full_cohort_is_named_with_what_the_queue_borrows_of_it():
    desk = Desk(a_cohort("research"), a_member("vision", 4, borrowing=16), a_member("speech", 60))
    desk.core.tree.charge("vision", "h100", gpus(16))
    desk.core.tree.charge("speech", "h100", gpus(48))

    refusal = refused(desk, a_pending("w1", 1, queue="vision"))

    assert refusal.message == (
        "exceeded quota: research, requested: gpu=1, used: gpu=64, limited: gpu=64 (flavor h100)"
        "; cohort research has gpu=64 for all its members,"
        " queue vision borrows gpu=12 of at most gpu=16"
    )
    assert refusal.next_step == "starts when gpu=1 more of research is free"


def test_what_others_own_and_use_is_told_with_what_they_would_have_to_use_less():
    desk = Desk(a_cohort("research"), a_member("vision", 4), a_member("speech", 60))
    desk.core.tree.charge("speech", "h100", gpus(70))
    vision = desk.core.tree.node("vision")
    found = [Attainable().beyond(vision, "h100", gpus(count)) for count in (4, 5)]

    assert found[0] is None, "speech borrows the rest"
    assert found[1] is not None
    refusal = beyond(found[1], "h100")

    assert refusal.message.startswith(
        "others own and use gpu=60 of the gpu=64 of research (flavor h100): too little is left"
    )
    assert refusal.next_step.startswith("starts when others use gpu=1 less of what they own")


def test_what_nobody_holds_and_is_too_much_even_so_can_never_start():
    desk = Desk(a_cohort("research"), a_member("vision", 4, borrowing=2), a_member("speech", 60))
    vision = desk.core.tree.node("vision")
    found = Attainable().beyond(vision, "h100", gpus(7))
    assert found is not None

    refusal = beyond(found, "h100")

    assert refusal.reason is Reason.EXCEEDS_QUOTA
    assert "requested: gpu=7, used: gpu=0, limited: gpu=6" in refusal.message


def test_a_queue_at_its_borrowing_limit_is_told_both():
    desk = Desk(a_cohort("research"), a_member("vision", 4, borrowing=2), a_member("speech", 60))
    desk.core.tree.charge("vision", "h100", gpus(6))

    refusal = refused(desk, a_pending("w1", 1, queue="vision"))

    assert refusal.message == (
        "exceeded quota: vision, requested: gpu=1, used: gpu=6, limited: gpu=6 (flavor h100)"
        "; queue vision owns gpu=4 and may borrow gpu=2"
    )


def test_only_the_part_that_the_cohort_counts_is_what_it_lacks():
    desk = Desk(a_cohort("research"), a_member("vision", 4, lending=1), a_member("speech", 0))
    desk.core.tree.charge("speech", "h100", gpus(1))

    refusal = refused(desk, a_pending("w1", 4, queue="vision"))

    assert refusal.message == (
        "exceeded quota: research, requested: gpu=1, used: gpu=1, limited: gpu=1 (flavor h100)"
        "; cohort research has gpu=1 for all its members, queue vision borrows gpu=0"
    )


def test_a_drained_queue_says_more_than_a_held_one():
    held = Desk(a_queue(held=True))
    drained = Desk(a_queue(draining=True))

    assert refused(held, a_pending("w1")).message == "queue q is held: nothing of it is started"
    assert refused(drained, a_pending("w1")).message == (
        "queue q is drained: what runs of it is stopped, and nothing of it is started"
    )
