"""Facts of quota as rows and events."""

import pytest

from shared.core.model.team_policy import AtLimit
from shared.core.model.value import replace
from shared.events import quotas
from tests.unit.gateway.test_projection import rows_of


@pytest.mark.parametrize(
    ("percent", "at_limit", "words"),
    [
        (80, AtLimit.STOP, "at 100 % until the month ends (UTC) no new work starts"),
        (100, AtLimit.NOMINAL, "GPU-hours; until the month ends (UTC) nothing is borrowed"),
    ],
)
def test_a_budget_that_is_nearly_spent_is_an_event_of_the_team(percent, at_limit, words):
    fact = quotas.BudgetWarned(
        team="red",
        month="2026-11",
        threshold_percent=percent,
        at_limit=at_limit,
        spent_gpu_milli_hours=80_500,
        limit_gpu_milli_hours=100_000,
        spent_microdollars=0,
        limit_microdollars=None,
    )

    (event,) = rows_of(fact)["event"]

    assert ("red", "", "budget") == (event["team"], event["workload_id"], event["reason"])
    assert f"red has spent {percent} % of its budget of 2026-11: 80.5 of 100.0" in event["message"]
    assert words in event["message"]
    money = replace(fact, limit_gpu_milli_hours=None, limit_microdollars=2_000_000)
    assert "$0.00 of $2.00" in rows_of(money)["event"][0]["message"]
