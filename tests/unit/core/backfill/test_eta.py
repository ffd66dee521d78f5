"""Ranges of what is likely: quantiles of what was seen, or somebody's word."""

import pytest

from shared.core.backfill.eta import (
    Range,
    after,
    by_ends,
    left_of,
    missed,
    promised,
    quantiles,
    size_class,
    stated,
)

TEN = range(100, 1_100, 100)


def test_half_of_the_samples_are_over_by_the_first_number_and_nine_tenths_by_the_second():
    assert quantiles(TEN) == (500, 900, 10)
    assert quantiles(range(1, 6)) == (3, 5, 5)


def test_of_what_has_waited_already_only_longer_samples_speak():
    assert quantiles(TEN, 450) == (700 - 450, 1_000 - 450, 6)
    assert quantiles([0] * 5) == (0, 0, 5)
    assert quantiles([0] * 5, 1) is None


def test_too_few_samples_say_nothing():
    assert quantiles(range(4)) is None
    assert left_of(range(4), 0, "queue") is None


def test_a_range_says_on_what_it_rests():
    assert left_of(TEN, 0, "queue") == Range(p50_ms=500, p90_ms=900, basis="queue", samples=10)


@pytest.mark.parametrize(
    ("expected", "limit", "passed", "found"),
    [
        (100, 300, 0, (100, 300)),
        (100, 300, 40, (60, 260)),
        (None, 300, 0, (300, 300)),
        (100, None, 0, (100, 100)),
        (100, 50, 0, (100, 100)),
        (100, 300, 100, (200, 200)),
        (100, 300, 250, (50, 50)),
    ],
)
def test_a_user_says_what_is_likely_and_what_is_the_latest(expected, limit, passed, found):
    range_ = stated(expected, limit, passed)

    assert range_ == Range(p50_ms=found[0], p90_ms=found[1], basis="stated")


@pytest.mark.parametrize(
    ("expected", "limit", "passed"),
    [(None, None, 0), (0, None, 0), (100, None, 100), (100, 300, 300), (None, 300, 400)],
)
def test_words_that_are_over_or_never_said_say_nothing(expected, limit, passed):
    assert stated(expected, limit, passed) is None


def test_a_promise_is_the_middle_and_what_others_waited_the_end():
    history = Range(p50_ms=10, p90_ms=900, basis="queue", samples=7)

    assert promised(300, history) == Range(p50_ms=300, p90_ms=900, basis="promise", samples=7)
    assert promised(2_000, history).p90_ms == 2_000
    assert promised(-5, None) == Range(p50_ms=0, p90_ms=0, basis="promise")


@pytest.mark.parametrize(
    ("happened_ms", "error"),
    [(70, (30, "p50")), (100, (0, "p50")), (150, (50, "p90")), (201, (101, "later"))],
)
def test_what_happened_is_compared_with_the_middle_and_the_end_of_what_was_told(
    happened_ms, error
):
    assert error == missed(100, 200, happened_ms)


def test_an_end_is_a_start_and_a_length():
    start = Range(p50_ms=1, p90_ms=2, basis="queue", samples=7)
    length = Range(p50_ms=10, p90_ms=20, basis="stated")

    assert after(start, length) == Range(p50_ms=11, p90_ms=22, basis="queue, then stated")


def test_sizes_are_classed_by_what_they_need_of_the_fleet():
    sizes = (0, 500, 1_000, 2_000, 8_000, 9_000, 64_000, 65_000)

    assert [size_class(one) for one in sizes] == [0, 1, 2, 3, 3, 4, 4, 5]


def test_enough_is_given_back_when_the_last_needed_one_ends():
    ends = [(1_100, 2_000), (1_300, 1_000), (1_700, 8_000)]

    found = by_ends(ends, 3_000, 1_000)

    assert found == Range(p50_ms=300, p90_ms=600, basis="expected ends", samples=2)
    assert by_ends(ends, 2_000, 2_000) == Range(
        p50_ms=0, p90_ms=0, basis="expected ends", samples=1
    )
    assert by_ends(ends, 11_001, 1_000) is None
