"""Which taints a node should carry, and when those that it has need no change."""

import pytest

from shared.core.kubernetes.health_taints import CLOSED, changed, wanted

OTHERS = {"key": "dedicated", "value": "x", "effect": "NoExecute", "timeAdded": "2026-01-01"}
DRAINED = {"key": CLOSED, "value": "drained", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("closed", "gpus", "found"),
    [
        ("", (), []),
        ("drained", (), [("muster.dev/out-of-service", "drained", "NoSchedule")]),
        ("", (3, 0), [("muster.dev/gpus-out-of-service", "0.3", "PreferNoSchedule")]),
        (
            "cordoned",
            (1,),
            [
                ("muster.dev/out-of-service", "cordoned", "NoSchedule"),
                ("muster.dev/gpus-out-of-service", "1", "PreferNoSchedule"),
            ],
        ),
        ("", range(64), [("muster.dev/gpus-out-of-service", "64-gpus", "PreferNoSchedule")]),
    ],
)
def test_a_node_shows_why_it_is_closed_and_which_gpus_are_out(closed, gpus, found):
    assert found == [(one["key"], one["value"], one["effect"]) for one in wanted(closed, gpus)]


def test_taints_of_others_stay_with_all_their_fields():
    after = changed([OTHERS, DRAINED], wanted("", (2,)))

    assert [OTHERS, *wanted("", (2,))] == after


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_there_already_is_not_written(order):
    ours = wanted("drained", (1, 2))

    assert changed([OTHERS, *ours[::order]], ours) is None
    assert changed([OTHERS], ()) is None


@pytest.mark.parametrize("field", ["value", "effect"])
def test_another_value_or_effect_is_put_right(field):
    assert [DRAINED] == changed([{**DRAINED, field: "Other"}], [DRAINED])
    assert [DRAINED] == changed([{"key": CLOSED}], [DRAINED])
