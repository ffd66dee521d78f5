"""PCIe links that repeat transfers."""

from __future__ import annotations

import pytest

from shared.core.health.replays import ReplayPoint, growth_of, judged_replays
from shared.core.health.trends import ABSENT, POINT_MS, UNKNOWN, TrendEvidence


def points(*counts: float) -> list[ReplayPoint]:
    return [ReplayPoint(at_ms=at * POINT_MS, count=one) for at, one in enumerate(counts)]


def steady(an_hour: float, count: int = 13, begin: float = 5_000) -> list[ReplayPoint]:
    return points(*(begin + an_hour * at / 12 for at in range(count)))


def test_a_link_that_repeats_more_is_told_with_its_numbers_and_what_to_do():
    found = judged_replays(steady(240))

    assert (found.evidence, found.since_ms) == (TrendEvidence.FOUND, 0)
    assert (found.value, found.limit) == (240, 100)
    assert found.sentence("n1", 3) == (
        "GPU 3 of node n1: its PCIe link repeated 240 transfers within an hour, 100 are allowed;"
        " look at its slot, riser and cable"
    )


def test_many_within_a_few_minutes_are_told_at_once():
    assert judged_replays(points(0, 4_000)).evidence is TrendEvidence.FOUND


def test_only_the_last_hour_counts():
    before = points(*range(0, 2_400, 200))
    after = [ReplayPoint(at_ms=(12 + at) * POINT_MS, count=2_200) for at in range(13)]

    assert judged_replays([*before, *after]) == ABSENT


@pytest.mark.parametrize(
    ("series", "judgement"),
    [
        (steady(100), ABSENT),
        (steady(0), ABSENT),
        (steady(100, count=12), UNKNOWN),
        ([], UNKNOWN),
        (points(9_000, 9_000, 0, 10, 20, *[20] * 8), ABSENT),
    ],
    ids=["at the limit", "none", "not an hour", "nothing", "a driver that begins anew"],
)
def test_what_is_no_growth(series, judgement):
    assert judged_replays(series) == judgement


def test_a_counter_that_began_anew_counts_from_nothing():
    assert growth_of(points(50, 60, 5, 7)) == 17
