"""Devices that are hotter than they were at equal power."""

from __future__ import annotations

import numpy as np
import pytest

from shared.core.health.heat import HeatPoint, degrees_above, judged_heat
from shared.core.health.trends import ABSENT, POINT_MS, UNKNOWN, TrendEvidence


def past(*parts: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(points, Celsius, watts) of each part."""
    celsius = [one for count, degrees, _ in parts for one in [degrees] * count]
    watts = [one for count, _, power in parts for one in [power] * count]
    return np.array(celsius, dtype=np.int16), np.array(watts, dtype=np.int16)


def points(*above: float | None, since: int = 0) -> list[HeatPoint]:
    return [
        HeatPoint(at_ms=(since + at) * POINT_MS, celsius=80, watts=600, above=one)
        for at, one in enumerate(above)
    ]


@pytest.mark.parametrize(
    ("celsius", "watts", "above"),
    [
        (78, 600, 8),
        (78, 625, 8),
        (60, 110, 28),
        (78, 400, None),
        (78, 640, None),
        (78, 99_000, None),
    ],
    ids=[
        "busy",
        "about as busy",
        "idle",
        "never so before",
        "more than five per cent more",
        "beyond 16 bits",
    ],
)
def test_it_is_compared_with_its_own_past_at_equal_power(celsius, watts, above):
    assert degrees_above(celsius, watts, *past((40, 70, 600), (300, 32, 100))) == above


def test_a_short_past_says_nothing():
    assert degrees_above(90, 600, *past((29, 60, 600))) is None
    assert degrees_above(90, 600, *past((30, 60, 600))) == 30


def test_half_an_hour_of_heat_is_told_with_its_numbers_and_what_to_do():
    found = judged_heat(points(9, 10, 10, 10, 11, 10))

    assert (found.evidence, found.since_ms) == (TrendEvidence.FOUND, 0)
    assert (found.value, found.limit) == (10, 8)
    assert found.sentence("n1", 3) == (
        "GPU 3 of node n1: 10 C hotter than its median of 7 days at equal power (80 C at 600 W"
        " now, 8 C more are allowed); look at its cooling"
    )


@pytest.mark.parametrize(
    ("recent", "judgement"),
    [
        (points(8, 8, 8, 8, 8, 8), ABSENT),
        (points(0, 0, 0, 40, 40, 0), ABSENT),
        (points(10, 10, 10, 10, 10), UNKNOWN),
        (points(10, 10, 10, None, None, None), UNKNOWN),
        ([*points(10, 10), *points(10, 10, 10, 10, since=40)], UNKNOWN),
    ],
    ids=["at the limit", "a lag after a change", "too short", "no past", "a gap"],
)
def test_what_is_no_heat(recent, judgement):
    assert judged_heat(recent) == judgement
