"""The consumer loop: what is read, in which order, and how far."""

from __future__ import annotations

import asyncio

from shared.events.deadlines import deadline_message
from shared.events.topics import NODE_FACTS, team_submissions
from shared.events.workloads import CancelWorkload, HoldWorkload
from tests.support.protocol import a_submission, an_event
from tests.unit.runtime.world import TOPIC, SlowPublisher, names


async def test_messages_pass_in_order_with_their_effects(world):
    world.feed_numbers(*range(20))
    world.begin(batch=7)
    await world.read_to(20)
    await world.end()

    assert names(*range(20)) == world.out() == list(world.passed())
    assert all(len(batch) <= 7 for batch in world.handler.batches)


async def test_messages_that_the_handler_does_not_read_are_passed_over(world):
    world.handler.readable = [CancelWorkload]
    other = HoldWorkload(workload_id="w2", team="t")
    world.feed(an_event(1), an_event(2, other), an_event(3), an_event(4, other))
    world.begin()
    await world.read_to(4)

    assert names(1, 3) == world.out()
    assert {an_event(1).id, an_event(3).id} == set(world.shard.inbox)


async def test_what_is_passed_over_takes_no_room_in_a_unit_within_bounds(world):
    world.handler.readable = [CancelWorkload]
    other = HoldWorkload(workload_id="w0", team="t")
    read = {1, 5, 6, 30, 40}
    world.feed(*(an_event(one) if one in read else an_event(one, other) for one in range(1, 41)))
    world.begin(batch=4)
    await world.read_to(40)

    assert [names(1, 5, 6), names(30), names(40)] == [one for one in world.handler.batches if one]


async def test_offsets_of_messages_passed_over_are_noted_once_a_second(world):
    world.handler.readable = []
    world.begin()
    await world.until(lambda: world.shard.offsets == {(TOPIC, 0): 0})
    world.feed_numbers(1, 2)
    await asyncio.sleep(0.1)
    assert {(TOPIC, 0): 0} == world.shard.offsets

    await world.read_to(2)

    assert not any(world.handler.batches)


async def test_a_deadline_that_is_due_is_decided_and_consumed_like_a_message(world):
    deadline = deadline_message("bind", "w9", 2, 1_700_000_000_000)
    world.handler.deadlines = [deadline]
    world.begin()
    await world.until(lambda: deadline.event.id in world.shard.inbox)

    assert [["w9"]] == world.handler.batches
    assert {(TOPIC, 0): 0} == world.shard.offsets


async def test_a_topic_that_the_handler_asks_for_later_is_read_from_its_beginning(world):
    world.feed(an_event(7), topic=NODE_FACTS.name)
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)
    world.handler.wanted.append((NODE_FACTS, [0]))
    world.feed_numbers(2)
    await world.read_to(1, NODE_FACTS.name)

    assert {"w1": 1, "w2": 1, "w7": 1} == world.passed()


async def test_on_a_team_s_topic_the_team_s_id_is_only_a_correlation(world):
    topic = team_submissions("red")
    world.handler.wanted = [(topic, [0])]
    event = an_event(1, a_submission(), id="my key")
    world.feed(event, event, topic=topic.name)
    world.begin()
    await world.read_to(2, topic.name)

    messages = list(world.shard.inbox.values())
    assert ["my key", "my key"] == [one.event.correlation_id for one in messages]
    assert 2 == len(world.shard.inbox)


async def test_while_the_relay_is_full_nothing_is_read(world, monkeypatch):
    monkeypatch.setattr("shared.runtime.relay.QUEUED_BYTES_MAX", 100)
    world.publisher = SlowPublisher(world.log)
    world.publisher.gate.clear()
    world.feed_numbers(*range(30))
    world.begin(batch=10)
    await world.until(lambda: len(world.shard.outbox) == 10)
    await asyncio.sleep(0.05)
    assert 10 == world.shard.offsets[TOPIC, 0]

    world.publisher.gate.set()
    await world.read_to(30)

    assert names(*range(30)) == world.out()
