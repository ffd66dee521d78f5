"""What queues ask for beside what they use."""

from tests.unit.quota.builders import Desk, a_pending, a_queue


def test_who_waits_and_who_is_being_tried_asks_and_a_queue_on_hold_asks_for_nothing():
    desk = Desk(a_queue("q", flavors={"h100": 1}), a_queue("held", flavors={"h100": 8}, held=True))
    desk.queue(
        a_pending("tried", 1),
        a_pending("waits", 1),
        a_pending("cpu", request=(0, 1, 1)),
        a_pending("h", 4, queue="held"),
    )

    assert {"h100": {"q": 2000}} == desk.core.gpu_milli_waiting()
