"""The verdict of a run under faults: broken outweighs too little load, and that outweighs slow."""

import pytest

from tests.support.verdict import Findings, LeastLoad, Verdict

LEAST = LeastLoad(events_per_second=50, placements=100)
ENOUGH = {"events_per_second": 50.0, "placements": 100}


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (ENOUGH, Verdict.GREEN),
        (ENOUGH | {"slow": ["kafka"]}, Verdict.SLOW),
        (ENOUGH | {"events_per_second": 49.0, "slow": ["kafka"]}, Verdict.TOO_LITTLE_LOAD),
        ({"events_per_second": 50.0, "placements": 99}, Verdict.TOO_LITTLE_LOAD),
        ({"not_over": {"missing": 1}}, Verdict.RED),
        (ENOUGH | {"doubled": 1, "slow": ["kafka"]}, Verdict.RED),
        (ENOUGH | {"check": "exit 1"}, Verdict.RED),
    ],
)  # fmt: skip
def test_the_worst_that_is_true_is_told(found, verdict):
    assert verdict is Findings(**found).verdict(LEAST)
