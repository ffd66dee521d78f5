"""Costs are sums of integers: exact, and the same in any order."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from shared.core.quota.cost import (
    DAY_MS,
    GPU_HOUR_MILLI_MS,
    Cost,
    Interval,
    RunningTotal,
    by_team_and_day,
    days,
    rounded,
)
from shared.core.quota.prices import Price, price_at

HOUR_MS = 3_600_000


def an_interval(**changes):
    one = Interval(team="vision", flavor="h100", gpu_milli=1000, started_at_ms=0)
    return replace(one, **changes)


intervals = st.builds(
    Interval,
    team=st.sampled_from(["vision", "speech"]),
    flavor=st.sampled_from(["h100", "a100"]),
    gpu_milli=st.integers(0, 64_000),
    started_at_ms=st.integers(0, 5 * DAY_MS),
    ended_at_ms=st.none() | st.integers(0, 6 * DAY_MS),
)


def test_an_hour_of_one_gpu_costs_its_price():
    price = Price(version=1, applied_at_ms=0, microdollars_per_gpu_hour=2_500_000)

    costs = by_team_and_day([an_interval(ended_at_ms=HOUR_MS)], {"h100": [price]}, 0, DAY_MS)

    expected = Cost(gpu_milli_ms=GPU_HOUR_MILLI_MS, microdollars=2_500_000)
    assert {("vision", 0, "h100"): expected} == costs


def test_a_day_ends_at_midnight_utc():
    one = an_interval(started_at_ms=DAY_MS - 10, ended_at_ms=2 * DAY_MS + 5)

    assert [(0, 10), (1, DAY_MS), (2, 5)] == list(days(one, 0, 3 * DAY_MS))


def test_what_is_still_held_counts_until_now_and_only_in_the_window():
    assert [(0, 70)] == list(days(an_interval(started_at_ms=10), 30, 100))
    assert [] == list(days(an_interval(started_at_ms=10, ended_at_ms=20), 30, 100))


def test_an_attempt_keeps_the_price_of_its_start():
    prices = [
        Price(version=2, applied_at_ms=100, microdollars_per_gpu_hour=20),
        Price(version=1, applied_at_ms=50, microdollars_per_gpu_hour=10),
    ]

    costs = [price_at(prices, at_ms).microdollars_per_gpu_hour for at_ms in (0, 99, 100)]

    assert [10, 10, 20] == costs


def test_money_is_rounded_to_the_nearest_microdollar():
    assert [0, 1, 1, 2] == [
        rounded(GPU_HOUR_MILLI_MS // 2 - 1),
        rounded(GPU_HOUR_MILLI_MS // 2),
        rounded(GPU_HOUR_MILLI_MS),
        rounded(GPU_HOUR_MILLI_MS * 3 // 2),
    ]


@given(st.lists(intervals, max_size=12), st.randoms())
def test_the_order_of_intervals_makes_no_difference(many: list[Interval], shuffle: random.Random):
    prices = {"h100": [Price(version=1, applied_at_ms=0, microdollars_per_gpu_hour=3_333_333)]}
    mixed = many.copy()
    shuffle.shuffle(mixed)

    assert by_team_and_day(many, prices, 0, 7 * DAY_MS) == by_team_and_day(
        mixed, prices, 0, 7 * DAY_MS
    )


@given(st.lists(intervals, max_size=12), st.integers(0, 7 * DAY_MS))
def test_a_window_cut_in_two_has_the_same_amount(many: list[Interval], cut_ms: int):
    def amount(from_ms: int, until_ms: int) -> int:
        costs = by_team_and_day(many, {}, from_ms, until_ms)
        return sum(cost.gpu_milli_ms for cost in costs.values())

    assert amount(0, 7 * DAY_MS) == amount(0, cut_ms) + amount(cut_ms, 7 * DAY_MS)


@given(st.lists(intervals, max_size=12))
def test_the_running_total_is_the_sum_of_the_intervals(many: list[Interval]):
    total = RunningTotal()
    for one in many:
        total.begin(one.gpu_milli, one.started_at_ms)
        if one.ended_at_ms is not None:
            total.end(one.gpu_milli, one.started_at_ms, one.ended_at_ms)

    costs = by_team_and_day(many, {}, 0, 7 * DAY_MS)

    assert sum(cost.gpu_milli_ms for cost in costs.values()) == total.at(7 * DAY_MS)
