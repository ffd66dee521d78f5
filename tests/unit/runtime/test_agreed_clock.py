"""A clock that steps decides nothing until it agrees with the database's again."""

from __future__ import annotations

import asyncio

import pytest

from shared.adapters.memory import FIRST_MS, ManualClock
from shared.ports.errors import ClockStepped
from shared.runtime import loop as loop_module
from shared.runtime import session as session_module
from shared.runtime.agreed_clock import OFF_MS_MAX, ROUND_TRIP_SECONDS_MAX, AgreedClock
from tests.support.protocol import an_event
from tests.unit.runtime.world import names


class SteppingClock:
    """The wall clock of a machine steps; its monotonic clock does not."""

    def __init__(self, true: ManualClock) -> None:
        self.true = true
        self.step_ms = 0

    def now_ms(self) -> int:
        return self.true.now_ms() + self.step_ms

    def monotonic_seconds(self) -> float:
        return self.true.monotonic_seconds()


def told(clock: SteppingClock) -> AgreedClock:
    agreed = AgreedClock(clock)
    agreed.told(clock.true.now_ms(), clock.monotonic_seconds())
    return agreed


def test_before_the_database_has_told_its_time_the_clock_is_trusted():
    clock = SteppingClock(ManualClock())
    clock.step_ms = 3_600_000

    assert (True, clock.now_ms()) == (AgreedClock(clock).agrees, AgreedClock(clock).now_ms())


@pytest.mark.parametrize("step_ms", [-OFF_MS_MAX, 0, OFF_MS_MAX])
def test_a_small_difference_is_none(step_ms: int):
    clock = SteppingClock(ManualClock())
    agreed = told(clock)
    clock.step_ms = step_ms
    clock.true.advance(3_600)

    assert (step_ms, clock.now_ms()) == (agreed.off_ms, agreed.now_ms())


@pytest.mark.parametrize(
    ("step_ms", "words"),
    [(3_600_000, "3600.0 s ahead of the database's"), (-5_001, "5.0 s behind the database's")],
)
def test_a_step_is_seen_at_once_and_says_how_far_and_what_to_look_at(step_ms: int, words: str):
    clock = SteppingClock(ManualClock())
    agreed = told(clock)
    clock.step_ms = step_ms

    with pytest.raises(ClockStepped, match=words) as raised:
        agreed.now_ms()
    assert "chronyc tracking" in str(raised.value)


def test_the_middle_of_a_round_trip_is_taken_and_a_long_one_is_passed_over():
    clock = SteppingClock(ManualClock())
    agreed = told(clock)
    asked_at = clock.monotonic_seconds()
    clock.true.advance(ROUND_TRIP_SECONDS_MAX)
    agreed.told(clock.true.now_ms(), asked_at)
    assert -ROUND_TRIP_SECONDS_MAX * 500 == agreed.off_ms

    asked_at = clock.monotonic_seconds()
    clock.true.advance(ROUND_TRIP_SECONDS_MAX + 0.001)
    agreed.told(FIRST_MS, asked_at)
    assert -ROUND_TRIP_SECONDS_MAX * 500 == agreed.off_ms


@pytest.fixture
def stepping(world, monkeypatch):
    """The database's clock stays; that of the process may step."""
    monkeypatch.setattr(session_module, "RENEW_SECONDS", 0.001)
    monkeypatch.setattr(loop_module, "CLOCK_SECONDS", 0.001)
    world.machine = SteppingClock(world.clock)
    return world.machine


async def test_nothing_is_decided_while_the_clock_is_off_and_all_of_it_afterwards(world, stepping):
    world.feed(an_event(1))
    world.begin()
    await world.read_to(1)

    stepping.step_ms = 3_600_000
    world.feed(an_event(2), an_event(3))
    for _ in range(50):
        world.clock.advance(0.01)
        await asyncio.sleep(0.002)
    assert names(1) == [*world.passed()]
    assert not world.opened.ready
    assert "3600.0 s ahead of the database's" in world.loop.why_not_ready

    stepping.step_ms = 0
    await world.read_to(3)
    assert dict.fromkeys(names(1, 2, 3), 1) == world.passed()
    assert world.opened.ready
    assert not world.loop.why_not_ready


async def test_a_step_between_reading_and_deciding_ends_the_life_and_nothing_is_lost(
    world, stepping, monkeypatch
):
    prepare = world.handler.prepare

    async def stepped(messages, reader):
        await prepare(messages, reader)
        if messages and world.handler.loads == 1:
            stepping.step_ms = -3_600_000

    monkeypatch.setattr(world.handler, "prepare", stepped)
    world.feed(an_event(1), an_event(2))
    world.begin()
    await world.until(lambda: world.handler.loads == 2)
    assert {} == world.passed()

    stepping.step_ms = 0
    await world.read_to(2)
    assert dict.fromkeys(names(1, 2), 1) == world.passed()
