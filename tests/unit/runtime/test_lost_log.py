"""Topics that are made again are read from 0; nothing is decided while a log has lost records."""

from __future__ import annotations

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from shared.adapters.memory import MemoryLease
from shared.events.topics import NODE_FACTS
from shared.runtime import loop as loop_module
from shared.runtime.telemetry import LOG_LOST
from tests.support.protocol import a_row, a_unit, an_event
from tests.unit.runtime.world import SHARD, TOPIC, names

HERE = (TOPIC, 0)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(loop_module, "LOST_BACKOFFS", 3)
    LOG_LOST.clear()


def lost(topic=TOPIC):
    """What the metric tells."""
    return REGISTRY.get_sample_value("muster_log_lost", {"service": "quota", "topic": topic})


async def restarted(world, *numbers):
    """A service that has read these, and has ended; what comes next happens while it is away."""
    world.feed_numbers(*numbers)
    world.begin()
    await world.read_to(len(numbers))
    await world.end()


async def test_a_topic_made_again_while_the_service_was_away_is_read_from_0(world):
    await restarted(world, 1, 2, 3)
    world.log.recreate(TOPIC)
    world.feed_numbers(4, 5, 6, 7)

    world.begin()
    await world.until(lambda: len(world.passed()) == 7)

    assert names(1, 2, 3, 4, 5, 6, 7) == world.out()
    assert (4, f"{TOPIC}-1") == (world.shard.offsets[HERE], world.shard.topic_ids[HERE])


async def test_a_topic_made_again_while_it_is_read_is_read_from_0_without_copies(world):
    world.feed_numbers(1, 2)
    world.begin()
    await world.read_to(2)

    world.log.recreate(TOPIC)
    world.feed_numbers(2, 3, 4)
    await world.until(lambda: len(world.passed()) == 4)

    assert {1} == set(world.passed().values())
    assert 2 == world.handler.loads


async def test_an_id_is_noted_before_the_first_record_comes(world):
    world.begin()
    await world.until(lambda: HERE in world.shard.topic_ids)
    assert (0, f"{TOPIC}-0") == (world.shard.offsets[HERE], world.shard.topic_ids[HERE])
    await world.end()


async def test_a_row_without_an_id_adopts_that_of_now_and_goes_on(world):
    await restarted(world, 1, 2)
    world.shard.topic_ids.clear()
    world.feed_numbers(3)

    world.begin()
    await world.until(lambda: len(world.passed()) == 3)

    assert (3, f"{TOPIC}-0") == (world.shard.offsets[HERE], world.shard.topic_ids[HERE])
    assert names(3) == world.handler.batches[-1]


async def test_who_has_read_nothing_yet_begins_at_the_first_record_that_is_kept(world):
    world.feed_numbers(1, 2, 3)
    world.log.trim(*HERE, 2)

    world.begin()
    await world.read_to(3)

    assert names(3) == world.out()


async def test_what_expired_after_it_was_read_is_no_loss(world):
    await restarted(world, 1, 2, 3)
    world.log.trim(*HERE, 3)

    world.begin()
    await world.until(lambda: world.loop.ready)
    world.feed_numbers(4)
    await world.read_to(4)

    assert names(1, 2, 3, 4) == world.out()


async def test_while_records_are_gone_that_were_not_read_nothing_is_decided(world):
    await restarted(world, 1, 2)
    world.feed_numbers(3, 4, 5)
    world.log.trim(*HERE, 4)

    with capture_logs() as logs:
        world.begin()
        await world.until(lambda: world.handler.loads > 4)

    assert not world.loop.ready
    assert world.loop.why_not_ready.startswith(
        f"{TOPIC} partition 0: the log begins at offset 4, and 2 is next to be read: records"
    )
    assert [world.loop.why_not_ready] == [
        one["message"] for one in logs if one["event"] == "log lost"
    ]
    assert 1 == lost()
    assert names(1, 2) == world.out()
    assert 2 == world.shard.offsets[HERE]


async def test_it_goes_on_when_a_person_has_accepted_the_loss(world):
    await restarted(world, 1, 2)
    world.feed_numbers(3, 4, 5)
    world.log.trim(*HERE, 4)
    world.begin()
    await world.until(lambda: lost() == 1)

    world.shard.offsets[HERE] = 4
    await world.until(lambda: world.loop.ready)
    await world.read_to(5)

    assert ("", 0) == (world.loop.why_not_ready, lost())
    assert names(1, 2, 5) == world.out()


async def test_an_end_that_is_lost_stays_lost_when_others_write_in_its_place(world):
    await restarted(world, 1, 2, 3)
    del world.log.records[HERE][1:]
    world.begin()
    await world.until(lambda: world.loop.why_not_ready != "")

    world.feed_numbers(4, 5, 6, 7)
    loads = world.handler.loads
    await world.until(lambda: world.handler.loads > loads + 3)
    assert not world.loop.ready
    world.shard.offsets[HERE] = 0
    await world.until(lambda: len(world.passed()) == 7)

    assert names(1, 2, 3, 4, 5, 6, 7) == world.out()


async def test_what_is_trimmed_beyond_a_reader_that_is_slow_is_told(world):
    world.feed_numbers(1, 2)
    world.begin()
    await world.read_to(2)

    world.log.trim(*HERE, 3)
    world.feed_numbers(3, 4)
    await world.until(lambda: world.loop.why_not_ready != "")

    assert not world.loop.ready
    assert "records that were removed unread: 1; " in world.loop.why_not_ready


async def test_what_waits_in_the_outbox_is_told_although_the_log_has_lost_records(world):
    await restarted(world, 1)
    world.feed_numbers(2, 3)
    world.log.trim(*HERE, 2)
    session = world.session()
    await session._lease.try_acquire()
    await session._store.commit(a_unit(5, outbox=[a_row(90, topic="old.facts.v1")]))

    world.begin()
    await world.until(lambda: lost() == 1 and ("old.facts.v1", 0) in world.log.records)

    assert not world.loop.ready


async def test_a_topic_that_is_wanted_again_later_begins_at_what_is_kept(world):
    await MemoryLease(world.database, SHARD, "a").try_acquire()
    later = (NODE_FACTS.name, 0)
    world.shard.offsets[later], world.shard.topic_ids[later] = 1, f"{NODE_FACTS.name}-0"
    world.feed(*(an_event(number) for number in (11, 12, 13)), topic=NODE_FACTS.name)
    world.log.trim(*later, 2)
    world.begin()
    await world.until(lambda: world.loop.ready)

    world.handler.wanted = [*world.handler.wanted, (NODE_FACTS, [0])]
    world.feed_numbers(1)
    await world.read_to(3, topic=NODE_FACTS.name)

    assert names(1, 13) == world.out()
    assert world.loop.ready
