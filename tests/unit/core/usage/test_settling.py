"""What a reading makes of a span of time, and what the ledger makes of that."""

import pytest

from shared.core.quota.cost import DAY_MS
from shared.core.usage import (
    READING_MS_MAX,
    UNREAD,
    Reading,
    UseAmounts,
    energy,
    parts_of_days,
    settle,
)

WHOLE, SHARED, SLICE = 0xFF, 0, 0b11
AT = 5_000


def settled(percent, shares, *, until=AT + 1_000, begin=AT, instances=()):
    reading = Reading(at_ms=AT, percent=percent, instances=instances)
    held = {f"w{at}": one for at, one in enumerate(shares)}
    return {holder: one for holder, _, one in settle(reading, held, begin, until)}


def amounts(used=0, unused=0, unmeasured=0):
    return UseAmounts(used=used, unused=unused, unmeasured=unmeasured)


def test_a_whole_gpu_is_used_by_its_per_cent():
    found = settled((30, 100), [[(0, 1000, WHOLE), (1, 1000, WHOLE)]])

    assert {"w0": amounts(1_300_000, 700_000)} == found


def test_what_boards_draw_is_split_by_what_is_held_of_each_for_a_minute_at_most():
    reading = Reading(at_ms=AT, watts=(700, 300))
    held = {"w0": [(0, 1000, WHOLE), (1, 500, SHARED)], "w1": [(1, 250, SLICE), (2, 1000, WHOLE)]}

    found = {holder: drawn for holder, _, drawn in energy(reading, held, 0, AT + 2_000)}
    assert found == {"w0": 850_000 * 2_000, "w1": 75_000 * 2_000}
    assert [] == list(energy(Reading(at_ms=AT), held, AT, AT + 2_000))
    (late,) = energy(reading, {"w0": held["w0"]}, AT, AT + 10 * READING_MS_MAX)
    assert ("w0", 0, 850_000 * READING_MS_MAX) == late


def test_the_use_of_a_shared_gpu_is_split_by_what_is_held():
    found = settled((40,), [[(0, 500, SHARED)], [(0, 300, SHARED)]])

    assert {"w0": amounts(250_000, 250_000), "w1": amounts(150_000, 150_000)} == found


def test_nobody_uses_more_than_it_holds():
    assert {"w0": amounts(250_000)} == settled((90,), [[(0, 250, SHARED)]])


def test_an_instance_has_its_own_use_and_without_it_is_unmeasured():
    told = settled((0,), [[(0, 250, SLICE)]], instances=((0, SLICE, 60),))
    untold = settled((90,), [[(0, 250, SLICE)]], instances=((0, 0b100, 60),))

    assert {"w0": amounts(150_000, 100_000)} == told
    assert {"w0": amounts(0, 0, 250_000)} == untold


@pytest.mark.parametrize("percent", [(), (UNREAD,)])
def test_a_gpu_that_is_not_read_is_unmeasured(percent):
    assert {"w0": amounts(0, 0, 1_000_000)} == settled(percent, [[(0, 1000, WHOLE)]])


def test_a_reading_counts_for_a_minute_at_most_and_not_before_its_time():
    late = settled((50,), [[(0, 1000, WHOLE)]], until=AT + READING_MS_MAX + 7)
    early = settled((50,), [[(0, 1000, WHOLE)]], begin=AT - 3, until=AT + 2)
    never = settled((50,), [[(0, 1000, WHOLE)]], begin=AT - 3, until=AT - 1)

    assert {"w0": amounts(30_000_000, 30_000_000, 7_000)} == late
    assert {"w0": amounts(1_000, 1_000, 3_000)} == early
    assert {"w0": amounts(0, 0, 2_000)} == never


def test_midnight_parts_the_days():
    reading = Reading(at_ms=DAY_MS - 10, percent=(100,))
    held = {"w": [(0, 1000, WHOLE)]}

    found = list(settle(reading, held, DAY_MS - 10, DAY_MS + 5))

    assert [("w", 0, amounts(10_000)), ("w", 1, amounts(5_000))] == found
    assert [(0, 7, DAY_MS), (1, DAY_MS, 2 * DAY_MS), (2, 2 * DAY_MS, 2 * DAY_MS + 1)] == list(
        parts_of_days(7, 2 * DAY_MS + 1)
    )
    assert [] == list(parts_of_days(7, 7))


def test_what_is_measured_beyond_the_charge_is_taken_from_the_unused_first():
    assert amounts(50, 10, 40) == UseAmounts.within(100, used=50, unused=10)
    assert amounts(90, 10) == UseAmounts.within(100, used=90, unused=30)
    assert amounts(100) == UseAmounts.within(100, used=110, unused=30)
