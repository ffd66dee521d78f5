"""A submission that cannot be read also hears which rules its sound fields break."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import msgspec
import pytest

from services.gateway.api.routes import ROUTES
from services.gateway.http.bodies import decode
from services.gateway.http.problems import Problem
from shared.events.codec import Malformed
from shared.events.registry import type_name
from shared.events.submission_reader import decode_submission
from shared.events.workloads import SubmitWorkload
from tests.support.bare_gateway import Parts, served

ROUTE = {route.name: route for route in ROUTES}


def refused(body: Any, route: str = "submit") -> list[str]:
    """The fields that are told."""
    one = ROUTE[route]
    with pytest.raises(Problem) as raised:
        decode(json.dumps(body).encode(), msgspec.json.Decoder(one.request), one.further)
    errors = json.loads(raised.value.body())["errors"]
    assert all(error["rule"] for error in errors)
    return [error["field"] for error in errors]


def spec(**more: Any) -> dict[str, Any]:
    return {"name": "a", "kind": "training", **more}


def test_rules_of_form_are_told_beside_wrong_types():
    body = spec(
        name="Not A Name",
        max_retries="x",
        labels={"muster/x": "1"},
        pod_sets=[{"count": "8"}, {"count": 0, "name": "b"}],
        grace_seconds=99_999,
    )

    assert ["max_retries", "pod_sets[0].count"] == refused(body)[:2]
    assert {"name", "labels", "pod_sets[1].count", "grace_seconds"} == set(refused(body)[2:])


def test_nothing_is_said_of_a_part_that_could_not_be_read_nor_of_what_depends_on_it():
    body = spec(pod_sets=[{"count": "8", "min_count": 4, "gpu": {"milli": 250}}])

    assert ["pod_sets[0].count"] == refused(body)


def test_what_is_missing_stands_for_no_other_fault():
    assert ["name", "kind"] == refused({"pod_sets": [{}]})
    assert ["kind", "grace_seconds"] == refused({"name": "a", "grace_seconds": -1})


@pytest.mark.parametrize("body", [[], 7, None, {"pod_sets": 7}, {"pod_sets": [7]}])
def test_what_is_no_submission_at_all_is_only_that(body):
    assert 3 >= len(refused(body))


def test_of_a_batch_each_submission_hears_of_its_own():
    items = [
        {"spec": spec(name="UPPER")},
        {"spec": spec(max_retries="x", grace_seconds=-1)},
        {"spec": spec()},
        {"spec": 7},
        7,
    ]

    assert [
        "items[1].spec.max_retries",
        "items[3].spec",
        "items[4]",
        "items[0].spec.name",
        "items[1].spec.grace_seconds",
    ] == refused({"items": items}, "submit_batch")
    assert ["items"] == refused({"items": 7}, "submit_batch")


def test_no_more_than_fifty_are_told():
    items = [{"spec": spec(name="UPPER")}] * 80 + [{"spec": 7}]

    assert 50 == len(refused({"items": items}, "submit_batch"))


def test_a_submission_by_kafka_hears_as_much():
    body = {"spec": spec(name="UPPER", max_retries="x", topology={"required": "rak"})}

    with pytest.raises(Malformed) as raised:
        decode_submission(type_name(SubmitWorkload), json.dumps(body).encode())

    fields = [one.field for one in raised.value.errors]
    assert ["spec.max_retries", "spec.topology.required", "spec.name"] == fields


async def test_a_request_hears_of_all_of_it():
    body = json.dumps(spec(name="UPPER", max_retries="x"))
    headers = {"Authorization": "Bearer k", "Content-Type": "application/json"}
    async with served(Parts()) as port, aiohttp.ClientSession() as session:
        address = f"http://127.0.0.1:{port}/v1/workloads?team=red"
        async with session.post(address, data=body, headers=headers) as reply:
            problem = await reply.json()

    assert 400 == reply.status
    assert ["max_retries", "name"] == [one["field"] for one in problem["errors"]]
