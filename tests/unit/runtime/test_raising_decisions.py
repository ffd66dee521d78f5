"""A bug that one message meets sets that message aside, and the work of all others goes on."""

from __future__ import annotations

import asyncio

import pytest

from shared.runtime import telemetry
from shared.runtime.units import BURIED_IN_A_ROW_MAX, RAISES_MAX
from tests.unit.runtime.world import names


def raised() -> float:
    return float(telemetry.RAISED.labels("quota")._value.get())


@pytest.mark.parametrize("bad", [0, 3, 7])
async def test_the_message_by_which_a_decision_raises_is_set_aside(world, bad):
    before = raised()
    world.handler.raising = {f"w{bad}"}
    world.feed_numbers(*range(8))
    world.begin()
    await world.read_to(8)

    (letter,) = world.letters()
    assert str(bad) == letter["source_offset"]
    assert "KeyError: 'a bug'" == letter["error_message"]
    assert names(*(n for n in range(8) if n != bad)) == world.out() == list(world.passed())
    assert RAISES_MAX + 3 == raised() - before


async def test_the_same_batch_is_tried_in_a_memory_built_anew_before_it_is_halved(world):
    world.handler.raising, world.handler.raises = {"w1"}, RAISES_MAX - 1
    world.feed_numbers(0, 1, 2)
    world.begin()
    await world.read_to(3)

    assert [] == world.letters()
    assert [names(0, 1, 2)] * RAISES_MAX == world.handler.batches
    assert RAISES_MAX == world.handler.loads


async def test_bad_messages_among_good_ones_have_a_letter_each(world):
    world.handler.raising = {"w1", "w4", "w6"}
    world.feed_numbers(*range(8))
    world.begin()
    await world.read_to(8)

    assert ["1", "4", "6"] == sorted(letter["source_offset"] for letter in world.letters())
    assert names(0, 2, 3, 5, 7) == world.out()


async def test_if_every_message_raises_the_fault_is_not_theirs_and_the_process_ends(world):
    world.handler.raising = set(names(*range(8)))
    world.feed_numbers(*range(8))
    world.begin()

    with pytest.raises(KeyError):
        await asyncio.wait_for(world.task, 5)
    assert BURIED_IN_A_ROW_MAX == len(world.letters())


async def test_by_a_setting_it_ends_the_process_at_once(world):
    world.handler.raising = {"w1"}
    world.feed_numbers(0, 1, 2)
    world.begin(exit_on_decision_error=True)

    with pytest.raises(KeyError):
        await asyncio.wait_for(world.task, 5)
    assert [] == world.letters()
    assert [names(0, 1, 2)] == world.handler.batches
