"""From lease to lease: only the holder reads, and who begins finishes what was left."""

from __future__ import annotations

import asyncio

from shared.adapters.memory import MemoryLease
from shared.runtime import session as session_module
from tests.support.protocol import a_row, a_unit
from tests.unit.runtime.world import SHARD, SlowPublisher, names


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
