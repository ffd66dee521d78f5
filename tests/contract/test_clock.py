"""What the runtime relies on, of a clock: milliseconds, and time that moves on."""

from __future__ import annotations

import time

import pytest

from shared.adapters.clock import SystemClock
from shared.adapters.memory import ManualClock


def _wait(clock):
    if isinstance(clock, ManualClock):
        clock.advance(0.02)
    else:
        time.sleep(0.02)


@pytest.fixture(params=[SystemClock, ManualClock])
def clock(request):
    return request.param()


def test_wall_time_is_in_milliseconds_of_this_age(clock):
    assert 1_600_000_000_000 < clock.now_ms() < 4_000_000_000_000


def test_both_times_move_on_together(clock):
    wall, monotonic = clock.now_ms(), clock.monotonic_seconds()

    _wait(clock)

    assert clock.now_ms() - wall >= 15
    assert clock.monotonic_seconds() - monotonic >= 0.015
