"""How many nominations are open at once, and how many one turn may make."""

from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.nomination_cycle import TURN_MAX
from shared.core.queueing.nomination.telling import TOLD_MAX
from tests.unit.quota.builders import Desk, a_pending, a_queue


def test_no_more_than_the_window_is_open():
    desk = Desk(a_queue(flavors={"h100": UNLIMITED}), open_max=3, open_each=1)

    said = desk.queue(*(a_pending(f"w{i}", at=i) for i in range(5)))

    assert said == ["+w0", "+w1", "+w2", "?w3:InsufficientCapacity", "?w4:InsufficientCapacity"]


def test_the_window_goes_on_when_one_is_placed():
    desk = Desk(a_queue(flavors={"h100": UNLIMITED}), open_max=1, open_each=1)
    first = a_pending("w0")
    desk.queue(first, a_pending("w1", at=1), a_pending("w2", at=2))

    assert desk.place(first) == ["+w1"]


def test_a_full_window_of_one_team_leaves_room_for_another():
    unlimited = {"h100": UNLIMITED}
    desk = Desk(
        a_queue("q", flavors=unlimited), a_queue("r", flavors=unlimited), open_max=2, open_each=1
    )
    desk.queue(*(a_pending(f"w{i}", at=i) for i in range(5)))

    assert desk.queue(a_pending("x", queue="r", at=9)) == ["+x"]


def test_an_urgent_newcomer_takes_the_turn_of_a_refused_one():
    desk = Desk(a_queue(flavors={"h100": UNLIMITED}), open_max=2, open_each=1)
    first, second = a_pending("w1", at=1), a_pending("w2", at=2)
    desk.queue(first, second)
    desk.core.refused(first, 1)
    desk.core.refused(second, 1)
    desk.settle()

    said = desk.queue(a_pending("w3", at=3, priority=5))

    assert said[:2] == ["-w2", "+w3"]


def test_a_turn_is_bounded_and_goes_on():
    desk = Desk(a_queue(held=True, flavors={"h100": UNLIMITED}))
    desk.queue(*(a_pending(f"w{i:05}") for i in range(TURN_MAX + 5)))
    desk.core.apply(a_queue(version=2, flavors={"h100": UNLIMITED}))

    desk.core.settle()
    nominated = [one for one in desk.core.take() if type(one).__name__ == "Nominate"]

    assert len(nominated) == TURN_MAX
    assert desk.core.unsettled
    assert len([one for one in desk.settle() if one.startswith("+")]) == 5


def test_only_the_first_of_a_long_queue_are_told():
    desk = Desk(a_queue(flavors={"h100": 0}))

    said = desk.queue(*(a_pending(f"w{i:05}") for i in range(TOLD_MAX + 5)))
    assert len(said) == TOLD_MAX

    left = desk.core.lines["q"].told["w00000"]
    desk.core.leave(left)
    desk.core.apply(a_queue(version=2, flavors={"h100": 0}))
    assert desk.settle() == [f"?w{TOLD_MAX:05}:ExceedsMaxQuota"]
