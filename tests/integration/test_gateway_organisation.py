"""Teams, queues and cohorts through the front door: documents with versions, and first keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer

from shared.events import topics
from tests.fixtures.servers import Database
from tests.support.gateway import (
    SPEC,
    Gateway,
    running_gateway,
    until,
)
from tests.support.records import first_records


@pytest.fixture
async def other_gateway(
    gateway: Gateway, kafka: str, database: Database, topic_prefix: str
) -> AsyncIterator[Gateway]:
    """A second process on the same database."""
    url = database.url("gateway")
    async with running_gateway(kafka, url, topic_prefix, gateway_shard=1) as running:
        yield running


async def test_documents_are_versioned_idempotent_and_on_the_log(gateway: Gateway):
    path = "/v1/cohorts/all"

    created = await gateway.call("PATCH", path, {}, headers={"If-None-Match": "*"})
    again = await gateway.call("PATCH", path, {}, headers={"If-None-Match": "*"})
    changed = await gateway.call(
        "PATCH", path, {"weight": 2}, headers={"If-Match": created.headers["ETag"]}
    )
    late = await gateway.call(
        "PATCH", path, {"weight": 3}, headers={"If-Match": created.headers["ETag"]}
    )
    cycle = await gateway.call("PATCH", path, {"parent": "all"})
    unknown = await gateway.call("PATCH", "/v1/queues/q", {"team": "nobody"})
    read = await gateway.call("GET", path)

    assert [201, 200, 200, 412, 400, 400] == [
        reply.status for reply in (created, again, changed, late, cycle, unknown)
    ]
    assert ('"1"', '"1"', '"2"') == tuple(
        reply.headers["ETag"] for reply in (created, again, changed)
    )
    document = {"name": "all", "version": 2, "parent": "", "weight": 2, "flavors": []}
    standing = {"share_millionths": 0, "debt_millionths": 0, "debt_told_at_ms": None}
    assert {**document, **standing} == read.body
    facts = await first_records(gateway.settings, topics.ORGANISATION_FACTS, 12)
    last = [body for _, body in facts if body["name"] == "all"]
    assert [1, 2] == [body["version"] for body in last]


async def test_parallel_writers_of_one_document_lose_no_version(gateway: Gateway):
    replies = await asyncio.gather(
        *(gateway.call("PATCH", "/v1/cohorts/c", {"weight": weight}) for weight in range(1, 6))
    )
    read = await gateway.call("GET", "/v1/cohorts/c")

    accepted = [reply for reply in replies if reply.status in (200, 201)]
    assert {200, 201, 503} >= {reply.status for reply in replies}
    assert len(accepted) == read.body["version"]


async def test_of_two_writers_at_once_none_makes_a_tree_that_the_other_would_not_have(
    gateway: Gateway, other_gateway: Gateway
):
    for name in ("a", "b"):
        await gateway.call("PATCH", f"/v1/cohorts/{name}", {})
    names, statuses, root = [], [], {"parent": None}
    for number in range(5):
        a, b = await asyncio.gather(
            gateway.call("PATCH", "/v1/cohorts/a", {"parent": "b"}),
            other_gateway.call("PATCH", "/v1/cohorts/b", {"parent": "a"}),
        )
        queue = {"team": "red"}
        queued, grouped = await asyncio.gather(
            other_gateway.call("PATCH", f"/v1/queues/x{number}", queue),
            gateway.call("PATCH", f"/v1/cohorts/x{number}", {}),
        )
        statuses.append(sorted((a.status, b.status)))
        names.append(sorted((queued.status, grouped.status)))
        for name in ("a", "b"):
            assert 200 == (await gateway.call("PATCH", f"/v1/cohorts/{name}", root)).status

    assert [[200, 400]] * 5 == statuses
    assert [[201, 400]] * 5 == names


async def test_a_team_that_submits_by_kafka_gets_its_topics_before_it_exists(gateway: Gateway):
    reply = await gateway.call("PATCH", "/v1/teams/green", {})
    consumer = AIOKafkaConsumer(bootstrap_servers=gateway.settings.kafka_bootstrap)
    prefix = gateway.settings.topic_prefix
    wanted = {
        topic.on_broker(prefix)
        for topic in (topics.team_submissions("green"), topics.team_results("green"))
    }

    async def created() -> bool:
        return wanted <= set(await consumer.topics())

    await consumer.start()
    try:
        assert await until(created)
    finally:
        await consumer.stop()
    assert (201, "green") == (reply.status, reply.body["default_queue"])


async def test_a_new_team_can_begin_at_once(gateway: Gateway, database: Database):
    made = await gateway.call("PATCH", "/v1/teams/green", {"kafka": False})
    again = await gateway.call("PATCH", "/v1/teams/green", {"kafka": False})
    changed = await gateway.call("PATCH", "/v1/teams/green", {"kafka": False, "max_pending": 7})
    key = made.body["key"]
    queue = await gateway.call("GET", "/v1/queues/green", key=key)
    submitted = await gateway.call("POST", "/v1/workloads", SPEC, key=key)
    keys = await gateway.call("GET", "/v1/teams/green/keys")
    facts = await first_records(gateway.settings, topics.ORGANISATION_FACTS, 13)

    assert [201, 200, 200] == [reply.status for reply in (made, again, changed)]
    assert "no-store" == made.headers["Cache-Control"]
    assert "key" not in again.body
    assert "key" not in changed.body
    assert (200, "green", []) == (queue.status, queue.body["team"], queue.body["flavors"])
    assert 202 == submitted.status
    assert [("first", "member")] == [(one["label"], one["role"]) for one in keys.body["items"]]
    green = [
        (headers["ce_type"].decode().split(".")[1], body["version"])
        for headers, body in facts
        if body["name"] == "green"
    ]
    assert [("team", 1), ("queue", 1), ("team", 2)] == green
    audit = database.execute("SELECT before || after || subject FROM gateway.audit")
    assert key.split("_", 2)[2] not in audit


async def test_a_queue_that_exists_is_left_as_it_is(gateway: Gateway):
    body = {"kafka": False, "default_queue": "green"}
    await gateway.call("PATCH", "/v1/teams/green", body)
    await gateway.call("PATCH", "/v1/queues/green", {"team": "green", "weight": 3})
    await gateway.call("PATCH", "/v1/teams/green", {**body, "max_pending": 3})

    taken = await gateway.call(
        "PATCH", "/v1/teams/grey", {"kafka": False, "default_queue": "green"}
    )
    moved = await gateway.call("PATCH", "/v1/teams/green", {**body, "default_queue": "other"})
    queues = await gateway.call("GET", "/v1/queues?team=green")

    assert (400, "default_queue") == (taken.status, taken.body["errors"][0]["field"])
    assert 200 == moved.status
    weights = {one["name"]: one["weight"] for one in queues.body["items"]}
    assert {"green": 3, "other": 1} == weights


async def test_parallel_makers_of_one_team_get_one_key(gateway: Gateway):
    replies = await asyncio.gather(
        *(gateway.call("PATCH", "/v1/teams/green", {"kafka": False}) for _ in range(5))
    )
    keys = await gateway.call("GET", "/v1/teams/green/keys")

    assert [200, 200, 200, 200, 201] == sorted(reply.status for reply in replies)
    assert 1 == len([reply for reply in replies if "key" in reply.body])
    assert 1 == len(keys.body["items"])
