"""From lease to lease: only the holder reads, and who begins finishes what was left."""

from __future__ import annotations

import asyncio

import pytest

from shared.adapters.memory import MemoryLease
from shared.ports.errors import LeaseLost, SlotTaken, TaskEnded, Transient
from shared.runtime import assemble as assemble_module
from shared.runtime import session as session_module
from shared.runtime.handler import Outcome
from tests.support.protocol import a_row, a_unit, an_event
from tests.unit.runtime.world import SHARD, TOPIC, SlowPublisher, names


async def test_an_idle_holder_notices_that_it_was_overtaken(world, monkeypatch):
    monkeypatch.setattr(session_module, "RENEW_SECONDS", 0.01)
    world.begin()
    await world.until(lambda: world.loop.ready)
    await MemoryLease(world.database, SHARD, "a").try_acquire()

    await world.until(lambda: world.shard.epoch == 3)


async def test_a_holder_that_was_overtaken_decides_again_under_a_new_epoch(world):
    world.begin()
    await world.until(lambda: world.loop.ready)
    await MemoryLease(world.database, SHARD, "a").try_acquire()
    world.feed_numbers(1)
    await world.read_to(1)

    assert 3 == world.shard.epoch
    assert {"w1": 1} == world.passed()


async def test_without_a_lease_nothing_is_read(world):
    await MemoryLease(world.database, SHARD, "b").try_acquire()
    world.feed_numbers(1)
    world.begin()
    await asyncio.sleep(0.05)
    assert [] == world.handler.batches

    world.clock.advance(60)
    await world.read_to(1)

    assert {"w1": 1} == world.passed()


async def test_what_a_dead_holder_had_committed_is_published_first(world):
    await MemoryLease(world.database, SHARD, "a").try_acquire()
    session = world.session()
    await session._lease.try_acquire()
    await session._store.commit(
        a_unit(outbox=[a_row(1, topic="old.facts.v1"), a_row(2, topic="old.facts.v1")])
    )
    world.feed_numbers(3)
    world.begin()
    await world.read_to(1)

    assert [1, 2, 3] == world.published_seqs()


async def test_a_graceful_stop_publishes_all_writes_the_watermark_and_frees_the_lease(world):
    world.publisher = SlowPublisher(world.log)
    world.publisher.gate.clear()
    world.feed_numbers(1, 2, 3)
    world.begin()
    await world.until(lambda: len(world.shard.outbox) == 3)
    world.loop.stop()
    await asyncio.sleep(0.05)
    assert not world.task.done()

    world.publisher.gate.set()
    await asyncio.wait_for(world.task, 5)

    assert names(1, 2, 3) == world.out()
    assert 3 == world.shard.acked_seq
    assert await MemoryLease(world.database, SHARD, "b").try_acquire()


async def test_tables_are_maintained_again_and_again_whatever_fails(world, monkeypatch):
    monkeypatch.setattr(session_module, "MAINTAIN_SECONDS", 0.01)
    world.begin()

    await world.until(lambda: world.store.maintained > 2)

    assert world.loop.ready
    assert 1 == world.handler.loads


async def test_a_relay_that_has_ended_begins_a_new_life_and_what_it_left_is_published(world):
    ends = [KeyError("a bug"), None]

    async def ended(rows):
        if (error := ends.pop(0)) is not None:
            raise error
        world.publisher.publish = publish
        await publish(rows)

    publish, world.publisher.publish = world.publisher.publish, ended
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)

    assert 2 == world.handler.loads
    assert names(1) == world.out()


async def test_who_waits_for_the_relay_hears_that_it_has_ended(world, monkeypatch):
    monkeypatch.setattr(session_module, "ROOM_CHECK_SECONDS", 0.01)
    session = world.session()
    await session.open()

    async def ended(rows):
        raise KeyError("a bug")

    world.publisher.publish = ended
    session.relay.put([a_row(1)])
    session.relay._emptied.clear()

    with pytest.raises(TaskEnded, match="the relay task of the session has ended: KeyError"):
        await session.room()
    await session.close(graceful=False)


async def test_a_row_that_is_too_large_is_buried_with_its_message_and_the_rest_goes_on(
    world, monkeypatch
):
    monkeypatch.setattr(assemble_module, "MAX_VALUE_BYTES", 60)
    world.feed(an_event(1), an_event(2, subject="w" * 60), an_event(3))
    world.begin()
    await world.read_to(3)

    assert names(1, 3) == world.out()
    assert 1 == len(world.log.records[f"{TOPIC}.dlq", 0])


async def test_a_renewal_that_waits_for_a_unit_of_its_own_is_no_lost_lease(world, monkeypatch):
    monkeypatch.setattr(session_module, "RENEW_SECONDS", 0.001)
    session, tries = world.session(), 0
    await session.open()

    async def renew():
        nonlocal tries
        tries += 1
        world.clock.advance(session_module.SILENCE_SECONDS)
        raise Transient("canceling statement due to lock timeout")

    session._lease.renew = renew
    async with session._committing:
        await world.until(lambda: tries > 3)
        session.check()
    await world.until(lambda: session._broken is not None)

    with pytest.raises(LeaseLost, match="could not renew in time"):
        session.check()
    await session.close(graceful=False)


async def test_a_standby_beats_while_it_waits_and_ends_when_it_is_told_to(world, monkeypatch):
    monkeypatch.setattr(session_module, "ACQUIRE_SECONDS", 0.001)
    beats = 0

    def beat():
        nonlocal beats
        beats += 1

    monkeypatch.setattr(world, "beat", beat)
    await MemoryLease(world.database, SHARD, "b").try_acquire()
    world.clock.advance = lambda _: None
    world.begin()
    await world.until(lambda: beats > 10)
    assert not world.loop.ready

    await asyncio.wait_for(world.end(), 5)
    assert 0 == world.handler.loads


async def test_who_can_neither_commit_nor_renew_is_not_ready(world):
    session = world.session()
    assert not session.ready
    await session.open()
    assert session.ready

    world.clock.advance(session_module.READY_SECONDS)
    assert not session.ready
    await session.commit(Outcome())
    assert session.ready

    await session.close(graceful=False)
    assert not session.ready


async def test_who_renews_is_ready(world, monkeypatch):
    monkeypatch.setattr(session_module, "RENEW_SECONDS", 0.001)
    session = world.session()
    await session.open()
    world.clock.advance(session_module.READY_SECONDS)
    await world.until(lambda: session.ready)
    await session.close(graceful=False)


async def test_a_second_process_of_a_slot_ends_and_takes_no_turns(world, monkeypatch):
    async def taken(_: MemoryLease) -> bool:
        raise SlotTaken("slot a is held by another process")

    monkeypatch.setattr(MemoryLease, "try_acquire", taken)
    world.begin()

    with pytest.raises(SlotTaken, match="slot a is held"):
        await asyncio.wait_for(world.task, 2)
    world.task = None
    assert world.shard.epoch == 0


async def test_what_ended_the_last_life_is_told_until_the_next_one_has_begun(world):
    world.begin()
    await world.until(lambda: world.loop.ready)
    told = world.loop.why_not_ready
    failing = True
    load = world.handler.load

    async def away(reader):
        if failing:
            raise Transient("there is no topic muster.x any more")
        await load(reader)

    world.handler.load = away
    world.opened._broken = LeaseLost("could not renew in time")
    await world.until(lambda: "no topic muster.x" in world.loop.why_not_ready)
    assert not world.loop.ready
    failing = False
    await world.until(lambda: world.loop.ready)

    assert "" == told == world.loop.why_not_ready
