"""What cannot be read or stored goes to the dead letters once; the partition goes on."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from msgspec.structs import replace

from shared.adapters.memory_log import MemorySubscription
from shared.events.deadlines import deadline_message
from shared.ports.errors import MusterError, Rejected, UnknownCommit
from shared.runtime import loop as loop_module
from tests.support.protocol import a_record, an_event
from tests.unit.runtime.world import TOPIC, names

MALFORMED = {
    "no attributes": {"headers": ()},
    "unknown type": {"headers": (("ce_id", b"x"), ("ce_type", b"y"))},
    "broken JSON": {"value": b"{"},
    "no value": {"value": b""},
    "NUL in the value": {"value": b'{"workload_id":"a\\u0000","team":"t"}'},
    "a header that is null": {"headers": (("ce_id", None),)},
    "a header that is not text": {"headers": (("ce_id", b"\xff"),)},
    "NUL in the key": {"key": b"a\x00b", "value": b""},
    "a key that is not text": {"key": b"\xff\xfe", "value": b""},
}


@pytest.mark.parametrize("fault", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_message_goes_to_the_dead_letters_and_the_partition_goes_on(
    world, fault
):
    world.feed_numbers(0)
    world.feed_raw(replace(a_record(an_event(1), 0), **fault))
    world.feed_numbers(2)
    world.begin()
    await world.read_to(3)

    (letter,) = world.letters()
    assert (TOPIC, "0", "1") == (
        letter["source_topic"],
        letter["source_partition"],
        letter["source_offset"],
    )
    assert letter["error_message"]
    assert names(0, 2) == world.out()
    assert 1 == world.handler.loads


BAD_ATTRIBUTES = {
    "ce_id": b"not-a-uuid",
    "ce_time": b"yesterday",
    "ce_sequence": b"many",
    "ce_type": b"muster.unheard.of.v1",
}


@pytest.mark.parametrize("name", BAD_ATTRIBUTES)
async def test_an_attribute_that_cannot_be_read_is_named_in_the_dead_letter(world, name):
    record = a_record(an_event(0), 0)
    headers = tuple(
        (key, BAD_ATTRIBUTES[name] if key == name else value) for key, value in record.headers
    )
    world.feed_raw(replace(record, headers=headers))
    world.begin()
    await world.read_to(1)

    assert name in world.letters()[0]["error_message"]


@pytest.mark.parametrize("poison", [0, 3, 7])
async def test_the_batch_is_halved_until_the_poison_message_stands_alone(world, poison):
    world.handler.poison = {f"w{poison}"}
    world.feed_numbers(*range(8))
    world.begin()
    await world.read_to(8)

    (letter,) = world.letters()
    assert str(poison) == letter["source_offset"]
    assert "poison" in letter["error_message"]
    rest = [number for number in range(8) if number != poison]
    assert names(*rest) == world.out() == list(world.passed())


async def test_every_poison_message_and_every_malformed_one_has_one_dead_letter(world):
    world.handler.poison = set(names(2, 5))
    world.feed_numbers(0)
    world.feed_raw(replace(a_record(an_event(1), 0), value=b"{"))
    world.feed_numbers(2, 3, 4, 5)
    world.feed_raw(replace(a_record(an_event(6), 0), value=b"{"))
    world.begin()
    await world.read_to(7)

    assert ["1", "2", "5", "6"] == sorted(letter["source_offset"] for letter in world.letters())
    assert names(0, 3, 4) == world.out()


async def test_a_crash_in_the_middle_of_halving_loses_no_dead_letter(world):
    world.handler.poison = {"w3"}
    world.feed_raw(replace(a_record(an_event(0), 0), value=b"{"))
    world.feed_numbers(1, 2, 3, 4)
    world.faults.extend([None, None, UnknownCommit("gone")])  # rejected, first half, second half
    world.begin()
    await world.read_to(5)

    assert {"0", "3"} == {letter["source_offset"] for letter in world.letters()}
    assert {"w1": 1, "w2": 1, "w4": 1} == world.passed()


async def test_a_poison_deadline_is_buried_and_does_not_come_back(world):
    world.handler.poison = {"w1"}
    world.handler.deadlines = [deadline_message("bind", "w1", 1, 1_700_000_000_000)]
    world.begin()
    await world.until(lambda: len(world.shard.inbox) == 1)
    world.feed_numbers(2)
    await world.read_to(1)

    assert names(2) == world.out()
    assert [["w1"], ["w2"]] == world.handler.batches


async def test_protocol_rows_that_are_rejected_do_not_stop_later_lives(world):
    world.faults.append(Rejected("the watermark"))
    world.feed_raw(replace(a_record(an_event(0), 0), value=b"{"))
    world.begin()
    await world.read_to(1)

    assert 1 == len(world.letters())


def _idle_every_other_time():
    """A poll that finds nothing at first in every life: that is no success."""
    poll, calls = MemorySubscription.poll, itertools.count()

    async def idle(self, max_messages, wait_seconds):
        return [] if next(calls) % 2 == 0 else await poll(self, max_messages, wait_seconds)

    return idle


async def test_protocol_rows_that_are_always_rejected_end_the_process(world, monkeypatch):
    monkeypatch.setattr(loop_module, "FAILED_LIVES_MAX", 3)
    monkeypatch.setattr(MemorySubscription, "poll", _idle_every_other_time())
    world.faults.extend([Rejected("the watermark")] * 1_000)
    world.feed_raw(replace(a_record(an_event(0), 0), value=b"{"))
    world.begin()

    with pytest.raises(MusterError):
        await asyncio.wait_for(world.task, 5)
    assert 1 < world.handler.loads < 20
