"""What a body may not contain, and that the answer says where, what and what is allowed."""

import json
from typing import Any

import msgspec
import pytest

from services.gateway.documents.documents import BY_PATH
from services.gateway.documents.key_views import KeyRequest
from services.gateway.http.bodies import BODY_BYTES_MAX, decode, decode_object
from services.gateway.http.problems import Problem
from services.gateway.submissions.submission_views import BatchRequest, SpecRequest
from services.gateway.workloads.command_views import EvictRequest, NodeRequest, Selection
from tests.support.untrusted import least_cpu_seconds

SPEC: msgspec.json.Decoder[Any] = msgspec.json.Decoder(SpecRequest)
VALID = {"name": "a", "kind": "training"}


def refused(body: bytes, decoder: msgspec.json.Decoder = SPEC) -> list[tuple[str, str, str]]:
    """Field, value and rule of every error; fails when the body is accepted."""
    with pytest.raises(Problem) as raised:
        decode(body, decoder)
    assert raised.value.status == 400
    document = json.loads(raised.value.body())
    return [(one["field"], one["value"], one["rule"]) for one in document["errors"]]


def of(**fields: object) -> bytes:
    return json.dumps({**VALID, **fields}).encode()


def test_a_valid_body_is_decoded_with_its_defaults():
    spec = decode(of(pod_sets=[{"gpu": {"count": 8}}]), SPEC)

    assert (spec.name, spec.pod_sets[0].gpu.count, spec.max_retries) == ("a", 8, 3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff",
        b'{"name":"\\u0000","kind":"training"}',
        b'{"name":"\x00","kind":"training"}',
        b'{"name":"\\ud800","kind":"training"}',
        b'{"name":"\xed\xa0\x80","kind":"training"}',
        b'{"name":"a","kind":"training","model_parameters_billions":NaN}',
        b'{"name":"a","kind":"training","model_parameters_billions":-Infinity}',
        b'{"name":"a","kind":"training","model_parameters_billions":1e400}',
        b'{"name":"a","kind":"training","max_retries":' + b"9" * 5000 + b"}",
        b'{"name":"a","kind":"training","max_retries":' + b"9" * 30 + b"}",
        b'{"\\ud800":1,"\\ud800":2}',
        b"[" * 50_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"[" * 21 + b"]" * 21 + b"[]" * 30_000,
        b"[" * 21 + b'"' + b'\\"' * 32_000,
        b"[" * 21 + b'"' + b'\\\n"' * 16_000,
        b"null",
        b"[]",
        b'"text"',
    ],
)
def test_what_would_poison_the_log_or_the_database_ends_here_and_fast(body):
    assert refused(body)

    assert least_cpu_seconds(lambda: refused(body)) < 0.05


def test_twenty_levels_are_enough_and_twenty_one_too_many():
    nested: object = 1
    for _ in range(19):
        nested = [nested]

    at_the_limit = refused(of(labels=nested))
    beyond = refused(of(labels=[nested]))

    assert "nested" not in at_the_limit[0][2]
    assert "nested deeper than 20" in beyond[0][2]


def test_brackets_inside_of_strings_are_no_levels():
    spec = decode(of(labels={"a": "[" * 100, "b": '\\"' + "{" * 50}), SPEC)

    assert spec.labels["a"] == "[" * 100


def test_every_unknown_field_is_told_with_the_nearest_name():
    body = of(pod_sets=[{"gpus": {"count": 1}}, {"gpu": {"cuont": 1}}], quue="x")

    assert refused(body) == [
        ("pod_sets[0].gpus", '{"count": 1}', "unknown field; the nearest is gpu"),
        ("pod_sets[1].gpu.cuont", "1", "unknown field; the nearest is count"),
        ("quue", '"x"', "unknown field; the nearest is queue"),
    ]


def test_a_field_in_the_wrong_place_is_told_where_it_belongs():
    body = of(
        topology={"spread": "required"},
        pod_sets=[{"gpu": {"products": ["H100"]}, "milli": 1}],
        required="rack",
    )

    assert [(field, rule) for field, _, rule in refused(body)] == [
        ("topology.spread", "unknown field; it is written spread"),
        ("pod_sets[0].gpu.products", "unknown field; it is written gpu_choice.products"),
        ("pod_sets[0].milli", "unknown field; it is written pod_sets[].gpu.milli"),
        ("required", "unknown field; it is written topology.required"),
    ]


def test_the_beginning_of_a_name_is_told_the_rest_before_the_same_name_elsewhere():
    ((field, _, rule),) = refused(of(gpu_choice={"preferred": {"H100": 1}}))

    assert (field, rule) == (
        "gpu_choice.preferred",
        "unknown field; the nearest is preferred_products",
    )


def test_an_unknown_field_like_no_other_is_told_with_all_that_there_are():
    ((field, _, rule),) = refused(of(pod_sets=[{"gpu": {"vendor": 1}}]))

    assert field == "pod_sets[0].gpu.vendor"
    assert rule.startswith("unknown field; there are: count, milli, ")


@pytest.mark.parametrize("field", ["nodeName", "team", "priority", "epoch", "hostNetwork"])
def test_what_identity_decides_cannot_be_sent(field):
    assert refused(of(**{field: "x"}))[0][0] == field


def test_a_field_given_twice_is_refused():
    body = b'{"name":"a","name":"b","kind":"training"}'

    assert refused(body) == [("name", "name", "must not be given twice")]


@pytest.mark.parametrize(
    ("fields", "field", "value"),
    [
        ({"pod_sets": [{"count": True}]}, "pod_sets[0].count", "true"),
        ({"pod_sets": [{"count": "8"}]}, "pod_sets[0].count", '"8"'),
        ({"pod_sets": [{"count": 2.5}]}, "pod_sets[0].count", "2.5"),
        ({"pod_sets": [{"count": 4097}]}, "pod_sets[0].count", "4097"),
        ({"name": 5}, "name", "5"),
        ({"labels": ["a"]}, "labels", '["a"]'),
        ({"preemptible": 1}, "preemptible", "1"),
        ({"queue": "q" * 254}, "queue", '"' + "q" * 119),
        ({"max_retries": 2**60}, "max_retries", str(2**60)),
    ],
)
def test_a_wrong_value_is_told_with_its_path(fields, field, value):
    ((told_field, told_value, rule),) = refused(of(**fields))

    assert (told_field, told_value) == (field, value)
    assert rule


def test_a_wrong_choice_is_told_with_the_choices():
    ((field, _, rule),) = refused(of(topology={"required": "rak"}))

    assert field == "topology.required"
    assert rule == "must be one of node, nvlink-domain, rack, block, zone"


def test_every_missing_field_of_a_document_is_named():
    errors = refused(
        b'{"team":"red","held":true}', msgspec.json.Decoder(BY_PATH["queues"].request)
    )

    assert [field for field, _, rule in errors if rule == "is required"] == [
        "cohort",
        "strict",
        "weight",
        "flavors",
        "draining",
        "policy",
    ]


def test_missing_fields_are_named_at_every_depth():
    batch = msgspec.json.Decoder(BatchRequest)

    errors = refused(b'{"items":[{"spec":{"name":"a","pod_sets":[{}]}},{}]}', batch)

    assert ("items[0].spec.kind", "", "is required") in errors
    assert ("items[1].spec", "", "is required") in errors


@pytest.mark.parametrize("body", [b"[]", b"null", b"7", b'"a"'])
def test_what_is_to_be_merged_must_be_an_object(body: bytes):
    with pytest.raises(Problem) as raised:
        decode_object(body)

    assert (raised.value.status, str(raised.value)) == (400, ": must be a JSON object")


def test_what_is_to_be_merged_has_no_key_twice():
    with pytest.raises(Problem) as raised:
        decode_object(b'{"held":true,"held":false}')

    assert str(raised.value) == "held: must not be given twice"


def test_a_missing_field_is_named_with_its_path():
    decoder = msgspec.json.Decoder(BatchRequest)

    errors = refused(b'{"items":[{"spec":{"kind":"training"}}]}', decoder)

    assert errors == [("items[0].spec.name", "", "is required")]


def test_a_batch_of_more_than_a_thousand_is_refused():
    decoder = msgspec.json.Decoder(BatchRequest)
    items = [{"spec": VALID}] * 1001

    ((field, _, rule),) = refused(json.dumps({"items": items}).encode(), decoder)

    assert (field, "1000" in rule) == ("items", True)


@pytest.mark.parametrize("key", ["abc\n", "\n", "a\nb", "", "é", "a" * 201])
def test_a_key_of_a_batch_is_printable_to_its_end(key):
    decoder = msgspec.json.Decoder(BatchRequest)
    items = [{"spec": VALID, "idempotency_key": key}]

    ((field, value, rule),) = refused(json.dumps({"items": items}).encode(), decoder)

    assert (field, value) == ("items[0].idempotency_key", json.dumps(key)[:120])
    assert rule


@pytest.mark.parametrize("key", ["a", " a ~", "a" * 200])
def test_a_printable_key_of_a_batch_is_taken(key):
    decoder = msgspec.json.Decoder(BatchRequest)
    items = [{"spec": VALID, "idempotency_key": key}]

    read = decode(json.dumps({"items": items}).encode(), decoder)

    assert [key] == [one.idempotency_key for one in read.items]


def test_the_limit_of_a_body_is_64_kib():
    assert BODY_BYTES_MAX == 65_536


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[2Jevil",
        "two\nlines",
        "at the end\n",
        "bell\x07",
        "\x7f",
        "\x9b8m",
        "\u2028",
        "\u202elive",
    ],
)
@pytest.mark.parametrize(
    ("request_type", "field", "others"),
    [
        (KeyRequest, "label", {"role": "member"}),
        (EvictRequest, "note", {}),
        (NodeRequest, "note", {}),
        (Selection, "note", {}),
        (Selection, "queue", {}),
    ],
)
def test_what_others_read_on_a_terminal_has_no_control_characters(
    request_type, field, others, text
):
    body = json.dumps({**others, field: text}).encode()

    found = refused(body, msgspec.json.Decoder(request_type))

    assert found == [(field, json.dumps(text), "must be printable characters")]


def test_words_of_any_language_are_printable():
    body = json.dumps({"note": "Lüfter getauscht — ファン 🛠 €"}).encode()

    assert decode(body, msgspec.json.Decoder(NodeRequest)).note.endswith("🛠 €")
