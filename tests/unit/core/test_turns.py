"""Queues fill a window that cannot hold all of their work in the order of placement."""

from shared.core.turns import take_turns, turn_key
from shared.core.units import UNLIMITED
from tests.unit.quota.builders import Desk, a_pending, a_queue

PLENTY = {"h100": UNLIMITED}


def window(open_max, queues=("q", "r"), **options):
    documents = [a_queue(name, flavors=PLENTY, held=True) for name in queues]
    return Desk(*documents, open_max=open_max, open_each=1, **options)


def open_all(desk, queues=("q", "r")):
    for name in queues:
        desk.core.apply(a_queue(name, version=2, flavors=PLENTY))


def test_of_two_queues_the_one_that_used_less_fills_the_window():
    desk = window(4)
    desk.core.used = {"q": 100, "r": 50}.__getitem__
    desk.queue(*(a_pending(f"q{n}", queue="q", at=n) for n in range(4)))
    desk.queue(*(a_pending(f"r{n}", queue="r", at=9) for n in range(4)))

    open_all(desk)

    assert desk.settle()[:4] == ["+r0", "+r1", "+r2", "+r3"]


def test_priority_goes_before_use():
    desk = window(2)
    desk.core.used = {"q": 100, "r": 50}.__getitem__
    desk.queue(a_pending("q0", queue="q", priority=1), a_pending("r0", queue="r"))

    open_all(desk)

    assert desk.settle()[:1] == ["+q0"]


def test_equal_queues_go_by_age_and_a_few_of_each_are_always_open():
    desk = window(2)
    desk.queue(*(a_pending(f"q{n}", queue="q", at=n) for n in range(3)))
    desk.queue(*(a_pending(f"r{n}", queue="r", at=9) for n in range(3)))

    open_all(desk)

    assert [one for one in desk.settle() if one[0] == "+"] == ["+q0", "+q1", "+r0"]


def test_what_is_promised_lets_the_other_queue_go_next():
    flavors = {"h100": 2}
    desk = Desk(
        a_queue("q", flavors=flavors, held=True), a_queue("r", flavors=flavors, held=True),
        open_max=3, open_each=0,
    )  # fmt: skip
    desk.queue(*(a_pending(f"q{n}", queue="q", at=n) for n in range(2)))
    desk.queue(*(a_pending(f"r{n}", queue="r", at=9) for n in range(2)))
    shares = {"q": 0, "r": 0}
    desk.core.used = lambda queue: shares[queue]

    desk.core.apply(a_queue("q", version=2, flavors=flavors))
    desk.core.apply(a_queue("r", version=2, flavors=flavors))
    shares["q"] = 1

    assert [one for one in desk.settle() if one[0] == "+"] == ["+r0", "+r1", "+q0"]


def test_a_line_that_got_no_turn_is_returned():
    desk = window(0)
    desk.queue(a_pending("q0", queue="q"), a_pending("r0", queue="r"))
    lines = [desk.core.lines[name] for name in "qr"]
    taken = []

    def turn(line):
        taken.append(line.name)
        return False

    left = take_turns(lines, lambda queue: 0, turn, 1)

    assert (taken, [line.name for line in left]) == (["q"], ["r"])
    assert turn_key(lines[0], lambda queue: 7)[1] == (0, (), 7)


def test_a_line_whose_turn_comes_later_meanwhile_lets_others_pass():
    desk = window(0)
    desk.queue(*(a_pending(f"{name}{n}", queue=name, at=n) for name in "qr" for n in range(2)))
    lines = [desk.core.lines[name] for name in "qr"]
    used, order = {"q": 0, "r": 1}, []

    def turn(line):
        order.append(line.name)
        used["q"] = 5
        line.leave(line.head())
        return True

    assert take_turns(lines, used.__getitem__, turn, 9) == []
    assert order == ["q", "r", "r", "q"]


def test_an_entry_that_grew_behind_the_back_is_ranked_anew():
    desk = window(0)
    desk.queue(*(a_pending(f"{name}0", queue=name) for name in "qr"))
    lines = [desk.core.lines[name] for name in "qr"]
    asked, order = [], []

    def used(queue):
        """The use of q is seen to be larger once all are ranked."""
        asked.append(queue)
        return 9 if queue == "q" and len(asked) > 2 else 1

    def turn(line):
        order.append(line.name)
        return False

    take_turns(lines, used, turn, 9)

    assert order == ["r", "q"]
