"""What OpenAPI says of the values of a submission is what the rules of the core say."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from services.gateway.documents.document_rules import problems_of
from services.gateway.documents.documents import COLLECTIONS, Organisation, applied_of
from shared.core.admission.errors import Errors
from shared.core.admission.form import check_form
from shared.core.model.nouns import WorkloadSpec
from shared.events.described.bounds import BOUNDS, bound
from shared.events.organisation import CohortApplied, FlavorApplied, TeamApplied

PLACES = {
    "WorkloadSpec": "",
    "PodSet": "pod_sets[0].",
    "GpuRequest": "pod_sets[0].gpu.",
    "Slice": "pod_sets[0].slices[0].",
    "GpuChoice": "gpu_choice.",
}
COMPANIONS: dict[str, dict[str, Any]] = {
    "pod_sets[0].min_count": {"count": 4096},
    "pod_sets[0].gpu.memory_mib": {"gpu": {"milli": 500}},
    "pod_sets[0].gpu.mig_count": {"gpu": {"mig_profile": "1g.10gb"}},
    "pod_sets[0].gpu.milli": {"gpu": {"memory_mib": 1}},
    "pod_sets[0].slices[0].pods": {"count": 4096, "slices": [{"level": "rack"}]},
}
"""What a value needs beside it."""
LESS_IS_SAID = ("pod_sets[0].gpu.milli", "pod_sets[0].gpu.memory_mib")
"""0 means none; which values are too small beside that, their descriptions say."""
TEXTS = (
    "a", "train-7", "-a", "a-", "A", "a_b", "a.b", "1.2", "1.2.3.4.5", "x/y:1", "a b", "é",
    "a" * 63, "a" * 64, "a" * 253, "a" * 254, "x" * 1025, "example.com/a", "OOMKilled", "9",
)  # fmt: skip

NUMBERS = [
    (PLACES[struct] + field, words)
    for struct, fields in BOUNDS.items()
    for field, words in fields.items()
    if struct in PLACES and "maximum" in words and "exclusiveMinimum" not in words
]
PATTERNS = [
    (PLACES[struct] + field, words["pattern"])
    for struct, fields in BOUNDS.items()
    for field, words in fields.items()
    if struct in PLACES and "pattern" in words
]


def refused(path: str, value: Any) -> bool:
    """Whether the rules of form name the field at `path` once it holds `value`."""
    pods: dict[str, Any] = dict(COMPANIONS.get(path, {}))
    spec: dict[str, Any] = {"name": "a", "kind": "training", "pod_sets": [pods]}
    target: Any = spec
    *parents, last = re.findall(r"\w+", path)
    for name in parents:
        target = target[int(name)] if name.isdigit() else target.setdefault(name, {})
    target[last] = value
    errors = Errors()
    check_form(msgspec.convert(spec, WorkloadSpec), errors)
    return any(path.startswith(one.field) for one in errors)


@pytest.mark.parametrize(("path", "words"), NUMBERS, ids=[path for path, _ in NUMBERS])
def test_the_least_and_the_most_are_those_of_the_rules(path: str, words: dict[str, Any]):
    least, most = words["minimum"], words["maximum"]

    wrong = [refused(path, value) for value in (least - 1, most + 1)]
    right = [refused(path, value) for value in (least, most)]

    assert [True, True] == wrong
    assert [False, False] == right or path in LESS_IS_SAID


@pytest.mark.parametrize(("path", "pattern"), PATTERNS, ids=[path for path, _ in PATTERNS])
def test_patterns_are_those_of_the_rules(path: str, pattern: str):
    for text in TEXTS:
        assert refused(path, text) == (re.search(pattern, text) is None), text


@pytest.mark.parametrize("field", ["secrets", "volumes", "tolerations"])
def test_entries_that_the_rules_take_are_like_the_pattern_of_their_list(field: str):
    pattern = BOUNDS["PodSet"][field]["items"]["pattern"]
    texts = (
        *TEXTS, "data", "data:/data", "data:/data:ro", "data:/data:rw", "data:data", "data:",
        "dedicated=research:NoSchedule", "dedicated:NoExecute", "a=b:Never", "c" * 253,
    )  # fmt: skip

    for text in texts:
        spec = {"name": "a", "kind": "training", "pod_sets": [{field: [text]}]}
        errors = Errors()
        check_form(msgspec.convert(spec, WorkloadSpec), errors)
        assert bool(errors) == (re.search(pattern, text) is None), text


@pytest.mark.parametrize(
    ("collection", "path", "value"),
    [
        ("teams", "max_pending", 0),
        ("teams", "loss_gpu_seconds_per_hour", 0),
        ("teams", "budget.gpu_hours_per_month", 0),
        ("teams", "budget.microdollars_per_month", 0),
        ("teams", "idle.utilisation_percent_below", 1),
        ("queues", "weight", 1),
        ("cohorts", "weight", 1),
        ("flavors", "price_microdollars_per_gpu_hour", 0),
        ("priority-classes", "value", -1_000_000_000),
    ],
)
def test_the_least_of_a_document_is_that_of_its_rules(collection: str, path: str, value: int):
    problems = [
        [one.field for one in problems_of(document(collection, path, value - less), organised())]
        for less in (0, 1)
    ]

    assert [[], [path]] == problems


def organised() -> Organisation:
    team = TeamApplied(name="red", version=1, default_queue="red")
    flavors = {"h100": FlavorApplied(name="h100", version=1)}
    cohorts = {"all": CohortApplied(name="all", version=1)}
    return Organisation(teams={"red": team}, flavors=flavors, cohorts=cohorts)


def document(collection: str, path: str, value: int) -> Any:
    kind = next(one for one in COLLECTIONS if one.path == collection)
    body: dict[str, Any] = {"team": "red"} if collection == "queues" else {}
    *parents, last = path.split(".")
    target = body
    for name in parents:
        target = target.setdefault(name, {})
    target[last] = value
    return applied_of(kind, "new", msgspec.convert(body, kind.patch))


def test_words_are_put_where_a_value_is_not_null():
    schema = {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": -9}], "default": None}

    bound(schema, {"minimum": 1, "maximum": 2})

    assert {"type": "integer", "minimum": 1, "maximum": 2} == schema["anyOf"][1]  # type: ignore[index]


def test_a_word_of_none_goes_and_words_of_items_join_what_is_there():
    schema = {"items": {"maxLength": 9}, "minimum": 0}

    bound(schema, {"items": {"pattern": "a"}, "minimum": None})

    assert {"items": {"maxLength": 9, "pattern": "a"}} == schema
