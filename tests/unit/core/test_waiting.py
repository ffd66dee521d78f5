"""The waiting index against a model that sorts everything anew each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.core.waiting import WaitingIndex

NAMES = st.sampled_from([f"w{number}" for number in range(6)])
CLASSES = st.sampled_from([("a", True), ("b", True), ("s", False)])
STEPS = st.one_of(
    st.tuples(st.just("add"), NAMES, CLASSES, st.tuples(st.integers(-1, 0), st.integers(0, 5))),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("try"), st.booleans()),
    st.tuples(st.just("wake"), st.sets(NAMES)),
    st.tuples(st.just("give back"), CLASSES),
)


class Model:
    """Everything sorted on demand; what is placed makes the rank of its class larger."""

    def __init__(self):
        self.waiting = {}
        self.resting = {}
        self.ranks = {"a": 0, "b": 0, "s": 0}

    def rank(self, workload):
        return (self.ranks[self.waiting[workload][0][0]],)

    def head(self, name):
        members = [(key, one) for one, (cls, key) in self.waiting.items() if cls[0] == name]
        return min(members)[1] if members else None

    def add(self, workload, cls, key):
        self.remove(workload)
        self.waiting[workload] = (cls, key)
        if not cls[1] and self.head(cls[0]) == workload:
            self.resting[cls[0]] = False

    def remove(self, workload):
        if workload not in self.waiting:
            return
        cls, _ = self.waiting[workload]
        if not cls[1] and self.head(cls[0]) == workload:
            self.resting[cls[0]] = False
        del self.waiting[workload]
        if self.head(cls[0]) is None:
            self.resting[cls[0]] = False

    def first(self):
        ready = [
            (key[0], self.ranks[cls[0]], key, workload)
            for workload, (cls, key) in self.waiting.items()
            if not self.resting.get(cls[0]) and self.head(cls[0]) == workload
        ]
        return min(ready)[-1] if ready else None

    def wake(self, helped):
        for name in {cls[0] for cls, _ in self.waiting.values()}:
            if self.head(name) in helped:
                self.resting[name] = False


@given(st.lists(STEPS, max_size=40))
def test_the_first_of_all_classes_that_do_not_rest_comes_next(steps):
    index, model = WaitingIndex(), Model()
    index.rank = model.rank
    for step in steps:
        _apply(step, index, model)

        assert len(model.waiting) == len(index)
        assert all(workload in index for workload in model.waiting)
        for name in "abs":
            members = {one for one, (cls, _) in model.waiting.items() if cls[0] == name}
            assert members == set(index.behind(name))
            assert bool(members and model.resting.get(name)) == index.resting(name)


def _apply(step, index, model):
    match step:
        case ("add", workload, cls, key):
            index.add(workload, cls[0], key, alike=cls[1])
            model.add(workload, cls, key)
        case ("remove", workload):
            index.remove(workload)
            model.remove(workload)
        case ("wake", helped):
            index.wake(lambda workload: workload in helped)
            model.wake(helped)
        case ("give back", cls):
            model.ranks[cls[0]] = 0
            index.rewind()
        case (_, refused):
            _try(index, model, refused)
        case _:
            raise AssertionError(step)


def _try(index, model, refused):
    expected = model.first()
    assert expected == index.first()
    assert expected == index.pop()
    if expected is None:
        return
    cls, key = model.waiting[expected]
    model.remove(expected)
    if not refused:
        model.ranks[cls[0]] += 1
    else:
        index.rest(expected, cls[0], key, alike=cls[1])
        model.add(expected, cls, key)
        model.resting[cls[0]] = True


def test_an_index_without_ranks_goes_by_age():
    index = WaitingIndex()
    index.add("w2", "a", (0, 7))
    index.add("w1", "b", (0, 5))
    index.add("w0", "c", (-1, 9))

    assert [index.pop() for _ in range(4)] == ["w0", "w1", "w2", None]


def test_a_place_for_one_queue_lets_the_other_go_first():
    index, placed = WaitingIndex(), {"a": 0, "b": 0}
    index.rank = lambda workload: (placed[workload[0]],)
    for number in range(3):
        index.add(f"a{number}", "a", (0, number))
        index.add(f"b{number}", "b", (0, 10 + number))

    order = []
    while (workload := index.pop()) is not None:
        placed[workload[0]] += 1
        order.append(workload)

    assert order == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_the_heads_of_classes_that_rest_are_told_and_of_no_others():
    index = WaitingIndex()
    index.add("ready", "a", (0, 1))
    index.add("behind", "b", (0, 3))
    index.rest("head", "b", (0, 2))

    assert list(index.resting_heads()) == ["head"]


def test_ranks_that_fell_do_not_wake_who_rests():
    index = WaitingIndex()
    index.rest("rests", "a", (0, 1))
    index.add("ready", "b", (0, 2))

    index.rewind()

    assert [index.pop() for _ in range(2)] == ["ready", None]
    assert index.resting("a")
