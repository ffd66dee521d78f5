"""The promises of the HTTP interface, asked of a running gateway."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate

from services.gateway.api.openapi import document
from services.gateway.api.routes import ROUTES
from services.gateway.documents.keys import mint
from services.gateway.http.authorisation import NEEDS, RANK, Role
from services.gateway.http.route import Route
from tests.fixtures.servers import Database
from tests.support.gateway import SPEC, Gateway, Reply, running_gateway

GUARDED = [route for route in ROUTES if route.action is not None and route.path != "/metrics"]
BODIES: dict[str, Any] = {
    "submit": SPEC,
    "submit_batch": {"items": [{"spec": SPEC}]},
    "command_reprioritise": {"priority_class": "training-batch"},
    "command_resize": {"pods": 2},
    "exec": {"command": ["true"]},
    "create_key": {"role": "viewer"},
    "put_teams": {"kafka": False, "max_pending": 9},
    "put_queues": {"team": "red"},
    "put_priority_classes": {"value": 5},
    "bulk_reprioritise": {"queue": "red", "priority_class": "training-batch"},
    "bulk_resize": {"queue": "red", "pods": 2},
}


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as running:
        await running.organise("red", "blue")
        yield running


def address(route: Route, identifier: str, name: str = "red") -> str:
    """A path of the route with its parts filled in."""
    parts = {"id": identifier, "name": name, "prefix": "aaaaaaaa"}
    return re.sub(r"{(\w+)}", lambda match: parts[match[1]], route.path)


def body_of(route: Route) -> Any:
    """A body that the route accepts."""
    if not route.request:
        return None
    otherwise: Any = {"queue": "red"} if route.name.startswith("bulk_") else {}
    return BODIES.get(route.name, otherwise)


async def ask(gateway: Gateway, route: Route, key: str, identifier: str, name: str) -> Reply:
    return await gateway.call(
        route.method, address(route, identifier, name), body_of(route), key=key
    )


async def test_no_route_answers_without_a_valid_key(gateway: Gateway):
    forged = ["", "x", "mk_aaaaaaaa_" + "A" * 43, mint(os.urandom).text, "' OR 1=1 --", "s" * 64]

    replies = {
        (route.name, key): await ask(gateway, route, key, "w1", "red")
        for route in GUARDED
        for key in forged
    }

    assert {401} == {reply.status for reply in replies.values()}
    types = {reply.headers["Content-Type"] for reply in replies.values()}
    assert {"application/problem+json"} == types


@pytest.mark.parametrize("scheme", ["Basic", "bearerx", ""])
async def test_no_other_scheme_is_taken(gateway: Gateway, scheme: str):
    headers = {"Authorization": f"{scheme} {gateway.operator_key}".strip()}

    reply = await gateway.call("GET", "/v1/nodes", key="", headers=headers)

    assert 401 == reply.status


async def test_every_role_gets_exactly_the_routes_that_are_his(gateway: Gateway):
    made = await gateway.call("POST", "/v1/workloads?team=red", SPEC)
    for role in (Role.VIEWER, Role.MEMBER, Role.ADMIN):
        key = await gateway.key("red", role)
        for route in GUARDED:
            reply = await ask(gateway, route, key, made.body["id"], "red")
            assert route.action is not None
            allowed = RANK[role] >= RANK[NEEDS[route.action]]
            assert (reply.status not in (401, 403)) == allowed, (role, route.name, reply.body)
            assert reply.status < 500, (role, route.name, reply.body)


async def test_metrics_are_for_operators_and_for_the_machine_itself(gateway: Gateway):
    admin = await gateway.key("red", "admin")

    replies = [
        await gateway.call("GET", "/metrics", key=key)
        for key in (admin, gateway.operator_key, "", "x")
    ]

    assert [403, 200, 200, 401] == [reply.status for reply in replies]
    assert 'muster_http_requests_total{route="create_key",status="201"}' in replies[1].body


async def test_what_belongs_to_another_team_is_not_found(gateway: Gateway):
    made = await gateway.call("POST", "/v1/workloads?team=red", SPEC)
    key = await gateway.key("blue", "admin")
    shared = ("flavors", "cohorts", "priority-classes", "nodes")

    for route in GUARDED:
        about_one = "{" in route.path and route.path.split("/")[2] not in shared
        if about_one and NEEDS[route.action] is not Role.OPERATOR:  # type: ignore[index]
            reply = await ask(gateway, route, key, made.body["id"], "red")
            assert 404 == reply.status, (route.name, reply.body)
    listed = await gateway.call("GET", "/v1/workloads", key=key)
    asked = await gateway.call("GET", "/v1/workloads?team=red", key=key)
    for_red = await gateway.call("POST", "/v1/workloads?team=red", SPEC, key=key)

    assert ([], 404, 404) == (listed.body["items"], asked.status, for_red.status)


async def test_every_answer_has_the_form_that_the_description_says(gateway: Gateway):
    made = await gateway.call("POST", "/v1/workloads?team=red", SPEC)
    paths, components = document()["paths"], document()["components"]

    for route in GUARDED:
        reply = await ask(gateway, route, gateway.operator_key, made.body["id"], "red")
        described = paths[route.path][route.method.lower()]["responses"]
        assert str(reply.status) in described, (route.name, reply.status, reply.body)
        headers = described[str(reply.status)].get("headers", {})
        assert set() == {name for name in headers if name not in reply.headers}, route.name
        content = described[str(reply.status)].get("content", {}).get("application/json")
        if content:
            schema = {**content["schema"], "components": components}
            errors = jsonschema.Draft202012Validator(schema).iter_errors(reply.body)
            assert [] == [error.message for error in errors], (route.name, reply.body)


def test_the_description_is_valid_openapi():
    validate(document())


async def test_the_form_of_a_request_is_checked_before_anything_else(gateway: Gateway):
    key = await gateway.key("red", "member")
    url = f"{gateway.address}/v1/workloads"
    good = json.dumps(SPEC).encode()
    json_type = {"Content-Type": "application/json"}

    async def status(data: bytes, headers: dict[str, str], method: str = "POST") -> int:
        sent = {"Authorization": f"Bearer {key}", **headers}
        async with gateway.http.request(method, url, data=data, headers=sent) as response:
            answer = await response.json(content_type=None)
            assert response.status < 300 or answer["status"] == response.status
            return response.status

    assert 202 == await status(good, json_type)
    assert 202 == await status(good, {"Content-Type": "application/json; charset=utf-8"})
    assert 415 == await status(good, {"Content-Type": "text/plain"})
    assert 415 == await status(good, {**json_type, "Content-Encoding": "gzip"})
    assert 413 == await status(b" " * 65_537, json_type)
    assert 400 == await status(b"\x00", json_type)
    assert 405 == await status(b"", {}, "DELETE")
    assert 400 == await status(good, {**json_type, "Idempotency-Key": "k" * 201})
    assert 400 == await status(b'{"name":"a","kind":"training","team":"blue"}', json_type)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=%D9%A8",
        "limit=99999999999999999999",
        "state=nowhere",
        "cursor=%00",
        "cursor=w",
    ],
)
async def test_a_bad_parameter_is_named(gateway: Gateway, query: str):
    reply = await gateway.call("GET", f"/v1/workloads?{query}")

    assert 400 == reply.status
    assert query.split("=", maxsplit=1)[0] == reply.body["errors"][0]["field"]


async def test_strange_paths_and_values_are_never_an_error_of_ours(gateway: Gateway):
    made = await gateway.call("POST", "/v1/workloads?team=red", SPEC)
    strange = ["%00", "%ff", "%F0%9F%92%A9", "a" * 3000, "..%2f..%2fetc", "'", "%0d%0aX:1", "%ud8"]

    for text in strange:
        for path in (
            f"/v1/workloads/{text}",
            f"/v1/workloads?name={text}",
            f"/v1/workloads?label={text}",
            f"/v1/workloads?label=a={text}",
            f"/v1/nodes/{text}",
            f"/v1/nodes?flavor={text}&cursor={text}",
            f"/v1/queues/{text}",
            f"/v1/events?team={text}",
            f"/v1/workloads/{made.body['id']}/events?after={text}",
        ):
            reply = await gateway.call("GET", path)
            assert reply.status < 500, (path, reply.status, reply.body)
        put = await gateway.call("PATCH", f"/v1/flavors/{text}", {})
        assert put.status in (400, 404), (text, put.status)


async def test_a_request_cut_off_in_the_middle_disturbs_nobody(gateway: Gateway):
    port = gateway.settings.http_port
    head = (
        b"POST /v1/workloads HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + gateway.operator_key.encode() + b"\r\n"
        b"Content-Length: 500\r\n\r\n{"
    )
    writers = []
    for _ in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head)
        writers.append(writer)
    await asyncio.gather(*(writer.drain() for writer in writers))

    reply = await gateway.call("POST", "/v1/workloads?team=red", SPEC)
    for writer in writers:
        writer.transport.abort()
    after = await gateway.call("GET", "/readyz", key="")

    assert (202, 200) == (reply.status, after.status)
