"""JSON Merge Patch as RFC 7396 has it, and what it makes of documents."""

from __future__ import annotations

import json

import pytest

from services.gateway.documents.documents import BY_PATH
from services.gateway.http.problems import Problem
from services.gateway.organisation.merging import fields_of, merged, patched
from services.gateway.organisation.protection import takes_protection_away, warning
from shared.core.model.units import Resources
from shared.events.organisation import (
    CohortApplied,
    PriorityClassApplied,
    QueueApplied,
    TeamApplied,
)
from shared.events.quotas import FlavorQuota

QUOTA = FlavorQuota(flavor="h100", nominal=Resources(gpu_milli=8000))
QUEUE = QueueApplied(name="red", version=3, team="red", cohort="all", weight=4, flavors=(QUOTA,))


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard(target: object, patch: object, result: object):
    before = json.dumps(target)

    assert merged(target, patch) == result
    assert json.dumps(target) == before


def test_what_a_patch_does_not_name_stays_as_it_is():
    after = patched(BY_PATH["queues"], "red", QUEUE, {"held": True})

    assert after == QueueApplied(
        name="red", version=0, team="red", cohort="all", weight=4, flavors=(QUOTA,), held=True
    )


def test_null_gives_a_field_its_default_again():
    nothing = {"cohort": None, "weight": None, "flavors": None}

    after = patched(BY_PATH["queues"], "red", QUEUE, nothing)

    assert after == QueueApplied(name="red", version=0, team="red")


def test_a_nested_object_is_merged_and_an_array_is_replaced():
    before = patched(
        BY_PATH["queues"], "red", QUEUE, {"policy": {"cooldown_seconds": 7, "fair_share": False}}
    )
    after = patched(
        BY_PATH["queues"],
        "red",
        before,
        {"policy": {"fair_share": None}, "flavors": [{"flavor": "a100"}]},
    )

    assert (after.policy.cooldown_seconds, after.policy.fair_share) == (7, True)
    assert [one.flavor for one in after.flavors] == ["a100"]


def test_a_document_that_there_is_not_is_made_of_the_defaults():
    assert patched(BY_PATH["cohorts"], "all", None, {"weight": 2}) == CohortApplied(
        name="all", version=0, weight=2
    )
    assert patched(BY_PATH["teams"], "red", None, {}) == TeamApplied(
        name="red", version=0, default_queue="red"
    )


@pytest.mark.parametrize(
    ("patch", "field", "rule"),
    [
        ({"team": None}, "team", "is required"),
        ({"flavours": []}, "flavours", "unknown field; the nearest is flavors"),
        ({"name": "blue"}, "name", "unknown field"),
        ({"policy": {"cooldown": 1}}, "policy.cooldown", "unknown field"),
        ({"weight": "2"}, "weight", "Expected `int`, got `str`"),
        ({"flavors": [{"nominal": {}}]}, "flavors[0].flavor", "is required"),
    ],
)
def test_a_patch_that_makes_no_document_is_refused_by_field(
    patch: dict[str, object], field: str, rule: str
):
    with pytest.raises(Problem) as raised:
        patched(BY_PATH["queues"], "red", QUEUE, patch)

    first = json.loads(raised.value.body())["errors"][0]
    assert (raised.value.status, first["field"]) == (400, field)
    assert first["rule"].startswith(rule)


def test_the_fields_of_a_document_make_the_same_again():
    fields = fields_of(QUEUE)

    assert patched(BY_PATH["queues"], "red", None, fields) == patched(
        BY_PATH["queues"], "red", QUEUE, {}
    )
    assert {"name", "version"}.isdisjoint(fields)
    assert fields_of(None) == {}


@pytest.mark.parametrize(
    ("before", "after", "away"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_protection_is_taken_away_from_who_had_it(before: bool, after: bool, away: bool):
    old = PriorityClassApplied(name="gold", version=1, value=9, protected=before)
    new = PriorityClassApplied(name="gold", version=0, value=9, protected=after)

    assert takes_protection_away(old, new) is away
    assert not takes_protection_away(None, new)
    assert not takes_protection_away(QUEUE, QUEUE)


def test_the_warning_counts_the_work():
    assert "1 workload of priority class gold" in warning("gold", 1)
    assert "12 workloads of priority class gold" in warning("gold", 12)
