"""Leaks of memory on made series with known answers."""

from __future__ import annotations

from random import Random

import pytest

from shared.core.health.leak import MemoryPoint, judged_leak, leak_of, slope_per_hour
from shared.core.health.trends import ABSENT, POINT_MS, UNKNOWN, TrendEvidence
from shared.core.model.value import replace

HOUR_MS = 3_600_000


def series(
    hours: float, mib_per_hour: float, *, noise: float = 0, seed: int = 1, percent: float = 60
) -> list[MemoryPoint]:
    random = Random(seed)
    count = round(hours * HOUR_MS / POINT_MS)
    return [
        MemoryPoint(
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
    points[10] = MemoryPoint(at_ms=points[10].at_ms, memory_mib=80_000, percent=60)

    assert slope_per_hour(points) == pytest.approx(500, rel=0.02)


@pytest.mark.parametrize(
    "points",
    [
        [],
        series(2, 2_000),
        series(6, 150),
        series(6, 300),
        [*series(3, 2_000), *(MemoryPoint(at_ms=37 * POINT_MS + one.at_ms, memory_mib=26_000,
                                         percent=95) for one in series(3, 0))],
        series(6, -900),
    ],
    ids=["nothing", "too short", "too slow", "too little", "use changed", "falls"],
)  # fmt: skip
def test_what_is_no_leak(points):
    assert leak_of(points) is None


def test_a_leak_is_told_with_its_numbers_and_what_to_do():
    found = judged_leak(series(6, 512))

    assert (found.evidence, found.since_ms, found.limit) == (TrendEvidence.FOUND, 0, 200)
    assert found.value == pytest.approx(512)
    assert found.sentence("n1", 3) == (
        "GPU 3 of node n1: used memory rises by 512 MiB an hour, 3,136 MiB within 6 h, while its"
        " use stays; restart the work before its memory is full"
    )


@pytest.mark.parametrize(
    ("points", "judgement"),
    [(series(5, 900), UNKNOWN), (series(2, 900), UNKNOWN), (series(6, 0), ABSENT)],
    ids=["five hours", "few points", "steady"],
)
def test_six_hours_are_evidence(points, judgement):
    assert judged_leak(points) == judgement
