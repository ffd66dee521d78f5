"""Decayed use of queues: the integral of the rate, each moment weighed by its age."""

from decimal import Decimal, getcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.core.quota.usage_history import (
    GPU_SECOND,
    HALF_LIFE_MS,
    Account,
    UsageHistory,
    decayed,
    exp2,
)

DAY_MS = 86_400_000
getcontext().prec = 60
LN2 = Decimal(2).ln()

times = st.integers(1_700_000_000_000, 1_700_000_000_000 + 400 * DAY_MS)
intervals = st.lists(
    st.tuples(times, st.integers(0, 90 * DAY_MS), st.integers(1, 80_000_000)), max_size=20
)


def exact(spans, at_ms, half_life_ms=HALF_LIFE_MS):
    """The definition, with 60 digits."""
    total, half_life = Decimal(0), Decimal(half_life_ms)
    for start, end, gpu_milli in spans:
        late = Decimal(2) ** ((min(end, at_ms) - at_ms) / half_life)
        early = Decimal(2) ** ((start - at_ms) / half_life)
        total += gpu_milli * half_life / LN2 * (late - early)
    return total


def test_powers_of_two_are_right_to_60_binary_digits():
    for fraction in (0, 1, 2**63, 2**64 - 1, 0x123456789ABCDEF0):
        power = Decimal(2) ** (Decimal(fraction) / 2**64)
        assert abs(exp2(fraction) - power * 2**64) < 16


def test_a_gpu_held_for_ever_amounts_to_the_half_life_over_ln_2():
    history = UsageHistory()
    history.change("vision", 0, 1000)

    used = history.at("vision", 1000 * HALF_LIFE_MS)

    assert abs(used - 1000 * HALF_LIFE_MS / float(LN2)) < 1000


def test_half_is_left_after_a_half_life():
    history = UsageHistory()
    history.change("vision", DAY_MS, 8000)
    history.change("vision", DAY_MS + 1000, -8000)

    now = history.at("vision", DAY_MS + 1000)

    assert now // GPU_SECOND == 7  # eight seconds of GPU, the older the less
    assert history.at("vision", DAY_MS + 1000 + HALF_LIFE_MS) == pytest.approx(now / 2, abs=1)
    assert decayed(now, HALF_LIFE_MS, HALF_LIFE_MS) == pytest.approx(now / 2, abs=1)


@given(intervals, st.integers(0, 3000 * DAY_MS))
def test_what_is_told_is_the_integral(facts, later):
    history = UsageHistory()
    spans = [(start, start + length, gpu_milli) for start, length, gpu_milli in facts]
    for start, end, gpu_milli in spans:
        history.change("q", start, gpu_milli)
        history.change("q", end, -gpu_milli)
    at_ms = max((end for _, end, _ in spans), default=0) + later

    wanted = exact(spans, at_ms)

    bound = 1 + sum(gpu_milli for _, _, gpu_milli in spans) * HALF_LIFE_MS / 2**57
    assert abs(history.at("q", at_ms) - wanted) <= bound


@given(intervals, st.lists(st.integers(0, 30 * DAY_MS), min_size=1, max_size=20))
def test_decay_in_steps_is_decay_at_once(facts, steps):
    """Reading never changes an account, and a stored one goes on where it was."""
    once, stepped = UsageHistory(), UsageHistory()
    at_ms = 0
    for start, length, gpu_milli in facts:
        for history in (once, stepped):
            history.change("q", start, gpu_milli)
            history.change("q", start + length, -gpu_milli)
        at_ms = max(at_ms, start + length)
    for step in steps:
        at_ms += step
        stepped.at("q", at_ms)
        for queue, account in list(stepped.accounts.items()):
            stepped.restore(queue, Account(
                rate=account.rate, weighted=account.weighted, origin=account.origin
            ))  # fmt: skip

    assert stepped.at("q", at_ms) == once.at("q", at_ms)


@given(intervals)
def test_the_order_of_facts_does_not_matter(facts):
    there, back = UsageHistory(), UsageHistory()
    changes = [
        change
        for start, length, gpu_milli in facts
        for change in ((start, gpu_milli), (start + length, -gpu_milli))
    ]
    for at_ms, gpu_milli in changes:
        there.change("q", at_ms, gpu_milli)
    for at_ms, gpu_milli in reversed(changes):
        back.change("q", at_ms, gpu_milli)

    at_ms = max((at for at, _ in changes), default=0)
    rate = sum(abs(gpu_milli) for _, gpu_milli in changes)
    bound = 1 + rate * HALF_LIFE_MS / 2**57
    assert abs(there.at("q", at_ms) - back.at("q", at_ms)) <= bound


def test_an_account_of_many_years_stays_small():
    history = UsageHistory(DAY_MS)
    for day in range(20_000):
        history.change("q", day * DAY_MS, 8000)
        history.change("q", day * DAY_MS + DAY_MS // 2, -8000)

    assert history.accounts["q"].weighted.bit_length() < 300
    spans = [(day * DAY_MS, day * DAY_MS + DAY_MS // 2, 8000) for day in range(19_900, 20_000)]
    wanted = exact(spans, 20_000 * DAY_MS, DAY_MS)
    assert history.at("q", 20_000 * DAY_MS) == pytest.approx(float(wanted), abs=2)


def test_another_half_life_goes_on_from_what_was_used():
    old = UsageHistory()
    old.change("q", 10 * DAY_MS, 4000)
    new = UsageHistory(2 * DAY_MS)

    new.begin("q", 20 * DAY_MS, old.at("q", 20 * DAY_MS), 4000)

    assert abs(new.at("q", 20 * DAY_MS) - old.at("q", 20 * DAY_MS)) <= 1
    assert new.accounts["q"].rate == 4000


def test_a_queue_that_never_ran_used_nothing_and_no_change_is_none():
    history = UsageHistory()
    history.change("q", DAY_MS, 0)

    assert history.at("q", DAY_MS) == 0
    assert history.accounts == {}


@pytest.mark.parametrize("half_life_ms", [0, 59_999, 367 * DAY_MS])
def test_a_half_life_out_of_bounds_is_refused(half_life_ms):
    with pytest.raises(ValueError, match="half_life_ms"):
        UsageHistory(half_life_ms)
