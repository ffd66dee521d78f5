"""What waited, was offered or ran before a restart counts after it as before."""

from shared.core.queueing.nomination.pending import Phase
from tests.unit.quota.builders import Desk, a_pending, a_queue, gpus


def restored(*stored, **options):
    """A desk that is put back from (pending, phase, flavor, charge), as after a restart."""
    desk = Desk(a_queue(), announces=False, **options)
    for one in stored:
        desk.core.restore(*one)
    desk.core.resume()
    return desk


def test_what_was_open_and_placed_before_a_restart_counts_after_it():
    offered, refused = a_pending("w1", 3, at=1), a_pending("w2", 8, at=2)
    running = a_pending("w3", 4, at=3)

    desk = restored(
        (offered, Phase.OFFERED, "h100", (0, 0, 0)),
        (refused, Phase.REFUSED, "", (0, 0, 0)),
        (running, Phase.PLACED, "h100", gpus(4)),
    )

    assert desk.settle() == []
    assert desk.core.open == 2
    assert desk.core.tree.node("q").taken("h100")[0] == 7000
    assert (offered.offered, refused.offered) == (("h100",), ("h100",))
    assert desk.release(running) == []
    assert desk.core.tree.node("q").taken("h100")[0] == 3000


def test_who_waited_before_a_restart_goes_on_waiting_in_order_after_it():
    holder, second, first = a_pending("w0", 8), a_pending("w2", 8, at=2), a_pending("w1", 8, at=1)

    desk = restored(
        (holder, Phase.PLACED, "h100", gpus(8)),
        (second, Phase.WAITING, "", (0, 0, 0)),
        (first, Phase.WAITING, "", (0, 0, 0)),
    )

    assert desk.settle() == ["?w1:WaitingForQuota", "?w2:WaitingForQuota"]
    assert desk.release(holder) == ["+w1"]


def test_what_was_held_before_a_restart_stays_out_of_the_line():
    asked_to_stop = a_pending("w1")

    desk = restored((asked_to_stop, Phase.IDLE, "", (0, 0, 0)))

    assert desk.settle() == []
    assert (desk.core.open, asked_to_stop.phase) == (0, Phase.IDLE)


def test_a_refused_one_from_before_a_restart_still_gives_up_its_turn():
    refused = a_pending("w1", at=1)
    desk = restored((refused, Phase.REFUSED, "", (0, 0, 0)), open_max=1, open_each=1)

    said = desk.queue(a_pending("w2", at=2, priority=5))

    assert said[:2] == ["-w1", "+w2"]


def test_who_waits_in_a_queue_that_nobody_applied_is_told_after_a_restart_too():
    desk = Desk()
    desk.core.restore(a_pending("w1"), Phase.WAITING, "", (0, 0, 0))

    desk.core.resume()

    assert desk.settle() == ["?w1:NoMatchingFlavor"]
