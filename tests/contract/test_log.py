"""What the runtime relies on, of the log: order in a partition, reading from an offset."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import pytest

from shared.adapters.kafka import KafkaPublisher, KafkaSubscription, reading
from shared.adapters.kafka.topics import create_topics
from shared.adapters.memory_log import MemoryLog, MemoryPublisher, MemorySubscription
from shared.events.topics import QUEUE_FACTS, SUBMISSION_COMMANDS
from shared.ports.errors import Transient
from shared.ports.kafka_access import KafkaAccess
from tests.support.lost_log import recreate, trim
from tests.support.protocol import a_row

TOPIC = SUBMISSION_COMMANDS.name
OTHER = QUEUE_FACTS.name


@dataclass
class World:
    """A publisher, a subscription, and what can happen to them and to the topic."""

    publisher: Any
    subscription: Any
    break_after: Any
    """Breaks the publishing in the middle."""
    recreate: Any
    """Deletes the topic and makes it again."""
    trim: Any
    """Removes the records of partition 0 below an offset."""

    async def read(self, count: int, seconds: float = 10) -> list[Any]:
        """Poll until `count` records came, or the time is over."""
        messages: list[Any] = []
        deadline = time.monotonic() + seconds
        while len(messages) < count and time.monotonic() < deadline:
            messages += await self.subscription.poll(500, 0.2)
        return messages


@pytest.fixture(params=["memory", "kafka"])
async def world(request, topic_prefix):
    if request.param == "memory":
        log = MemoryLog()
        yield World(
            MemoryPublisher(log),
            MemorySubscription(log),
            _breaker_of(log),
            lambda: _at_once(log.recreate, TOPIC),
            lambda before: _at_once(log.trim, TOPIC, 0, before),
        )
        return
    bootstrap = request.getfixturevalue("kafka")
    access = KafkaAccess(bootstrap=bootstrap)
    await create_topics(access, topic_prefix, [SUBMISSION_COMMANDS, QUEUE_FACTS])
    publisher = KafkaPublisher(access, topic_prefix)
    subscription = KafkaSubscription(access, topic_prefix)
    yield World(
        publisher,
        subscription,
        lambda rows: _break_kafka(publisher, rows),
        lambda: recreate(access, topic_prefix, SUBMISSION_COMMANDS),
        lambda before: trim(access, topic_prefix, SUBMISSION_COMMANDS, before),
    )
    await publisher.close()
    await subscription.close()


async def _at_once(change, *arguments):
    change(*arguments)


def _breaker_of(log):
    def break_after(rows):
        log.break_after = rows

    return break_after


def _break_kafka(publisher, rows):
    """The connection breaks once, when `rows` rows have been written."""
    send = publisher._send

    async def broken(producer, topic, partition, batch):
        publisher._send = send
        await asyncio.gather(*await send(producer, topic, partition, batch[:rows]))
        raise OSError("connection reset")

    publisher._send = broken


def seqs(messages):
    """Numbers of the rows that became `messages`."""
    return [int(one.key[1:]) for one in messages]


async def test_what_is_published_is_read_as_it_was_written(world):
    row = a_row(1)
    await world.publisher.publish([row])
    await world.subscription.assign({(TOPIC, 0): 0})

    (message,) = await world.read(1)

    assert (TOPIC, 0, 0) == (message.topic, message.partition, message.offset)
    assert (row.key.encode(), row.value) == (message.key, message.value)
    assert tuple(row.headers) == tuple(message.headers)
    assert message.timestamp_ms > 0


async def test_order_is_kept_in_each_partition(world):
    rows = [a_row(number, partition=number % 3) for number in range(1, 301)]
    await world.publisher.publish(rows[:150])
    await world.publisher.publish(rows[150:])
    await world.subscription.assign({(TOPIC, partition): 0 for partition in range(3)})

    messages = await world.read(300)

    for partition in range(3):
        numbers = seqs(one for one in messages if one.partition == partition)
        assert numbers == [number for number in range(1, 301) if number % 3 == partition]


async def test_nothing_comes_before_an_older_record_of_a_topic_that_is_waited_for(world):
    await world.publisher.publish([a_row(1, topic=OTHER)])
    await world.subscription.assign({(TOPIC, 0): 0, (OTHER, 0): 0})
    world.subscription.wait_for({TOPIC, OTHER})
    early = await world.read(1, 0.5)

    await world.publisher.publish([a_row(2)])
    oldest = await world.read(1)
    world.subscription.wait_for(())
    rest = await world.read(1)

    assert ([], [1], [2]) == (early, seqs(oldest), seqs(rest))


async def test_rows_too_large_for_one_batch_arrive_in_order(world):
    rows = [a_row(number, size=300_000) for number in range(1, 9)]

    await world.publisher.publish(rows)
    await world.subscription.assign({(TOPIC, 0): 0})

    assert list(range(1, 9)) == seqs(await world.read(8))


async def test_the_placement_of_the_largest_gang_passes(world):
    await world.publisher.publish([a_row(1), a_row(2, size=4_000_000), a_row(3)])
    await world.subscription.assign({(TOPIC, 0): 0})

    messages = await world.read(3)

    assert [1, 2, 3] == seqs(messages)
    assert len(messages[1].value) > 4_000_000


async def test_who_begins_to_read_is_told_what_the_logs_are_now(world):
    await world.publisher.publish([a_row(1), a_row(2), a_row(3, partition=1)])
    await world.trim(1)

    logs = await world.subscription.assign({(TOPIC, 0): 1, (TOPIC, 1): 0, (TOPIC, 2): None})
    (other,) = (await world.subscription.assign({(OTHER, 0): 0})).values()

    spans = {place[1]: (log.start_offset, log.end_offset) for place, log in logs.items()}
    assert {0: (1, 2), 1: (0, 1), 2: (0, 0)} == spans
    (topic_id,) = {log.topic_id for log in logs.values()}
    assert "" not in {topic_id, other.topic_id}
    assert topic_id != other.topic_id


async def test_the_id_of_a_topic_stays_until_it_is_made_again(world):
    places = {(TOPIC, 0): 0}
    first = (await world.subscription.assign(places))[TOPIC, 0]
    await world.publisher.publish([a_row(1)])
    again = (await world.subscription.assign(places))[TOPIC, 0]

    await world.recreate()
    second = (await world.subscription.assign(places))[TOPIC, 0]

    assert first.topic_id == again.topic_id != second.topic_id
    assert (0, 0) == (second.start_offset, second.end_offset)


async def test_without_an_offset_reading_begins_at_the_first_record_that_is_kept(world):
    await world.publisher.publish([a_row(number) for number in range(1, 6)])
    await world.trim(3)

    await world.subscription.assign({(TOPIC, 0): None})

    assert [4, 5] == seqs(await world.read(2))


@pytest.mark.parametrize("offset", [2, 6])
async def test_an_offset_that_is_not_in_the_log_is_told_and_nothing_is_passed_over(world, offset):
    await world.publisher.publish([a_row(number) for number in range(1, 6)])
    await world.trim(3)
    await world.subscription.assign({(TOPIC, 0): offset})

    with pytest.raises(Transient, match=TOPIC):
        await world.read(1)


async def test_what_was_read_is_given_out_before_it_is_told_that_no_more_can_be_read(world):
    await world.publisher.publish([a_row(1), a_row(2), a_row(3)])
    await world.subscription.assign({(TOPIC, 0): 0})
    await asyncio.sleep(0.5)
    first = await world.subscription.poll(1, 10)

    await world.recreate()
    await asyncio.sleep(1)
    second = await world.subscription.poll(2, 0)

    assert [1, 2, 3] == seqs([*first, *second])
    with pytest.raises(Transient, match=TOPIC):
        await world.read(1)


async def test_a_topic_made_again_while_it_is_read_is_told(world, monkeypatch):
    monkeypatch.setattr(reading, "TOPIC_ID_SECONDS", 0.2)
    await world.publisher.publish([a_row(1), a_row(2)])
    await world.subscription.assign({(TOPIC, 0): 0})
    assert [1, 2] == seqs(await world.read(2))

    await world.recreate()
    await world.publisher.publish([a_row(number) for number in range(3, 8)])

    with pytest.raises(Transient, match=TOPIC):
        await world.read(9)


async def test_reading_begins_at_the_offset_given(world):
    await world.publisher.publish([a_row(number) for number in range(1, 11)])
    await world.subscription.assign({(TOPIC, 0): 7})

    messages = await world.read(3)

    assert [7, 8, 9] == [one.offset for one in messages]


async def test_a_topic_assigned_again_is_read_anew_and_others_go_on(world):
    await world.publisher.publish([a_row(1), a_row(2), a_row(3, topic=OTHER)])
    await world.subscription.assign({(TOPIC, 0): 0, (OTHER, 0): 0})
    assert 3 == len(await world.read(3))
    await world.publisher.publish([a_row(4), a_row(5)])
    assert 1 == len(await world.subscription.poll(1, 10))

    await world.subscription.assign({(TOPIC, 0): 1})
    await world.publisher.publish([a_row(6, topic=OTHER)])

    messages = [(one.topic, one.offset) for one in await world.read(5, 2)]
    assert [(OTHER, 1), (TOPIC, 1), (TOPIC, 2), (TOPIC, 3)] == sorted(messages)


async def test_publishing_again_after_an_error_doubles_but_loses_nothing(world):
    rows = [a_row(number) for number in range(1, 11)]
    world.break_after(4)
    with pytest.raises(Transient):
        await world.publisher.publish(rows)

    await world.publisher.publish(rows)
    await world.subscription.assign({(TOPIC, 0): 0})

    assert [1, 2, 3, 4, *range(1, 11)] == seqs(await world.read(14))


async def test_a_poll_takes_no_more_than_it_was_asked_for(world):
    await world.publisher.publish([a_row(number) for number in range(1, 11)])
    await world.subscription.assign({(TOPIC, 0): 0})
    await asyncio.sleep(0.2)

    first = await world.subscription.poll(4, 5)

    assert len(first) <= 4
    assert list(range(1, 11)) == seqs([*first, *await world.read(10 - len(first))])


async def test_a_backlog_of_one_topic_does_not_hold_up_another(world):
    await world.publisher.publish([a_row(number) for number in range(1, 24_001)])
    await world.publisher.publish([a_row(number, topic=OTHER) for number in range(1, 101)])

    read = await _read_until(world, lambda read: sum(one.topic == OTHER for one in read) == 100)

    before = sum(one.topic == TOPIC for one in read)
    assert before <= 6_000
    assert list(range(1, before + 1)) == seqs(one for one in read if one.topic == TOPIC)


@pytest.mark.parametrize(("first", "second"), [(TOPIC, OTHER), (OTHER, TOPIC)])
async def test_of_two_backlogs_the_older_is_read_first(world, first, second):
    await world.publisher.publish([a_row(number, topic=first) for number in range(1, 12_001)])
    await asyncio.sleep(0.01)
    await world.publisher.publish([a_row(number, topic=second) for number in range(1, 12_001)])

    read = await _read_until(world, lambda read: len(read) >= 12_000)

    assert sum(one.topic == first for one in read) > 9_000


async def _read_until(world, enough):
    """Polls both topics, which have been read ahead, until it is enough."""
    await world.subscription.assign({(TOPIC, 0): 0, (OTHER, 0): 0})
    await asyncio.sleep(1)
    read: list[Any] = []
    while not enough(read) and (more := await world.subscription.poll(500, 5)):
        read += more
        await asyncio.sleep(0.02)  # as long as a unit takes at least, and more is read ahead
    return read


async def test_a_poll_returns_as_soon_as_there_is_something(world):
    await world.subscription.assign({(TOPIC, 0): 0})
    polled = asyncio.create_task(world.subscription.poll(10, 30))
    await asyncio.sleep(0.3)

    started = time.monotonic()
    await world.publisher.publish([a_row(1)])

    assert [1] == seqs(await polled)
    assert time.monotonic() - started < 5


async def test_a_poll_without_news_is_empty_after_the_wait(world):
    await world.subscription.assign({(TOPIC, 0): 0})

    assert [] == await world.subscription.poll(10, 0.05)


async def test_a_waiting_poll_can_be_woken(world):
    await world.subscription.assign({(TOPIC, 0): 0})
    polled = asyncio.create_task(world.subscription.poll(10, 60))
    await asyncio.sleep(0.1)

    world.subscription.wake()

    assert [] == await asyncio.wait_for(polled, 5)
