"""How long a workload rests after its setbacks in a row."""

from __future__ import annotations

import pytest

from shared.core.nodes.backoff import (
    FORGIVEN_AFTER_MS,
    REST_SECONDS_MAX,
    rest_seconds,
    setbacks_in_a_row,
)


@pytest.mark.parametrize(
    ("before", "ran_ms", "setback", "expected"),
    [
        (0, 0, True, 1),
        (3, 0, True, 4),
        (3, 0, False, 3),
        (3, FORGIVEN_AFTER_MS - 1, True, 4),
        (3, FORGIVEN_AFTER_MS, True, 1),
        (3, FORGIVEN_AFTER_MS, False, 0),
    ],
)
def test_setbacks_count_until_an_attempt_runs_long_enough(before, ran_ms, setback, expected):
    assert expected == setbacks_in_a_row(before, ran_ms, setback=setback)


def test_each_setback_in_a_row_doubles_the_rest_up_to_its_bound():
    assert [1, 2, 4, 8, 16, 32, 64, 64] == [rest_seconds(number) for number in range(1, 9)]
    assert REST_SECONDS_MAX == rest_seconds(10_000)
