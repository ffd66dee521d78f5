"""What the runtime relies on, of a lease: one holder at a time, each with a higher epoch."""

from __future__ import annotations

import pytest

from shared.ports.errors import LeaseLost
from tests.contract.protocol_worlds import world_of


@pytest.fixture(params=["memory", "postgres"])
async def world(request):
    database = request.getfixturevalue("database") if request.param == "postgres" else None
    async with world_of(request.param, database) as world:
        yield world


async def test_a_free_shard_is_taken_with_the_first_epoch(world):
    lease = world.lease("a")

    assert await lease.try_acquire()
    assert lease.epoch == 1


async def test_another_slot_is_refused_while_the_lease_is_held(world):
    holder, other = world.lease("a"), world.lease("b")
    await holder.try_acquire()

    assert not await other.try_acquire()
    assert other.epoch == 0


async def test_the_same_slot_takes_over_at_once_with_the_next_epoch(world):
    before, after = world.lease("a"), world.lease("a")
    await before.try_acquire()

    assert await after.try_acquire()
    assert after.epoch == before.epoch + 1


async def test_another_slot_takes_over_when_the_lease_has_expired(world):
    holder, other = world.lease("a"), world.lease("b")
    await holder.try_acquire()
    await world.time_passes()

    assert await other.try_acquire()
    assert other.epoch == 2


async def test_a_renewed_lease_does_not_expire(world):
    holder, other = world.lease("a"), world.lease("b")
    await holder.try_acquire()
    await world.time_passes()
    await holder.renew()

    assert not await other.try_acquire()


async def test_a_renewal_tells_the_time_of_the_store(world):
    lease = world.lease("a")
    await lease.try_acquire()
    first = await lease.renew()
    await world.time_passes()
    later = await lease.renew()

    assert 1_600_000_000_000 < first < later < first + 60_000


async def test_a_holder_that_was_overtaken_cannot_renew(world):
    before, after = world.lease("a"), world.lease("a")
    await before.try_acquire()
    await after.try_acquire()

    with pytest.raises(LeaseLost):
        await before.renew()


async def test_a_released_lease_is_free_at_once(world):
    holder, other = world.lease("a"), world.lease("b")
    await holder.try_acquire()
    await holder.release()

    assert await other.try_acquire()
    assert other.epoch == 2


async def test_an_overtaken_holder_cannot_release_what_is_another_s(world):
    before, after, other = world.lease("a"), world.lease("a"), world.lease("b")
    await before.try_acquire()
    await after.try_acquire()
    await before.release()

    assert not await other.try_acquire()
