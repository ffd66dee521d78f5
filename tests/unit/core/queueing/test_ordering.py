"""Order and lineups."""

import random

from hypothesis import given
from hypothesis import strategies as st

from shared.core.model.ordering import Lineup, order_key
from shared.core.queueing.nomination.pending import Pending
from tests.unit.quota.builders import a_pending


def test_priority_comes_before_age_and_age_before_identity():
    first = order_key(5, 20, "wbbb")
    second = order_key(1, 10, "waaa")
    third = order_key(1, 20, "waaa")
    fourth = order_key(1, 20, "waab")

    assert first < second < third < fourth


def test_a_key_fits_a_signed_integer_of_64_bits():
    key = order_key(2**31, 2**41, "w" + "\U0010ffff" * 3)

    assert all(-(2**63) <= part < 2**63 for part in key)


def test_a_lineup_gives_its_members_in_order_whatever_comes_and_goes():
    members = [a_pending(f"w{i:03}", at=i // 3, priority=i % 2) for i in range(300)]
    random.Random(7).shuffle(members)
    lineup: Lineup[Pending] = Lineup()
    for one in members:
        lineup.push(one)
        lineup.push(one)
    for one in members[:200]:
        lineup.discard(one)
        lineup.discard(one)
    for one in members[:50]:
        lineup.push(one)

    left = [lineup.pop() for _ in range(len(lineup))]

    assert left == sorted(members[:50] + members[200:], key=lambda one: one.key)
    assert lineup.pop() is None


def test_a_reversed_lineup_begins_with_the_last():
    lineup: Lineup[Pending] = Lineup(reverse=True)
    for i in (2, 9, 4):
        lineup.push(a_pending(f"w{i}", at=i))

    assert [one.id for one in (lineup.pop(), lineup.pop(), lineup.pop()) if one] == [
        "w9",
        "w4",
        "w2",
    ]


def test_a_member_that_left_and_came_back_stands_at_its_new_place_only():
    lineup: Lineup[Pending] = Lineup()
    moved, other = a_pending("w1", at=1), a_pending("w2", at=2)
    lineup.push(moved)
    lineup.push(other)

    lineup.discard(moved)
    moved.key = order_key(0, 3, "w1")
    lineup.push(moved)

    assert [lineup.pop(), lineup.pop(), lineup.pop()] == [other, moved, None]


def test_what_has_left_is_not_kept_for_ever():
    lineup: Lineup[Pending] = Lineup()
    members = [a_pending(f"w{i:04}", at=i) for i in range(1000)]
    for one in members:
        lineup.push(one)
    for one in reversed(members[1:]):
        lineup.discard(one)

    assert len(lineup._heap) <= 67


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=80))
def test_members_in_order_are_those_that_would_be_popped(steps):
    lineup: Lineup[Pending] = Lineup()
    members = [a_pending(f"w{i:04}", at=at) for i, (at, _) in enumerate(steps)]
    for one in members:
        lineup.push(one)
    for one, (_, leaves) in zip(members, steps, strict=True):
        if leaves:
            lineup.discard(one)

    seen = list(lineup.in_order())

    assert seen == [lineup.pop() for _ in seen]
    assert lineup.pop() is None


def test_members_in_order_are_those_that_were_not_discarded():
    lineup: Lineup[Pending] = Lineup()
    members = [a_pending(f"w{i}", at=i) for i in range(4)]
    for one in members:
        lineup.push(one)
    for one in members[::2]:
        lineup.discard(one)

    assert list(lineup.in_order()) == members[1::2]
