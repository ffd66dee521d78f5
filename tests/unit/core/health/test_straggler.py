"""Members of a gang for which the others wait."""

from __future__ import annotations

import numpy as np

from shared.core.health.straggler import judged_gang
from shared.core.health.trends import UNTOLD, TrendEvidence, TrendJudgement

FOUND, ABSENT, UNKNOWN = TrendEvidence.FOUND, TrendEvidence.ABSENT, TrendEvidence.UNKNOWN
GANG = 4


class Gang:
    """Four members, busy at 1,980 MHz for ten minutes, but for what is set of the last."""

    def __init__(self) -> None:
        self.sm_mhz = np.full((GANG, 2), 1_980.0)
        self.percent = np.full((GANG, 2), 99.0)
        self.throttled = np.zeros((GANG, 2))

    def judged(self) -> list[TrendJudgement]:
        return judged_gang(7, sm_mhz=self.sm_mhz, percent=self.percent, throttled=self.throttled)

    @property
    def last(self) -> TrendEvidence:
        *others, one = [found.evidence for found in self.judged()]
        assert set(others) == {ABSENT}
        return one


def test_a_slow_member_is_told_with_its_numbers_and_what_to_do():
    gang = Gang()
    gang.sm_mhz[-1] = 1_200

    found = gang.judged()[-1]

    assert gang.last is FOUND
    assert (found.since_ms, found.value, found.limit) == (7, 1_200, 1_782)
    assert found.sentence("n1", 3) == (
        "GPU 3 of node n1: slower than its gang for 10 min, at 1,200 MHz and the median of the"
        " gang at 1,980 MHz; all 4 GPUs of the gang wait for it, look at its cooling and power"
    )


def test_at_nine_tenths_it_is_none():
    gang = Gang()
    gang.sm_mhz[-1] = 0.9 * 1_980

    assert gang.last is ABSENT


def test_five_minutes_are_too_short():
    gang = Gang()
    gang.sm_mhz[-1, 1] = 900

    assert gang.last is ABSENT


def test_a_member_that_is_not_busy_is_none():
    gang = Gang()
    gang.sm_mhz[-1], gang.percent[-1, 0] = 900, 79

    assert gang.last is ABSENT


def test_members_that_are_not_busy_do_not_make_the_median():
    gang = Gang()
    gang.sm_mhz[:2], gang.percent[:2] = 345, 10

    assert [one.evidence for one in gang.judged()] == [ABSENT] * GANG


def test_a_member_throttled_alone_is_found_busy_or_not():
    gang = Gang()
    gang.throttled[-1], gang.percent[-1] = 0.5, 30

    assert gang.last is FOUND
    assert "alone in its gang held down by heat or hardware" in gang.judged()[-1].text


def test_members_throttled_together_are_none():
    gang = Gang()
    gang.throttled[-1] = 1
    gang.throttled[0, 0] = 1

    assert gang.last is ABSENT


def test_a_clock_that_is_not_told_is_no_slow_one():
    gang = Gang()
    gang.sm_mhz[-1] = UNTOLD

    assert gang.last is ABSENT


def test_a_throttled_member_without_a_clock_has_none_to_tell():
    gang = Gang()
    gang.sm_mhz[:], gang.throttled[-1] = UNTOLD, 1

    found = gang.judged()[-1]

    assert (found.evidence, found.value, found.limit) == (FOUND, 0, 0)


def test_a_missing_point_says_nothing_of_its_member():
    gang = Gang()
    gang.percent[-1, 0] = UNTOLD
    gang.sm_mhz[-1, 0] = UNTOLD

    assert gang.last is UNKNOWN


def test_one_member_alone_has_no_gang():
    gang = Gang()
    gang.percent[1:], gang.throttled[0] = UNTOLD, 1

    assert [one.evidence for one in gang.judged()] == [UNKNOWN] * GANG
