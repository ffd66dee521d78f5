"""The waiting index against a model that sorts everything anew each time."""

from __future__ import annotations

import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.queueing.waiting import WaitingIndex

NAMES = st.sampled_from([f"w{number}" for number in range(6)])
CLASSES = st.sampled_from([("a", True), ("b", True), ("s", False)])
ROOMS = st.sampled_from(["narrow", "wide"])
STEPS = st.one_of(
    st.tuples(st.just("add"), NAMES, CLASSES, st.tuples(st.integers(-1, 0), st.integers(0, 5))),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("try"), st.booleans(), st.one_of(st.none(), ROOMS)),
    st.tuples(st.just("wake"), st.sets(NAMES), st.sets(ROOMS)),
    st.tuples(st.just("wake class"), CLASSES),
    st.tuples(st.just("taken"), st.sets(ROOMS), st.sets(NAMES)),
    st.tuples(st.just("give back"), CLASSES),
)


class Model:
    """Everything sorted on demand; what is placed makes the rank of its class larger."""

    def __init__(self):
        self.waiting = {}
        self.resting = {}
        self.lacks = {}
        self.free = set()
        self.helpless = set()
        self.ranks = {"a": 0, "b": 0, "s": 0}

    def rank(self, workload):
        return (self.ranks[self.waiting[workload][0][0]],)

    def rank_at_least(self, workload):
        return (self.rank(workload)[0] // 2,)

    def is_free(self, lacks):
        return lacks in self.free

    def passes(self, workload_id):
        return workload_id in self.helpless

    def head(self, name):
        members = [(key, one) for one, (cls, key) in self.waiting.items() if cls[0] == name]
        return min(members)[1] if members else None

    def add(self, workload, cls, key):
        self.remove(workload)
        self.waiting[workload] = (cls, key)
        if not self.resting.get(cls[0]):
            self.lacks[cls[0]] = None
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
            self.resting[cls[0]] = self.lacks[cls[0]] = None

    def in_vain(self, name):
        lacks = self.lacks.get(name)
        return lacks and (lacks not in self.free or self.head(name) in self.helpless)

    def first(self, *, asks):
        ready = [
            (key[0], self.ranks[cls[0]], key, workload)
            for workload, (cls, key) in self.waiting.items()
            if not self.resting.get(cls[0])
            and self.head(cls[0]) == workload
            and not (asks and self.in_vain(cls[0]))
        ]
        return min(ready)[-1] if ready else None

    def wake(self, helped, free):
        self.free, self.helpless = set(free), set()
        for name in {cls[0] for cls, _ in self.waiting.values()}:
            lacks = self.lacks.get(name)
            if lacks in free if lacks else self.head(name) in helped:
                self.resting[name] = False


@given(st.lists(STEPS, min_size=10, max_size=60))
def test_the_first_of_all_classes_that_do_not_rest_comes_next(steps):
    model = Model()
    index = WaitingIndex(model.rank, model.rank_at_least)
    for step in steps:
        _apply(step, index, model)

        assert len(model.waiting) == len(index)
        assert all(workload in index for workload in model.waiting)
        for name in "abs":
            members = {one for one, (cls, _) in model.waiting.items() if cls[0] == name}
            assert members == set(index.behind(name))
            if model.in_vain(name) and not model.resting.get(name):
                model.resting[name] = index.is_inadmissible(name)  # once its turn has come
            assert bool(members and model.resting.get(name)) == index.is_inadmissible(name)
            at_rest = model.head(name) if index.is_inadmissible(name) else None
            assert at_rest == index.inadmissible_head(name)


def _apply(step, index, model):
    match step:
        case ("add", workload, cls, key):
            model.add(workload, cls, key)
            index.add(workload, cls[0], key, alike=cls[1])
        case ("remove", workload):
            index.remove(workload)
            model.remove(workload)
        case ("wake", helped, free):
            model.wake(helped, free)
            index.requeue(lambda workload: workload in helped, model)
        case ("wake class", cls):
            if index.is_inadmissible(cls[0]):
                model.resting[cls[0]] = model.lacks[cls[0]] = None
            index.requeue_class(cls[0])
        case ("taken", rooms, names):
            model.free -= rooms
            model.helpless |= names
        case ("give back", cls):
            model.ranks[cls[0]] = 0
            index.rewind()
        case ("try", refused, lacks):
            _try(index, model, refused, lacks)
        case _:
            raise AssertionError(step)


def _try(index, model, refused, lacks):
    assert model.first(asks=False) == index.first()
    expected = model.first(asks=True)
    assert expected == index.pop(model)
    if expected is None:
        return
    cls, key = model.waiting[expected]
    model.remove(expected)
    if not refused:
        model.ranks[cls[0]] += 1
    else:
        lacks = lacks if cls[1] else None
        model.add(expected, cls, key)
        index.make_inadmissible(expected, cls[0], key, alike=cls[1], lacks=lacks)
        model.resting[cls[0]], model.lacks[cls[0]] = True, lacks


def test_an_index_without_ranks_goes_by_age():
    index = WaitingIndex()
    index.add("w2", "a", (0, 7))
    index.add("w1", "b", (0, 5))
    index.add("w0", "c", (-1, 9))

    assert [index.pop() for _ in range(4)] == ["w0", "w1", "w2", None]


def test_a_place_for_one_queue_lets_the_other_go_first():
    placed = {"a": 0, "b": 0}
    index = WaitingIndex(lambda workload: (placed[workload[0]],))
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
    index.make_inadmissible("head", "b", (0, 2))

    assert list(index.inadmissible_heads()) == ["head"]


def test_ranks_that_fell_do_not_wake_who_rests():
    index = WaitingIndex()
    index.make_inadmissible("rests", "a", (0, 1))
    index.add("ready", "b", (0, 2))

    index.rewind()

    assert [index.pop() for _ in range(2)] == ["ready", None]
    assert index.is_inadmissible("a")


@pytest.fixture
def lacking():
    """Two lack the wide room, one the narrow, one something else; all rooms are taken."""
    index = WaitingIndex()
    for order, (name, lacks) in enumerate(
        [("wide", "wide"), ("narrow", "narrow"), ("other", None), ("wider", "wide")]
    ):
        index.make_inadmissible(name, name, (0, order), lacks=lacks)
    return index


class Free:
    """These rooms are free, and these workloads find nothing there."""

    def __init__(self, *rooms, helpless=()):
        self.rooms, self.helpless = rooms, helpless

    def is_free(self, lacks):
        return lacks in self.rooms

    def passes(self, workload_id):
        return workload_id in self.helpless


def popped(index, free):
    found = []
    while (name := index.pop(free)) is not None:
        found.append(name)
    return found


def test_who_lacks_a_room_is_woken_by_it_and_nobody_asks_whether_it_helps_him(lacking):
    asked, free = [], Free("wide")

    def can_help(workload):
        asked.append(workload)
        return False

    lacking.requeue(can_help, free)

    assert lacking.is_inadmissible("narrow")
    assert ["wide", "wider"] == popped(lacking, free)
    assert ["other"] == asked


def test_whose_room_is_taken_before_his_turn_rests_again_until_it_is_free(lacking):
    free = Free("wide")
    lacking.requeue(lambda _: False, free)
    assert "wide" == lacking.pop(free)

    assert "wider" == lacking.first()
    assert lacking.pop(Free()) is None
    assert "wider" == lacking.inadmissible_head("wider")
    assert lacking.inadmissible_head("wide") is None
    lacking.requeue(lambda _: False, free)
    assert ["wider"] == popped(lacking, free)


def test_who_finds_nothing_in_his_room_passes_and_the_next_is_asked(lacking):
    free = Free("wide", helpless=("wide",))
    lacking.requeue(lambda workload: workload == "other", free)

    assert "wide" == lacking.first()
    assert ["other", "wider"] == popped(lacking, free)
    assert lacking.is_inadmissible("wide")


def test_a_class_that_is_woken_for_itself_is_tried_whatever_room_is_left(lacking):
    lacking.requeue_class("wide")
    lacking.requeue_class("nobody")

    assert ["wide"] == popped(lacking, Free())


class Room:
    """Something that can be lacked."""


def test_a_room_that_nobody_lacks_any_more_is_forgotten():
    index, room = WaitingIndex(), Room()
    seen = weakref.ref(room)
    index.make_inadmissible("w1", "a", (0, 1), lacks=room)
    assert index.waits("a")
    index.requeue(lambda _: False)
    assert "w1" == index.pop(), "any room is free as long as nobody says otherwise"
    index.make_inadmissible("w1", "a", (0, 1), lacks=room)

    index.remove("w1")
    del room

    assert seen() is None
    assert not index.waits("a")
