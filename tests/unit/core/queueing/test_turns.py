"""Queues fill a window that cannot hold all of their work in the order of placement."""

from shared.core.model.units import UNLIMITED
from shared.core.queueing.nomination.decision import Nominate, Withdraw
from shared.core.queueing.nomination.permission import FlavorRoom
from shared.core.queueing.nomination.turns import Turn, take_turns, turn_key
from tests.unit.quota.builders import PATIENT, Desk, a_cohort, a_pending, a_queue

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


class Rivals:
    """Two lines with `count` each, and a record of who took a turn."""

    def __init__(self, count=1):
        desk = window(0)
        desk.queue(
            *(a_pending(f"{name}{n}", queue=name, at=n) for name in "qr" for n in range(count))
        )
        self.lines = [desk.core.lines[name] for name in "qr"]
        self.used = {"q": 0, "r": 0}
        self.order = []

    def find(self, line):
        head = line.head()
        return head and Turn(head, line.classes[head.request, head.choice], FlavorRoom("h100"))

    def take(self, line, turn):
        self.order.append(line.name)
        line.leave(turn.pending)
        return True

    def run(self, turns_max=9):
        return take_turns(self.lines, self.find, self.take, self.used.__getitem__, turns_max)


def test_a_line_that_got_no_turn_is_returned():
    rivals = Rivals()

    left = rivals.run(turns_max=1)

    assert (rivals.order, [line.name for line in left]) == (["q"], ["r"])
    assert turn_key(left[0], rivals.find(left[0]), lambda queue: 7)[1][-1] == 7


def test_a_line_with_more_to_do_is_returned_too():
    rivals = Rivals(count=2)

    left = rivals.run(turns_max=3)

    assert (rivals.order, [line.name for line in left]) == (["q", "r", "q"], ["r"])


def test_a_line_whose_turn_comes_later_meanwhile_lets_others_pass():
    rivals = Rivals(count=2)
    rivals.used["r"] = 1
    take = rivals.take

    def grows(line, turn):
        rivals.used["q"] = 5
        return take(line, turn)

    rivals.take = grows

    assert rivals.run() == []
    assert rivals.order == ["q", "r", "r", "q"]


def test_who_takes_no_turn_gets_no_other():
    rivals = Rivals(count=2)
    rivals.take = lambda line, turn: rivals.order.append(line.name)

    rivals.run()

    assert rivals.order == ["q", "r"]


def test_an_entry_that_grew_behind_the_back_is_ranked_anew():
    rivals = Rivals()
    asked = []

    def used(queue):
        """The use of q is seen to be larger once all are ranked."""
        asked.append(queue)
        return 9 if queue == "q" and len(asked) > 2 else 1

    take_turns(rivals.lines, rivals.find, rivals.take, used, 9)

    assert rivals.order == ["r", "q"]


def test_who_can_go_no_more_once_others_went_is_passed_over():
    rivals = Rivals()
    find = rivals.find
    rivals.find = lambda line: None if rivals.order and line.name == "r" else find(line)

    assert rivals.run() == []
    assert rivals.order == ["q"]


# ── room that several queues want ────────────────────────────────────────────────────────────


def a_full_cohort(*queues, **options):
    """Two GPUs of cohort `c`, all used by `used`; those who wait cannot have it evicted."""
    pool = {"h100": 2}
    documents = [
        a_queue(name, parent="c", flavors={"h100": 0}, policy=PATIENT, **options)
        for name in queues
    ]
    desk = Desk(a_cohort("c", flavors=pool), *documents)
    used = a_pending("used", 2, queue=queues[0])
    desk.queue(used)
    desk.core.placed(used, "h100", used.request, 1)
    desk.settle()
    return desk, used


def test_freed_room_goes_to_the_higher_priority_of_two_queues():
    desk, used = a_full_cohort("a", "b")
    desk.queue(a_pending("low", 2, queue="a", at=1))
    desk.queue(a_pending("high", 2, queue="b", at=2, priority=1))

    desk.core.forget(used)

    assert desk.settle()[0] == "+high"


def test_freed_room_goes_to_the_queue_that_used_less():
    desk, used = a_full_cohort("a", "b")
    desk.core.used = {"a": 9, "b": 1}.__getitem__
    desk.queue(a_pending("a1", 2, queue="a", at=1))
    desk.queue(a_pending("b1", 2, queue="b", at=2))

    desk.core.forget(used)

    assert desk.settle()[0] == "+b1"


def test_a_head_that_cannot_go_does_not_lend_its_place_to_who_is_behind_it():
    desk, used = a_full_cohort("a", "b")
    desk.queue(a_pending("large", 3, queue="a", priority=2), a_pending("low", 1, queue="a", at=1))
    desk.queue(a_pending("middle", 2, queue="b", at=2, priority=1))

    desk.core.forget(used)

    assert desk.settle()[0] == "+middle"


def test_who_comes_with_the_news_of_freed_room_does_not_go_before_who_waited():
    desk, used = a_full_cohort("a", "b", "d")
    desk.queue(a_pending("waits", 2, queue="b", at=1, priority=1))

    desk.core.forget(used)
    desk.core.enter(a_pending("comes", 2, queue="d", at=2))

    assert desk.settle()[0] == "+waits"


def test_what_is_open_is_given_anew_when_the_queue_becomes_strict_or_no_longer_is():
    desk = Desk(a_queue())
    desk.queue(a_pending("w"))

    for version, strict in ((2, True), (3, False)):
        desk.core.apply(a_queue(version=version, strict=strict))
        desk.core.settle()
        withdrawn, nominated = desk.core.take()
        assert isinstance(withdrawn, Withdraw)
        assert isinstance(nominated, Nominate)
        assert strict is nominated.strict
    desk.core.apply(a_queue(version=4))
    assert desk.settle() == []
