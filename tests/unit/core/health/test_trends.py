"""Leaks of memory on made series with known answers, and days on which nothing leaks."""

from __future__ import annotations

from random import Random

import pytest

from shared.core.health.trends import (
    POINT_MS,
    POINTS_MIN,
    TrendPoint,
    leak_of,
    point_of,
    slope_per_hour,
)
from shared.core.model.value import replace

HOUR_MS = 3_600_000
DAYS = 1_000


def series(
    hours: float, mib_per_hour: float, *, noise: float = 0, seed: int = 1, percent: float = 60
) -> list[TrendPoint]:
    random = Random(seed)
    count = round(hours * HOUR_MS / POINT_MS)
    return [
        TrendPoint(
            at_ms=at * POINT_MS,
            memory_mib=20_000 + mib_per_hour * at * POINT_MS / HOUR_MS + random.gauss(0, noise),
            percent=percent + random.uniform(-2, 2),
        )
        for at in range(count + 1)
    ]


@pytest.mark.parametrize("mib_per_hour", [400, 900, 2_500])
@pytest.mark.parametrize("noise", [0, 150])
def test_a_leak_is_found_with_its_slope(mib_per_hour, noise):
    found = leak_of(series(6, mib_per_hour, noise=noise))

    assert found is not None
    assert found.mib_per_hour == pytest.approx(mib_per_hour, rel=0.1)
    assert found.mib == pytest.approx(6 * mib_per_hour, rel=0.25)


@pytest.mark.parametrize("mib_per_hour", [400, 900, 2_500])
def test_it_is_found_within_ninety_minutes_of_the_evidence(mib_per_hour):
    """Work is steady for five hours, and leaks then: the evidence is 2,000 MiB in six hours."""
    steady, leaking = series(5, 0), series(12, mib_per_hour)[1:]
    points = [*steady, *(replace(one, at_ms=one.at_ms + 5 * HOUR_MS) for one in leaking)]
    evidence_ms = max(6.0, 5 + 2_000 / mib_per_hour) * HOUR_MS
    found_ms = next(
        one.at_ms for at, one in enumerate(points) if leak_of(points[: at + 1]) is not None
    )

    assert found_ms - evidence_ms <= 90 * 60_000


def test_outliers_do_not_move_the_slope():
    points = series(6, 500)
    points[10] = TrendPoint(at_ms=points[10].at_ms, memory_mib=80_000, percent=60)

    assert slope_per_hour(points) == pytest.approx(500, rel=0.02)


@pytest.mark.parametrize(
    "points",
    [
        [],
        series(2, 2_000),
        series(6, 150),
        series(6, 300),
        [*series(3, 2_000), *(TrendPoint(at_ms=37 * POINT_MS + one.at_ms, memory_mib=26_000,
                                         percent=95) for one in series(3, 0))],
        series(6, -900),
    ],
    ids=["nothing", "too short", "too slow", "too little", "use changed", "falls"],
)  # fmt: skip
def test_what_is_no_leak(points):
    assert leak_of(points) is None


def a_healthy_day(seed: int) -> list[list[TrendPoint]]:
    """Jobs one after the other, each behind its first half hour; nothing leaks.

    Memory stays, fills a cache and stays, or fills and is emptied in turn, with noise.
    """
    random, at, jobs = Random(seed), 0, []
    while at < 288:
        length, base = random.randint(6, 120), random.uniform(2_000, 60_000)
        cache, period = random.uniform(500, 8_000), random.randint(4, 24)
        form, noise = random.choice(("flat", "cache", "saw")), random.choice((5, 50, 300))
        percent, points = random.uniform(5, 95), []
        for step in range(length):
            part = {"flat": 0.0, "cache": min(1.0, step / period), "saw": step % period / period}
            memory = base + cache * part[form] + random.gauss(0, noise)
            use = min(100.0, max(0.0, percent + random.gauss(0, 2)))
            points.append(TrendPoint(at_ms=(at + step) * POINT_MS, memory_mib=memory, percent=use))
        jobs.append(points)
        at += length
    return jobs


def test_a_thousand_healthy_days_raise_no_alarm():
    for seed in range(DAYS):
        for job in a_healthy_day(seed):
            for end in range(POINTS_MIN, len(job) + 1, 6):
                assert leak_of(job[:end]) is None, f"seed {seed}, point {end}"


def test_points_are_medians():
    assert point_of(5, [(10, 1), (1_000, 99), (12, 3)]) == TrendPoint(
        at_ms=5, memory_mib=12, percent=3
    )
