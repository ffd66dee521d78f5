"""What comes twice is decided once; who goes by versions may read it twice."""

from __future__ import annotations

from msgspec.structs import replace

from shared.events.deadlines import deadline_message
from shared.runtime import dedupe
from tests.support.protocol import a_record, an_event
from tests.unit.runtime.world import Telling, names


async def test_a_duplicate_inside_a_batch_is_decided_once(world):
    world.feed_numbers(1, 2, 1, 1)
    world.begin()
    await world.read_to(4)

    assert [names(1, 2)] == world.handler.batches
    assert names(1, 2) == world.out()


async def test_a_duplicate_of_an_earlier_batch_moves_only_the_offset(world):
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)
    world.feed_numbers(1)
    await world.read_to(2)

    assert {"w1": 1} == world.passed()
    assert 1 == world.handler.loads


async def test_a_duplicate_of_an_earlier_life_is_known(world):
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)
    await world.end()
    world.feed_numbers(1, 2)
    world.begin()
    await world.read_to(3)

    assert {"w1": 1, "w2": 1} == world.passed()


class ByVersion(Telling):
    """Goes by versions."""

    by_version = True


async def test_a_handler_that_goes_by_versions_has_only_deadlines_in_its_inbox(world):
    deadline = deadline_message("turn", "w9", 1, 1_700_000_000_000)
    world.handler = ByVersion()
    world.handler.deadlines = [deadline]
    world.feed_numbers(1, 2, 1)
    world.feed_raw(replace(a_record(an_event(4), 0), value=b"{"))
    world.begin()
    await world.read_to(4)
    await world.until(lambda: deadline.event.id in world.shard.inbox)

    assert [deadline.event.id] == list(world.shard.inbox)
    assert {"": 3, "w9": 1} == world.passed(), "what comes twice is read twice, nameless"
    assert 1 == len(world.letters())


async def test_who_goes_by_versions_reads_on_beyond_what_memory_remembers(world, monkeypatch):
    monkeypatch.setattr(dedupe, "RECENT_IDS_MAX", 10)
    world.handler = ByVersion()
    world.feed_numbers(*range(50))
    world.begin(batch=7)
    await world.read_to(50)

    assert {"": 50} == world.passed()


async def test_a_deadline_that_was_handled_before_what_is_remembered_is_looked_up(world):
    deadline = deadline_message("time-to-live", "late", 0, 1)
    world.handler.deadlines = [deadline]
    world.begin()
    await world.until(lambda: deadline.event.id in world.shard.inbox)
    world.feed_numbers(*range(20))
    await world.read_to(20)
    await world.end()

    world.restored_ids_max = 5
    world.begin()
    world.feed_numbers(21)
    await world.read_to(21)

    assert 1 == world.passed()["late"]
    assert (2, 2) == (world.handler.loads, world.shard.epoch), "no life was void"
