"""Prices by time: what begins costs what is said then, and nothing of before changes."""

import pytest

from shared.core.quota.prices import (
    PRICES_MAX,
    UNPRICED,
    DatedPrice,
    Price,
    Purchase,
    price_at,
    price_problems,
    purchase_of,
    schedule,
    since_ms_of,
)

NOVEMBER_MS = 1_793_491_200_000
DAY_MS = 86_400_000


def dated(since, price, purchase=None):
    return DatedPrice(since=since, microdollars_per_gpu_hour=price, purchase=purchase)


def a_price(price=5, at_ms=NOVEMBER_MS, version=1, purchase=Purchase.RESERVED):
    return Price(
        version=version,
        applied_at_ms=at_ms,
        microdollars_per_gpu_hour=price,
        purchase=purchase,
    )


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-01", NOVEMBER_MS),
        ("2026-11-01T00:00:00+01:00", NOVEMBER_MS - 3_600_000),
        ("2026-11-01T00:00:00.250Z", NOVEMBER_MS + 250),
        ("1969-12-31", -DAY_MS),
    ],
)
def test_a_day_begins_at_midnight_utc_and_a_time_where_its_offset_says(text, ms):
    assert ms == since_ms_of(text)


def test_each_price_holds_from_its_time_in_whatever_order_they_are_written():
    later = dated("2026-12-01", 9)
    sooner = dated("2026-11-11T12:00:00Z", 7, Purchase.OWNED)

    found = schedule(a_price(5), (later, sooner))

    noon_ms = NOVEMBER_MS + 10 * DAY_MS + DAY_MS // 2
    assert found == schedule(a_price(5), (sooner, later))
    told = [(at, price_at(found, at)) for at in (0, noon_ms - 1, noon_ms, NOVEMBER_MS * 2)]
    assert [5, 5, 7, 9] == [one.microdollars_per_gpu_hour for _, one in told]
    assert ["reserved", "reserved", "owned", "reserved"] == [one.purchase for _, one in told]


def test_times_before_the_version_is_applied_change_nothing_of_before():
    found = schedule(a_price(5), (dated("2026-10-01", 6), dated("2026-11-01", 7)))

    assert [a_price(7)] == found


def test_a_later_version_takes_back_what_an_earlier_one_had_announced():
    found = schedule(a_price(5), (dated("2026-12-01", 9),))
    found += schedule(a_price(6, NOVEMBER_MS + DAY_MS, version=2), ())

    assert 6 == price_at(found, NOVEMBER_MS + 90 * DAY_MS).microdollars_per_gpu_hour
    assert UNPRICED == price_at((), 0)


@pytest.mark.parametrize(
    ("purchase", "spot", "meant"),
    [
        (None, True, Purchase.SPOT),
        (None, False, Purchase.ON_DEMAND),
        (Purchase.OWNED, False, Purchase.OWNED),
    ],
)
def test_a_flavor_that_says_nothing_is_paid_for_as_spot_or_on_demand(purchase, spot, meant):
    assert meant is purchase_of(purchase, spot=spot)


@pytest.mark.parametrize(
    ("since", "rule"),
    [
        ("2026-13-01", "must be a day (UTC)"),
        ("2026-11-31", "must be a day (UTC)"),
        ("2026-11-01T00:00:00", "must be a day (UTC)"),
        ("2026-11-01T00:00:00 Mars/Base", "must be a day (UTC)"),
        ("2026-11-01T00:00:00+25:00", "must be a day (UTC)"),
        ("", "must be a day (UTC)"),
        ("2026-11-01T01:00:00+01:00", "must be given once"),
    ],
)
def test_a_time_that_is_none_or_told_twice_is_told_with_field_value_and_rule(since, rule):
    (problem,) = price_problems(None, (dated("2026-11-01", 1), dated(since, 1)), spot=False)

    assert ("prices[1].since", since) == (problem.field, problem.value)
    assert rule in problem.rule


def test_only_spot_nodes_are_paid_for_as_spot():
    spot, owned = dated("2026-11-01", 1, Purchase.SPOT), dated("2026-11-01", 1, Purchase.OWNED)

    assert [] == price_problems(Purchase.SPOT, (spot,), spot=True)
    (first,) = price_problems(Purchase.SPOT, (owned,), spot=False)
    (second,) = price_problems(None, (owned,), spot=True)
    assert ("purchase", "spot", "must not be spot unless the flavor is") == (
        first.field, first.value, first.rule,
    )  # fmt: skip
    assert ("prices[0].purchase", "owned", "must be spot, as the flavor is") == (
        second.field, second.value, second.rule,
    )  # fmt: skip


def test_a_price_is_not_negative_and_there_are_not_too_many():
    (low,) = price_problems(None, (dated("2026-11-01", -1),), spot=False)
    many = [dated(f"{2026 + number}-11-01", 1) for number in range(PRICES_MAX + 1)]
    (long,) = price_problems(None, many, spot=False)

    assert ("prices[0].microdollars_per_gpu_hour", "-1") == (low.field, low.value)
    assert ("prices", "101", "must be at most 100 prices") == (long.field, long.value, long.rule)
