"""The relay: order, the bound, and what an error of the broker does."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from shared.adapters.memory_log import MemoryLog
from shared.ports.errors import Transient
from shared.runtime import relay as relay_module
from shared.runtime.failpoints import Failpoints
from shared.runtime.relay import Relay
from tests.support.protocol import a_row
from tests.unit.runtime.world import TOPIC, SlowPublisher


@asynccontextmanager
async def running(relay):
    task = asyncio.create_task(relay.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def log():
    return MemoryLog()


@pytest.fixture
def publisher(log):
    return SlowPublisher(log)


def written(log):
    """Workload numbers in the log, in order."""
    return [int(one.key[1:]) for one in log.records.get((TOPIC, 0), [])]


async def test_rows_are_published_in_the_order_of_their_numbers(log, publisher, monkeypatch):
    monkeypatch.setattr(relay_module, "BATCH_ROWS_MAX", 3)
    relay = Relay(publisher, Failpoints(), 0)
    relay.put([a_row(number) for number in range(1, 6)])
    relay.put([a_row(number) for number in range(6, 9)])

    async with running(relay):
        assert await relay.drained(5)

    assert list(range(1, 9)) == written(log)
    assert [[1, 2, 3], [4, 5, 6], [7, 8]] == publisher.batches


async def test_the_next_batch_waits_until_the_one_before_is_acknowledged(publisher):
    relay = Relay(publisher, Failpoints(), 0)
    publisher.gate.clear()
    relay.put([a_row(1)])

    async with running(relay):
        await asyncio.sleep(0.01)
        relay.put([a_row(2)])
        await asyncio.sleep(0.01)
        assert [[1]] == publisher.batches
        assert 0 == relay.acked_seq
        publisher.gate.set()
        assert await relay.drained(5)

    assert [[1], [2]] == publisher.batches
    assert 2 == relay.acked_seq


async def test_after_an_error_the_same_rows_are_published_again(log, publisher):
    relay = Relay(publisher, Failpoints(), 0)
    publisher.failures = [Transient("broker away"), Transient("broker away")]
    relay.put([a_row(number) for number in range(1, 5)])

    async with running(relay):
        assert await relay.drained(5)

    assert [1, 2, 1, 2, 1, 2, 3, 4] == written(log)
    assert 4 == relay.acked_seq
    assert 0 == relay.failures


async def test_a_full_relay_has_room_again_when_rows_are_acknowledged(publisher, monkeypatch):
    monkeypatch.setattr(relay_module, "QUEUED_BYTES_MAX", 1_000)
    relay = Relay(publisher, Failpoints(), 0)
    publisher.gate.clear()
    await relay.room()
    relay.put([a_row(1, size=2_000)])

    async with running(relay):
        waiting = asyncio.create_task(relay.room())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        publisher.gate.set()
        await asyncio.wait_for(waiting, 5)

    assert 0 == relay.waiting


async def test_draining_gives_up_when_the_broker_stays_away(publisher):
    relay = Relay(publisher, Failpoints(), 0)
    publisher.gate.clear()
    relay.put([a_row(1)])

    async with running(relay):
        assert not await relay.drained(0.02)

    assert 0 == relay.acked_seq


async def test_a_relay_with_nothing_to_do_is_drained_at_once(publisher):
    relay = Relay(publisher, Failpoints(), 7)

    assert await relay.drained(0.02)
    assert 7 == relay.acked_seq


async def test_the_oldest_unit_that_waits_is_known(log, publisher, monkeypatch):
    monkeypatch.setattr(relay_module, "BATCH_ROWS_MAX", 2)
    relay = Relay(publisher, Failpoints(), 0)
    assert relay.oldest_seconds(100) == 0
    relay.put([a_row(1), a_row(2)], 10)
    relay.put([a_row(3)], 40)
    assert relay.oldest_seconds(100) == 90

    await relay._publish_once()
    assert relay.oldest_seconds(100) == 60
    await relay._publish_once()
    assert relay.oldest_seconds(100) == 0
