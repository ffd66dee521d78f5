"""Both doors read alike: what poisons is refused by HTTP and Kafka, with the same words."""

from functools import partial
from typing import Any

import msgspec
import pytest

from services.gateway.http.bodies import decode
from services.gateway.http.problems import Problem
from services.gateway.submissions.submission_views import SpecRequest
from shared.events.codec import Malformed
from shared.events.registry import type_name
from shared.events.submission_reader import decode_submission
from shared.events.workloads import SubmitWorkload
from tests.support.untrusted import CORPUS, VALID, least_cpu_seconds, of, with_raw

SPEC: msgspec.json.Decoder[Any] = msgspec.json.Decoder(SpecRequest)
CPU_SECONDS_MAX = 0.05


def by_http(spec: bytes):
    with pytest.raises(Problem) as raised:
        decode(spec, SPEC)
    assert 400 == raised.value.status
    assert raised.value.body()
    return raised.value.document.errors


def by_kafka(spec: bytes):
    with pytest.raises(Malformed) as raised:
        decode_submission(type_name(SubmitWorkload), b'{"spec":' + spec + b"}")
    assert msgspec.json.encode(raised.value.errors)
    return raised.value.errors


@pytest.mark.parametrize("name", CORPUS)
def test_what_poisons_is_refused_by_both_doors_at_once_and_told_alike(name):
    spec, field = CORPUS[name]

    http, kafka = by_http(spec), by_kafka(spec)

    for door in (by_http, by_kafka):
        assert least_cpu_seconds(partial(door, spec)) < CPU_SECONDS_MAX
    assert http[0].field == field or not field
    assert kafka[0].field in {field, f"spec.{field}"} or not field
    if field:
        assert http[0].rule.partition(";")[0] == kafka[0].rule.partition(";")[0]
    assert http[0].rule
    assert kafka[0].rule
    assert len(http) <= 50


@pytest.mark.parametrize(
    "spec",
    [
        of(),
        of(labels={"a": "x:y", "b": 'say \\"hi\\": {["'}),
        of(labels={"a": "gr\u00fc\u00df Gott"}),
        with_raw("labels", b'{ "a" :\t"b" }\n'),
        of(pod_sets=[{"gpu": {"count": 1}} for _ in range(15)]),
    ],
)
def test_what_is_good_passes_both_doors(spec):
    request = decode(spec, SPEC)
    payload = decode_submission(type_name(SubmitWorkload), b'{"spec":' + spec + b"}")

    assert isinstance(payload, SubmitWorkload)
    assert VALID["name"] == request.name == payload.spec.name
    assert request.labels == payload.spec.labels


def test_a_type_that_is_no_submission_is_told_what_is_taken():
    with pytest.raises(Malformed) as raised:
        decode_submission("muster.workload.placed.v1", b"{}")

    (error,) = raised.value.errors
    assert ("ce_type", "muster.workload.placed.v1") == (error.field, error.value)
    assert "muster.submit.workload.v1" in error.rule


def test_a_record_without_a_value_is_told_so():
    with pytest.raises(Malformed) as raised:
        decode_submission(type_name(SubmitWorkload), None)

    assert "must be present" in raised.value.errors[0].rule
