"""When a node counts as silent."""

from __future__ import annotations

import pytest

from shared.core.health.silence import HeardNode, is_break, may_be_called_silent


@pytest.mark.parametrize(
    ("gap_ms", "limit_ms"),
    [(0, 30_000), (5_000, 30_000), (20_000, 60_000), (1_000_000, 600_000)],
)
def test_three_intervals_may_pass_and_never_less_than_half_a_minute(gap_ms, limit_ms):
    one = HeardNode(at_ms=1_000, gap_ms=gap_ms)

    assert one.limit_ms == limit_ms
    assert not one.is_late(1_000 + limit_ms, 0)
    assert one.is_late(1_001 + limit_ms, 0)
    assert not one.is_late(1_001 + limit_ms, 2_000), "everybody began anew at 2,000"


def test_an_interval_is_learned_and_a_silence_is_none():
    one = HeardNode(at_ms=0).heard(20_000)

    assert one == HeardNode(at_ms=20_000, gap_ms=20_000)
    assert HeardNode(at_ms=0).heard(90_000).gap_ms == 90_000, "the first gap is an interval"
    assert HeardNode(at_ms=0).heard(600_001).gap_ms == 0
    assert one.heard(200_000) == HeardNode(at_ms=200_000, gap_ms=20_000)


@pytest.mark.parametrize(
    ("late", "others", "told"), [(1, 2, True), (1, 1, False), (2, 1, False), (0, 0, False)]
)
def test_while_half_are_late_it_is_not_the_nodes(late, others, told):
    assert may_be_called_silent(late, others) is told


def test_a_break_in_which_nobody_is_heard_is_not_the_nodes():
    assert not is_break(0, 30_000)
    assert is_break(0, 30_001)
