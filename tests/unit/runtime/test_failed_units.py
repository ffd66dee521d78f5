"""A unit that did not become true: tried again, decided again, or the end of the process."""

from __future__ import annotations

import asyncio

import pytest

from shared.ports.errors import MusterError, Stale, Transient, UnknownCommit
from shared.runtime import loop as loop_module
from tests.unit.runtime.world import names


async def test_a_commit_that_happened_unseen_is_not_done_again(world):
    world.late_faults.append(UnknownCommit("connection lost"))
    world.feed_numbers(1, 2)
    world.begin()
    await world.read_to(2)

    assert 2 == world.handler.loads
    assert {"w1": 1, "w2": 1} == world.passed()
    assert names(1, 2) == world.out()


async def test_an_unknown_commit_that_did_not_happen_is_decided_again(world):
    world.faults.append(UnknownCommit("connection lost"))
    world.feed_numbers(1, 2)
    world.begin()
    await world.read_to(2)

    assert 2 == world.handler.loads
    assert [names(1, 2), names(1, 2)] == world.handler.batches
    assert names(1, 2) == world.out()


async def test_a_transient_error_tries_the_same_unit_again(world):
    world.faults.extend([Transient("deadlock"), Transient("deadlock")])
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)

    assert 1 == world.handler.loads
    assert [names(1)] == world.handler.batches


async def test_an_error_that_stays_transient_begins_a_new_life(world):
    world.faults.extend([Transient("deadlock")] * 5)
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)

    assert 2 == world.handler.loads
    assert {"w1": 1} == world.passed()


async def test_a_stale_unit_is_decided_again_after_a_reload(world):
    world.faults.append(Stale("version"))
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)

    assert 2 == world.handler.loads
    assert [names(1), names(1)] == world.handler.batches


async def test_work_of_the_handler_s_own_is_suspended_before_every_reload(world):
    world.faults.append(Stale("version"))
    world.feed_numbers(1)
    world.begin()
    await world.read_to(1)
    assert 1 == world.handler.suspended

    await world.end()

    assert 2 == world.handler.suspended


async def test_too_many_failed_lives_in_a_row_end_the_process(world, monkeypatch):
    monkeypatch.setattr(loop_module, "FAILED_LIVES_MAX", 3)

    async def never(reader):
        world.handler.loads += 1
        raise Transient("no database")

    monkeypatch.setattr(world.handler, "load", never)
    world.begin()

    with pytest.raises(MusterError):
        await asyncio.wait_for(world.task, 5)
    assert 4 == world.handler.loads


@pytest.mark.parametrize("point", ["unit.before_commit", "unit.after_commit", "loop.polled"])
async def test_an_error_at_a_failpoint_loses_and_doubles_nothing(world, point):
    world.failpoints = type(world.failpoints).parse(f"{point}:0.3:raise", seed=1)
    world.feed_numbers(*range(30))
    world.begin(batch=3)
    await world.read_to(30)

    assert dict.fromkeys(names(*range(30)), 1) == world.passed()
    assert names(*range(30)) == list(dict.fromkeys(world.out()))
