"""What the runtime relies on, of a lease: one holder at a time, each with a higher epoch."""

from __future__ import annotations

import pytest

from shared.adapters.slots import this_process
from shared.ports.errors import LeaseLost, SlotTaken
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


FIRST, SECOND = "one.example/17/400", "two.example/18/500"


async def _held_by(world, process):
    holder = world.lease("a", process)
    assert await holder.try_acquire()
    await holder.renew()
    return holder


async def test_a_second_process_of_the_slot_is_told_of_the_first(world):
    holder, other = await _held_by(world, FIRST), world.lease("a", SECOND)
    await world.a_moment_passes()
    assert not await other.try_acquire()
    await holder.renew()

    with pytest.raises(SlotTaken, match=r"slot a .*, pid 17 on one\.example: .*MUSTER_SLOT"):
        await other.try_acquire()
    await holder.renew()
    assert holder.epoch == 1


async def test_a_process_of_another_host_that_renews_no_more_is_followed(world):
    await _held_by(world, FIRST)
    other = world.lease("a", SECOND)
    assert not await other.try_acquire()
    await world.time_passes()

    assert await other.try_acquire()


async def test_a_process_takes_its_own_lease_again_at_once(world):
    await _held_by(world, FIRST)

    assert await world.lease("a", FIRST).try_acquire()


async def test_a_process_of_this_host_that_has_ended_is_followed_at_once(world):
    host, pid, _ = this_process().split("/")
    await _held_by(world, f"{host}/{pid}/1")

    assert await world.lease("a", this_process()).try_acquire()


async def test_a_standby_of_another_slot_waits_and_is_no_second_process(world):
    holder, other = await _held_by(world, FIRST), world.lease("b", SECOND)
    await world.a_moment_passes()
    assert not await other.try_acquire()
    await holder.renew()

    assert not await other.try_acquire()
