"""Every fault of a body at once: each with its path, what was given and what is allowed."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from services.gateway.submissions.submission_views import BatchRequest, SpecRequest
from shared.core.model.decision import FieldError
from shared.events.broken_rules import ERRORS_MAX, broken_rules
from shared.events.strict_reader import BadInput, read_strictly
from tests.support.untrusted import least_cpu_seconds

VALID = {"name": "a", "kind": "training"}


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Part(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, Meta(ge=1, le=8)]
    colour: Colour | None = None


class Whole(msgspec.Struct, forbid_unknown_fields=True):
    parts: Annotated[tuple[Part, ...], Meta(max_length=2)] = ()
    texts: Annotated[dict[Annotated[str, Meta(max_length=3)], str], Meta(max_length=2)] = {}
    either: int | str = 0


def told(tree: Any, annotation: Any = Whole) -> list[tuple[str, str, str]]:
    return [(one.field, one.value, one.rule) for one in broken_rules(tree, annotation)]


def test_every_fault_is_told_in_the_order_of_the_document():
    tree = {
        "name": 5,
        "pod_sets": [{"count": "8", "gpu": {"cuont": 1, "milli": True}}, {"count": 4097}],
        "topology": {"required": "rak"},
        "quue": "x",
    }

    assert [(field, value) for field, value, _ in told(tree, SpecRequest)] == [
        ("name", "5"),
        ("pod_sets[0].count", '"8"'),
        ("pod_sets[0].gpu.cuont", "1"),
        ("pod_sets[0].gpu.milli", "true"),
        ("pod_sets[1].count", "4097"),
        ("topology.required", '"rak"'),
        ("quue", '"x"'),
        ("kind", ""),
    ]


def test_what_is_right_has_no_faults():
    assert [] == told({"parts": [{"size": 8, "colour": "red"}], "texts": {"a": "b"}})


def test_a_list_that_is_too_long_and_faults_in_it_are_both_told():
    parts = [{"size": 1}, {"size": 9}, {"size": 1}]

    assert [
        ("parts", "Expected `array` of length <= 2"),
        ("parts[1].size", "Expected `int` <= 8"),
    ] == [(field, rule) for field, _, rule in told({"parts": parts})]


def test_keys_and_values_of_a_mapping_are_told_by_their_path():
    assert told({"texts": {"abcd": "x", "b": 1}}) == [
        ("texts", '"abcd"', "Expected `str` of length <= 3"),
        ("texts.b", "1", "Expected `str`, got `int`"),
    ]


def test_the_choices_of_an_enum_are_told_also_where_it_may_be_null():
    assert told({"parts": [{"size": 1, "colour": "green"}]}) == [
        ("parts[0].colour", '"green"', "must be one of red, blue")
    ]


def test_what_has_another_form_altogether_is_one_fault():
    assert [("parts", "Expected `array`, got `object`")] == [
        (field, rule) for field, _, rule in told({"parts": {"size": 1}})
    ]
    assert [("either", "Expected `int | str`, got `bool`")] == [
        (field, rule) for field, _, rule in told({"either": True})
    ]
    assert [("", "Expected `object`, got `array`")] == [(f, r) for f, _, r in told([])]


def test_no_more_than_fifty_are_told_and_few_are_compared_with_known_names():
    found = told({f"field_{number}": 1 for number in range(80)})

    assert ERRORS_MAX == len(found)
    assert 10 == sum(rule != "unknown field" for _, _, rule in found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["parts", "size", "colour", "texts", "either", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


def refusal(body: bytes, decoder: msgspec.json.Decoder) -> tuple[FieldError, ...] | None:
    try:
        read_strictly(body, decoder)
    except BadInput as bad:
        return bad.errors
    return None


@given(JSON)
def test_a_body_is_refused_with_a_fault_exactly_when_it_is_refused(tree):
    errors = refusal(json.dumps(tree).encode(), msgspec.json.Decoder(Whole))

    if errors is None:
        assert [] == broken_rules(tree, Whole)
    else:
        assert errors
        assert all(one.rule for one in errors)


@pytest.mark.parametrize(
    "item",
    [
        {"spec": {**VALID, "pod_sets": [{"count": "8"}] * 16}},
        {"spec": {**VALID, "labels": {f"k{n}": 1 for n in range(60)}}},
        {"spec": VALID},
    ],
)
def test_a_large_batch_is_taken_apart_in_little_time(item):
    last = {"spec": {**VALID, "max_retries": "x"}}
    body = json.dumps({"items": [item] * 999 + [last]}).encode()
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(BatchRequest)

    def refuse() -> None:
        with pytest.raises(BadInput):
            read_strictly(body, decoder)

    assert least_cpu_seconds(refuse) < 0.5
