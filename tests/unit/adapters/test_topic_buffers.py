"""Which record comes when: in order of arrival, but for what comes first and equal turns."""

from collections import Counter

import pytest

from shared.adapters.topic_buffers import (
    ALIKE,
    MESSAGES_MAX,
    MESSAGES_OF_TOPIC,
    TAKEN_BYTES_MAX,
    TopicBuffers,
)
from shared.ports.publisher import RawMessage


def messages(topic: str, *times_ms: int) -> list[RawMessage]:
    return [
        RawMessage(
            topic=topic, partition=0, offset=n, headers=(), key=b"", value=b"", timestamp_ms=at_ms
        )
        for n, at_ms in enumerate(times_ms)
    ]


def buffers(first: tuple[str, ...] = (), **times_ms: range) -> TopicBuffers:
    found = TopicBuffers(first)
    for topic, each in times_ms.items():
        found.put(topic, messages(topic, *each))
    return found


def taken(found: TopicBuffers, most: int) -> Counter[str]:
    return Counter(one.topic for one in found.take(most))


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ((), {"old": 88, "new": 12}),
        (("new",), {"old": 12, "new": 88}),
        (("nobody",), {"old": 88, "new": 12}),
    ],
)
def test_the_oldest_come_first_but_for_preferred_topics_and_a_part_for_all(first, expected):
    found = buffers(first, old=range(500), new=range(1_000, 1_500))

    assert expected == taken(found, 100)
    assert 100 // ALIKE // 2 == 12


def test_in_turn_even_if_a_part_is_smaller_than_the_topics():
    found = buffers(a=range(9), b=range(10, 19), c=range(20, 29))

    assert {"a": 4} == taken(found, 4)
    assert {"b": 1, "a": 3} == taken(found, 4)
    assert {"c": 1, "a": 2, "b": 1} == taken(found, 4)


def test_of_two_that_came_in_turns_each_comes_when_it_came():
    found = buffers(a=range(0, 6, 2), b=range(1, 7, 2))

    assert [0, 1, 2] == [one.timestamp_ms for one in found.take(3)]
    assert [3, 4, 5] == [one.timestamp_ms for one in found.take(3)]
    assert [] == found.take(1)


def test_who_waits_for_topics_gets_all_in_the_order_in_which_it_came():
    found = buffers(a=range(100, 300), b=range(150))
    found.wait_for({"a", "b"})

    assert [*range(100), *sorted(2 * [*range(100, 150)])] == [
        one.timestamp_ms for one in found.take(1_000)
    ]
    assert not found.ready
    assert [] == found.take(1_000)
    found.wait_for({"a"})
    assert found.ready
    assert {"a": 150} == taken(found, 1_000)
    assert not found.ready


def test_nothing_is_lost_and_the_order_of_a_topic_stays():
    found, read = buffers(a=range(70), b=range(20, 50)), []
    while len(found):
        read += found.take(7)
        if len(read) == 49:
            found.put("b", messages("b", *range(5)))

    assert list(range(70)) == [one.timestamp_ms for one in read if one.topic == "a"]
    assert [*range(20, 50), *range(5)] == [one.timestamp_ms for one in read if one.topic == "b"]


def test_topics_share_what_is_read_ahead_and_each_may_have_a_little():
    found = buffers(a=range(MESSAGES_MAX - 1))
    assert not found.full("a")
    found.put("a", messages("a", 1))
    assert found.full("a")
    assert not found.full("b")

    found.put("b", messages("b", *range(MESSAGES_MAX // 2 - 1)))
    assert not found.full("b")
    found.put("b", messages("b", 1))
    assert found.full("b")

    for number in range(MESSAGES_MAX // MESSAGES_OF_TOPIC):
        found.put(f"c{number}", messages("c", *range(MESSAGES_OF_TOPIC - 1)))
    assert not found.full("c0")
    found.put("c0", messages("c", 1))
    assert found.full("c0")


def test_a_topic_that_is_dropped_leaves_the_others():
    found = buffers(a=range(5), b=range(5))

    found.drop("a")
    found.drop("never seen")

    assert {"b": 5} == taken(found, 100)
    assert 0 == len(found)


def large(topic: str, count: int, size: int) -> list[RawMessage]:
    return [
        RawMessage(topic=topic, partition=0, offset=n, headers=(), key=b"", value=bytes(size))
        for n in range(count)
    ]


def test_large_records_fill_a_buffer_by_their_bytes():
    found = TopicBuffers()

    found.put("a", large("a", 31, 1 << 20))
    assert not found.full("a")
    found.put("a", large("a", 1, 1 << 20))
    assert found.full("a")
    found.put("b", messages("b", 1))
    found.take(1)
    assert found.full("a")
    found.drop("a")
    assert not found.full("a")


def test_large_records_are_taken_a_few_at_a_time_and_small_ones_of_others_with_them():
    found = TopicBuffers()
    found.put("large", large("large", 20, 3 << 20))
    found.put("small", messages("small", *range(1, 100)))

    took = found.take(1_000)

    assert 1 <= sum(one.topic == "large" for one in took) <= 4
    assert sum(one.topic == "small" for one in took) >= 1
    assert sum(len(one.value) for one in took) <= TAKEN_BYTES_MAX + (3 << 20)
    assert found.take(1_000)


def test_a_record_larger_than_the_bound_is_taken_alone():
    found = TopicBuffers()
    found.put("a", large("a", 2, TAKEN_BYTES_MAX + 1))

    assert 1 == len(found.take(10))
    assert 1 == len(found.take(10))
    assert 0 == len(found)
