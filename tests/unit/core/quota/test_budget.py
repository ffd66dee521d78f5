"""Spending of a month, when it reaches a limit, and what new work may use then."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.model.decision import Reason
from shared.core.model.team_policy import AtLimit, Budget
from shared.core.quota.budget import (
    DAY_MS,
    Integral,
    Spending,
    gpu_limit,
    money_limit,
    month_name,
    month_named,
    month_of,
    month_start_ms,
    restriction,
)

HOUR_MS = 3_600_000
NOVEMBER = 2026 * 12 + 10
START_MS = 1_793_491_200_000
"""2026-11-01 00:00 UTC."""


def test_months_are_those_of_the_calendar():
    assert month_start_ms(NOVEMBER) == START_MS
    assert month_of(START_MS) == month_of(START_MS + 30 * DAY_MS - 1) == NOVEMBER
    assert month_of(START_MS - 1) == NOVEMBER - 1
    assert month_of(START_MS + 30 * DAY_MS) == NOVEMBER + 1
    assert month_name(NOVEMBER + 2) == "2027-01"
    assert [month_named(month_name(one)) for one in (NOVEMBER, NOVEMBER + 1)] == [
        NOVEMBER,
        NOVEMBER + 1,
    ]


def test_eight_gpus_spend_eight_gpu_hours_in_an_hour():
    spending = Spending(NOVEMBER)
    spending.change(START_MS, 8000, 2_500_000)
    at_ms = START_MS + HOUR_MS

    assert spending.percent(Budget(gpu_hours_per_month=10), at_ms) == 80
    assert spending.percent(Budget(microdollars_per_month=25_000_000), at_ms) == 80
    both = Budget(gpu_hours_per_month=100, microdollars_per_month=20_000_000)
    assert spending.percent(both, at_ms) == 100


def test_the_moment_of_a_limit_is_known_ahead_to_the_millisecond():
    spending = Spending(NOVEMBER)
    spending.change(START_MS + 7, 3000, 0)
    budget = Budget(gpu_hours_per_month=10)

    warned_at = spending.next_ms(budget, START_MS + 7)
    assert spending.percent(budget, warned_at - 1) == 79
    assert spending.percent(budget, warned_at) == 80
    full_at = spending.next_ms(budget, warned_at)
    assert spending.percent(budget, full_at - 1) == 99
    assert spending.percent(budget, full_at) == 100
    assert spending.next_ms(budget, full_at) == month_start_ms(NOVEMBER + 1)


@pytest.mark.parametrize(
    ("budget", "gpus", "hours"),
    [
        (Budget(gpu_hours_per_month=10), 2, 5),
        (Budget(gpu_hours_per_month=10, microdollars_per_month=6_000_000), 2, 3),
        (Budget(gpu_hours_per_month=2 * 24 * 30), 2, None),
        (Budget(gpu_hours_per_month=10), 0, None),
        (Budget(gpu_hours_per_month=0), 0, 1),
    ],
)
def test_when_all_is_spent_is_told_of_this_month_alone(budget, gpus, hours):
    spending = Spending(NOVEMBER)
    spending.change(START_MS, gpus * 1000, 1_000_000)

    expected = None if hours is None else START_MS + hours * HOUR_MS
    assert expected == spending.whole_spent_ms(budget, START_MS + HOUR_MS)


def test_money_reaches_its_limit_by_the_price():
    spending = Spending(NOVEMBER)
    spending.change(START_MS, 1000, 2_000_000)
    budget = Budget(microdollars_per_month=10_000_000)

    assert spending.next_ms(budget, START_MS) == START_MS + 4 * HOUR_MS
    spending.reprice(START_MS, 1000, 2_000_000)
    assert spending.next_ms(budget, START_MS) == START_MS + 2 * HOUR_MS


def test_a_new_month_begins_with_nothing_and_what_runs_goes_on():
    spending = Spending(NOVEMBER)
    spending.change(START_MS, 1000, 5)
    spending.warned = 100
    spending.turn(NOVEMBER + 1)
    start_ms = month_start_ms(NOVEMBER + 1)

    assert (spending.gpu.at(start_ms), spending.money.at(start_ms), spending.warned) == (0, 0, 0)
    assert spending.gpu.at(start_ms + 10) == 10_000
    spending.change(start_ms - 5, -1000, 5)  # its end is told late: before the month, so nothing
    assert spending.gpu.at(start_ms + 10) == spending.money.at(start_ms + 10) == 0


@given(
    st.lists(
        st.tuples(
            st.integers(-3 * DAY_MS, 20 * DAY_MS),
            st.integers(0, 9 * DAY_MS),
            st.integers(1, 64_000),
            st.integers(0, 9_000_000),
        ),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_spending_is_the_sum_of_what_was_held_in_the_month(facts, random):
    changes = []
    for start, length, gpu_milli, price in facts:
        changes.append((START_MS + start, gpu_milli, price))
        changes.append((START_MS + start + length, -gpu_milli, price))
    random.shuffle(changes)
    spending = Spending(NOVEMBER)
    for at_ms, gpu_milli, price in changes:
        spending.change(at_ms, gpu_milli, price)
    end_ms = START_MS + 29 * DAY_MS

    held = [
        (max(0, start + length) - max(0, start), gpu_milli, price)
        for start, length, gpu_milli, price in facts
    ]
    assert spending.gpu.at(end_ms) == sum(time * gpu for time, gpu, _ in held)
    assert spending.money.at(end_ms) == sum(time * gpu * price for time, gpu, price in held)


def test_what_does_not_grow_reaches_nothing():
    integral = Integral()
    assert integral.reaches(1) is None
    integral.change(5, 3)
    assert integral.reaches(7) == 8
    assert Fraction(integral.at(8)) >= 7 > integral.at(7)


@pytest.mark.parametrize(
    ("at_limit", "words"),
    [
        (AtLimit.SPOT, "only spot"),
        (AtLimit.NOMINAL, "nothing may be borrowed"),
        (AtLimit.STOP, "nothing is started"),
    ],
)
def test_a_spent_budget_says_what_is_left_and_until_when(at_limit, words):
    budget = Budget(
        gpu_hours_per_month=1000, microdollars_per_month=2_500_000_000, at_limit=at_limit
    )
    found = restriction("vision", budget, Spending(NOVEMBER), 100)

    assert found is not None
    assert found.refusal.reason is Reason.BUDGET_SPENT
    assert words in found.refusal.message
    assert "(1000 GPU-hours or $2500.00)" in found.refusal.message
    assert "2026-12-01 00:00 UTC" in found.refusal.message
    assert found.refusal.evidence == {"month_ends_at_ms": month_start_ms(NOVEMBER + 1)}
    assert restriction("vision", budget, Spending(NOVEMBER), 99) is None


def test_a_warning_budget_and_no_budget_restrict_nothing():
    assert restriction("v", Budget(gpu_hours_per_month=0), Spending(NOVEMBER), 100) is None
    assert restriction("v", None, Spending(NOVEMBER), 0) is None
    assert (gpu_limit(Budget()), money_limit(Budget())) == (None, None)
    stop = Budget(microdollars_per_month=0, at_limit=AtLimit.STOP)
    assert Spending(NOVEMBER).percent(stop, START_MS) == 100
    assert restriction("v", stop, Spending(NOVEMBER), 100) is not None
