"""GPU-hours over random readings and holders, against a count of every millisecond."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from shared.core.quota.cost import DAY_MS
from shared.core.usage import READING_MS_MAX, UNREAD, Reading, UseAmounts, settle

GPUS = 3
PERCENTS = (UNREAD, 0, 1, 33, 50, 99, 100)
shares = st.tuples(
    st.integers(0, GPUS), st.integers(1, 333), st.sampled_from((0, 0xFF, 0b1, 0b110))
)
holders = st.dictionaries(st.sampled_from("abc"), st.lists(shares, min_size=1, max_size=3))
percents = st.tuples(*[st.sampled_from(PERCENTS)] * GPUS)
told = st.tuples(st.integers(0, GPUS), st.just(0b1), st.integers(0, 100))
moments = st.one_of(
    st.integers(0, 3 * READING_MS_MAX), st.integers(DAY_MS - 70_000, DAY_MS + 70_000)
)


readings = st.builds(
    Reading, at_ms=moments, percent=percents, instances=st.lists(told, max_size=2).map(tuple)
)


@given(holders, readings, moments, moments)
@example(
    {"a": [(0, 1, 0xFF)]},
    Reading(at_ms=DAY_MS - 1, percent=(1, 0, 0)),
    DAY_MS - 7,
    DAY_MS + 99_999,
)
def test_used_unused_and_unmeasured_are_all_that_is_held(held, reading, one, other):
    begin, end = sorted((one, other))

    found = list(settle(reading, held, begin, end))

    for holder, own in held.items():
        mine = [amounts for name, _, amounts in found if name == holder]
        allocated = sum(amounts.allocated for amounts in mine)
        assert sum(milli for _, milli, _ in own) * (end - begin) == allocated
        measured = sum(amounts.used + amounts.unused for amounts in mine)
        assert measured <= sum(milli for _, milli, _ in own) * reading.counted_ms(begin, end)
    for _, day, amounts in found:
        assert begin // DAY_MS <= day <= max(end - 1, begin) // DAY_MS
        assert min(amounts.used, amounts.unused, amounts.unmeasured) >= 0


@given(holders, percents, moments, st.lists(moments, min_size=2, max_size=6))
def test_it_does_not_matter_how_often_a_span_is_settled(held, percent, at, cuts):
    begin, *inner, end = sorted(cuts)
    reading = Reading(at_ms=at, percent=percent)
    steps = [begin, *inner, end]

    whole = list(settle(reading, held, begin, end))
    parts = [one for first, last in pairwise(steps) for one in settle(reading, held, first, last)]

    for holder in held:
        once, often = (
            sum((one.allocated for name, _, one in found if name == holder))
            for found in (whole, parts)
        )
        assert once == often
        used = [
            sum(one.used for name, _, one in found if name == holder) for found in (whole, parts)
        ]
        assert 0 <= used[0] - used[1] <= len(held[holder]) * (len(steps) + 1)


@given(st.integers(0, 1 << 50), st.integers(0, 1 << 50), st.integers(0, 1 << 50))
@example(5, 9, 0)
@example(5, 2, 9)
def test_what_is_charged_is_what_the_parts_sum_to(allocated, used, unused):
    found = UseAmounts.within(allocated, used=used, unused=unused)

    assert allocated == found.allocated
    assert min(found.used, found.unused, found.unmeasured) >= 0
    assert found.used <= used
    assert found.unused <= unused
