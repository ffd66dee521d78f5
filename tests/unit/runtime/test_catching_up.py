"""Deadlines wait until what was in the log at the beginning is read."""

from __future__ import annotations

from msgspec.structs import replace

from shared.adapters.memory import ManualClock
from shared.events.deadlines import deadline_message
from shared.events.topics import QUEUE_FACTS, SUBMISSION_COMMANDS
from shared.runtime import telemetry
from shared.runtime.catching_up import QUIET_SECONDS, CatchingUp
from tests.support.protocol import a_record, an_event
from tests.unit.runtime.world import names

HERE, THERE = (SUBMISSION_COMMANDS.name, 0), (QUEUE_FACTS.name, 0)


async def test_a_deadline_is_decided_after_all_that_lay_in_the_log(world):
    world.handler.wanted = [(SUBMISSION_COMMANDS, [0]), (QUEUE_FACTS, [0])]
    world.handler.deadlines = [deadline_message("duration", "w9", 1, 1)]
    world.feed_numbers(1, 2, 3)
    world.feed(an_event(4), topic=QUEUE_FACTS.name)

    world.begin(batch=1)
    await world.until(lambda: len(world.passed()) == 5)

    told = [name for batch in world.handler.batches for name in batch]
    assert (sorted(names(1, 2, 3, 4)), "w9") == (sorted(told[:-1]), told[-1])


async def test_in_the_next_life_it_waits_again_for_what_came_meanwhile(world):
    world.begin(batch=1)
    world.feed_numbers(1)
    await world.read_to(1)
    await world.end()
    world.feed_numbers(2, 3)
    world.handler.deadlines = [deadline_message("duration", "w9", 1, 1)]

    world.begin(batch=1)
    await world.until(lambda: len(world.passed()) == 4)

    assert [*names(1, 2, 3), "w9"] == [one for batch in world.handler.batches for one in batch]


async def test_how_far_a_life_is_behind_is_known_when_it_begins(world):
    world.feed_numbers(1, 2, 3)
    world.begin(batch=1)
    await world.read_to(3)
    await world.end()
    world.feed_numbers(4, 5)
    world.begin(batch=1)
    await world.read_to(5)

    assert 2 == telemetry.LAG.labels(world.handler.name)._value.get()


async def test_a_handler_that_goes_by_time_reads_what_lay_there_in_its_order(world):
    """Each topic in its turn would give the last of one topic before the first of the other."""
    world.handler.by_time = True
    world.handler.wanted = [(SUBMISSION_COMMANDS, [0]), (QUEUE_FACTS, [0])]
    for number in range(60):
        topic = SUBMISSION_COMMANDS if number < 40 else QUEUE_FACTS
        record = a_record(an_event(number), 0, topic=topic.name)
        world.feed_raw(replace(record, timestamp_ms=record.timestamp_ms + number))

    world.begin(batch=20)
    await world.until(lambda: len(world.passed()) == 60)

    assert names(*range(60)) == [one for batch in world.handler.batches for one in batch]


async def test_what_comes_after_it_is_not_waited_for(world):
    world.handler.by_time = True
    world.handler.wanted = [(SUBMISSION_COMMANDS, [0]), (QUEUE_FACTS, [0])]
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)

    world.feed(an_event(2), topic=QUEUE_FACTS.name)
    await world.read_to(1, QUEUE_FACTS.name)


def test_what_was_read_before_is_not_waited_for():
    catching_up = CatchingUp(ManualClock())

    catching_up.expect({HERE: 5, THERE: 0}, {HERE: 5, THERE: 0})

    assert catching_up.over


def test_it_is_over_with_the_last_record_of_each_place_or_a_later_one():
    catching_up = CatchingUp(ManualClock())
    catching_up.expect({HERE: 0, THERE: 1}, {HERE: 2, THERE: 2})

    catching_up.read([_record(0, HERE), _record(1, HERE)])
    halfway = catching_up.over
    catching_up.read([_record(7, THERE)])

    assert (False, True) == (halfway, catching_up.over)


def test_of_what_was_removed_from_the_log_nothing_comes():
    clock = ManualClock()
    catching_up = CatchingUp(clock)
    catching_up.expect({HERE: 0}, {HERE: 9})

    clock.advance(QUIET_SECONDS - 1)
    catching_up.read([_record(0, HERE)])
    clock.advance(QUIET_SECONDS - 1)
    soon = catching_up.over
    clock.advance(2)

    assert (False, True) == (soon, catching_up.over)


def test_another_life_begins_anew():
    catching_up = CatchingUp(ManualClock())
    catching_up.expect({HERE: 0}, {HERE: 9})

    catching_up.forget()

    assert catching_up.over


def _record(offset, place):
    return a_record(an_event(1), offset, topic=place[0])
