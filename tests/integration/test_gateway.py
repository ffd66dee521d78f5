"""The gateway on a real broker and a real database, through its own front door."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from shared.events import topics
from shared.events.envelope import workload_id
from shared.ports.errors import UnknownCommit
from tests.fixtures.servers import Database
from tests.support.gateway import (
    SPEC,
    Gateway,
    running_gateway,
    until,
)


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as running:
        await running.organise("red", "blue")
        yield running


async def _commands(gateway: Gateway, count: int, topic: topics.Topic) -> list[tuple[dict, dict]]:
    """The first `count` records of partition 0: headers and JSON."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=gateway.settings.kafka_bootstrap, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic.on_broker(gateway.settings.topic_prefix), 0)])
        found: list[tuple[dict, dict]] = []
        async with asyncio.timeout(10):
            while len(found) < count:
                record = await consumer.getone()
                found.append((dict(record.headers), json.loads(record.value)))
        return found
    finally:
        await consumer.stop()


async def test_a_submission_is_durable_readable_and_on_the_log_once_it_is_accepted(
    gateway: Gateway,
):
    key = await gateway.key("red", "member")

    reply = await gateway.call(
        "POST", "/v1/workloads", SPEC, key=key, headers={"Idempotency-Key": "one"}
    )
    found = await gateway.call("GET", reply.headers["Location"], key=key)
    ((headers, command),) = await _commands(gateway, 1, topics.SUBMISSION_COMMANDS)

    expected = workload_id("red", "one")
    assert (202, expected) == (reply.status, reply.body["id"])
    assert ("received", "red", "red") == tuple(
        found.body[name] for name in ("state", "team", "queue")
    )
    assert SPEC["name"] == found.body["spec"]["name"]
    assert b"gateway" == headers["ce_source"]
    assert (expected, "red", "http") == (
        command["workload_id"],
        command["team"],
        command.get("door", "http"),
    )


async def test_the_same_key_is_a_replay_and_with_another_body_a_conflict(gateway: Gateway):
    key = await gateway.key("red", "member")
    options: dict = {"key": key, "headers": {"Idempotency-Key": "k"}}

    first = await gateway.call("POST", "/v1/workloads", SPEC, **options)
    again = await gateway.call("POST", "/v1/workloads", {**SPEC, "queue": ""}, **options)
    other = await gateway.call("POST", "/v1/workloads", {**SPEC, "name": "other"}, **options)

    assert (202, 202, 422) == (first.status, again.status, other.status)
    assert first.body == again.body
    assert "true" == again.headers["Idempotency-Replayed"]
    assert "urn:muster:problem:idempotency-conflict" == other.body["type"]


async def test_the_same_key_in_parallel_gives_one_workload(gateway: Gateway, database: Database):
    key = await gateway.key("red", "member")

    replies = await asyncio.gather(
        *(
            gateway.call(
                "POST", "/v1/workloads", SPEC, key=key, headers={"Idempotency-Key": "same"}
            )
            for _ in range(20)
        )
    )

    assert {202} == {reply.status for reply in replies}
    assert 1 == len({reply.body["id"] for reply in replies})
    assert "1" == database.execute("SELECT count(*) FROM gateway.accepted_request").strip()
    assert (
        "1"
        == database.execute(
            "SELECT count(*) FROM gateway.outbox WHERE topic = 'submission.commands.v1'"
        ).strip()
    )


async def test_a_queue_of_another_team_is_refused_with_field_value_and_rule(gateway: Gateway):
    key = await gateway.key("red", "member")

    reply = await gateway.call("POST", "/v1/workloads", {**SPEC, "queue": "blue"}, key=key)

    assert 400 == reply.status
    assert [
        {"field": "queue", "value": "blue", "rule": "is not a queue of team red"}
    ] == reply.body["errors"]


async def test_a_workload_of_another_team_does_not_exist_for_the_caller(gateway: Gateway):
    red, blue = await gateway.key("red", "member"), await gateway.key("blue", "admin")
    made = await gateway.call("POST", "/v1/workloads", SPEC, key=red)
    path = f"/v1/workloads/{made.body['id']}"

    replies = [
        await gateway.call(method, path + tail, body, key=blue)
        for method, tail, body in (
            ("GET", "", None),
            ("GET", "/why", None),
            ("GET", "/events", None),
            ("POST", "/cancel", {}),
            ("POST", "/evict", {}),
        )
    ]
    unknown = await gateway.call("GET", "/v1/workloads/wnone", key=blue)

    assert [404, 404, 404, 404, 403] == [reply.status for reply in replies]
    assert 404 == unknown.status


async def test_a_batch_is_accepted_together_and_a_bad_item_refuses_it_all(gateway: Gateway):
    key = await gateway.key("red", "member")
    items = [{"spec": {**SPEC, "name": f"n{number}"}} for number in range(30)]
    bad = [*items, {"spec": {**SPEC, "name": "Not a name"}}]

    good = await gateway.call("POST", "/v1/workloads:batch", {"items": items}, key=key)
    refused = await gateway.call("POST", "/v1/workloads:batch", {"items": bad}, key=key)
    listed = await gateway.call("GET", "/v1/workloads?limit=1000", key=key)

    assert (202, 30) == (good.status, len({item["id"] for item in good.body["items"]}))
    assert (400, "items[30].spec.name") == (refused.status, refused.body["errors"][0]["field"])
    assert 30 == len(listed.body["items"])


async def test_pages_of_a_list_show_every_workload_once(gateway: Gateway):
    key = await gateway.key("red", "member")
    items = [
        {"spec": {**SPEC, "name": f"n{number}", "labels": {"odd": str(number % 2)}}}
        for number in range(25)
    ]
    await gateway.call("POST", "/v1/workloads:batch", {"items": items}, key=key)

    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        page = await gateway.call(
            "GET", f"/v1/workloads?limit=7&state=received&cursor={cursor}", key=key
        )
        seen += [item["id"] for item in page.body["items"]]
        cursor = page.body["next_cursor"]
        if not cursor:
            break
    odd = await gateway.call("GET", "/v1/workloads?label=odd=1", key=key)
    broken = await gateway.call("GET", "/v1/workloads?cursor=xyz", key=key)

    assert (25, 25) == (len(seen), len(set(seen)))
    assert 12 == len(odd.body["items"])
    assert (400, "cursor") == (broken.status, broken.body["errors"][0]["field"])


async def test_commands_are_durable_on_the_log_behind_the_submission(gateway: Gateway):
    key = await gateway.key("red", "member")
    made = await gateway.call("POST", "/v1/workloads", {**SPEC, "labels": {"a": "b"}}, key=key)
    path = f"/v1/workloads/{made.body['id']}"

    held = await gateway.call("POST", f"{path}/hold", key=key)
    moved = await gateway.call(
        "POST", f"{path}/reprioritise", {"priority_class": "training-batch"}, key=key
    )
    wrong = await gateway.call("POST", f"{path}/reprioritise", {"priority_class": "nope"}, key=key)
    bulk = await gateway.call("POST", "/v1/workloads:cancel", {"labels": {"a": "b"}}, key=key)
    nothing = await gateway.call("POST", "/v1/workloads:cancel", {}, key=key)
    evicted = await gateway.call("POST", f"{path}/evict", {"reason": "drain"})
    commands = await _commands(gateway, 5, topics.SUBMISSION_COMMANDS)

    assert [202, 202, 400, 202, 400, 202] == [
        reply.status for reply in (held, moved, wrong, bulk, nothing, evicted)
    ]
    assert [made.body["id"]] == bulk.body["ids"]
    types = [headers["ce_type"] for headers, _ in commands]
    assert 5 == len(set(types))
    assert "drain" == commands[4][1]["reason"]


async def test_documents_are_versioned_idempotent_and_on_the_log(gateway: Gateway):
    path = "/v1/cohorts/all"

    created = await gateway.call("PUT", path, {}, headers={"If-None-Match": "*"})
    again = await gateway.call("PUT", path, {}, headers={"If-None-Match": "*"})
    changed = await gateway.call(
        "PUT", path, {"weight": 2}, headers={"If-Match": created.headers["ETag"]}
    )
    late = await gateway.call(
        "PUT", path, {"weight": 3}, headers={"If-Match": created.headers["ETag"]}
    )
    cycle = await gateway.call("PUT", path, {"parent": "all"})
    unknown = await gateway.call("PUT", "/v1/queues/q", {"team": "nobody"})
    read = await gateway.call("GET", path)

    assert [201, 200, 200, 412, 400, 400] == [
        reply.status for reply in (created, again, changed, late, cycle, unknown)
    ]
    assert ('"1"', '"1"', '"2"') == tuple(
        reply.headers["ETag"] for reply in (created, again, changed)
    )
    document = {"name": "all", "version": 2, "parent": "", "weight": 2, "flavors": []}
    assert {**document, "share_millionths": 0} == read.body
    facts = await _commands(gateway, 12, topics.ORGANISATION_FACTS)
    last = [body for _, body in facts if body["name"] == "all"]
    assert [1, 2] == [body["version"] for body in last]


async def test_parallel_writers_of_one_document_lose_no_version(gateway: Gateway):
    replies = await asyncio.gather(
        *(gateway.call("PUT", "/v1/cohorts/c", {"weight": weight}) for weight in range(1, 6))
    )
    read = await gateway.call("GET", "/v1/cohorts/c")

    accepted = [reply for reply in replies if reply.status in (200, 201)]
    assert {200, 201, 503} >= {reply.status for reply in replies}
    assert len(accepted) == read.body["version"]


async def test_a_team_that_submits_by_kafka_gets_its_topics_before_it_exists(gateway: Gateway):
    reply = await gateway.call("PUT", "/v1/teams/green", {})
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
    made = await gateway.call("PUT", "/v1/teams/green", {"kafka": False})
    again = await gateway.call("PUT", "/v1/teams/green", {"kafka": False})
    changed = await gateway.call("PUT", "/v1/teams/green", {"kafka": False, "max_pending": 7})
    key = made.body["key"]
    queue = await gateway.call("GET", "/v1/queues/green", key=key)
    submitted = await gateway.call("POST", "/v1/workloads", SPEC, key=key)
    keys = await gateway.call("GET", "/v1/teams/green/keys")
    facts = await _commands(gateway, 13, topics.ORGANISATION_FACTS)

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
    await gateway.call("PUT", "/v1/teams/green", body)
    await gateway.call("PUT", "/v1/queues/green", {"team": "green", "weight": 3})
    await gateway.call("PUT", "/v1/teams/green", {**body, "max_pending": 3})

    taken = await gateway.call("PUT", "/v1/teams/grey", {"kafka": False, "default_queue": "green"})
    moved = await gateway.call("PUT", "/v1/teams/green", {**body, "default_queue": "other"})
    queues = await gateway.call("GET", "/v1/queues?team=green")

    assert (400, "default_queue") == (taken.status, taken.body["errors"][0]["field"])
    assert 200 == moved.status
    weights = {one["name"]: one["weight"] for one in queues.body["items"]}
    assert {"green": 3, "other": 1} == weights


async def test_parallel_makers_of_one_team_get_one_key(gateway: Gateway):
    replies = await asyncio.gather(
        *(gateway.call("PUT", "/v1/teams/green", {"kafka": False}) for _ in range(5))
    )
    keys = await gateway.call("GET", "/v1/teams/green/keys")

    assert [200, 200, 200, 200, 201] == sorted(reply.status for reply in replies)
    assert 1 == len([reply for reply in replies if "key" in reply.body])
    assert 1 == len(keys.body["items"])


async def test_a_team_gets_no_more_than_it_may_have_alive(gateway: Gateway):
    body = {"kafka": False, "max_pending": 3}
    key = (await gateway.call("PUT", "/v1/teams/green", body)).body["key"]
    batch = {"items": [{"spec": SPEC}] * 2}
    again = {"headers": {"Idempotency-Key": "k"}}

    first = await gateway.call("POST", "/v1/workloads", SPEC, key=key, **again)
    second = await gateway.call("POST", "/v1/workloads:batch", batch, key=key)
    full = await gateway.call("POST", "/v1/workloads", SPEC, key=key)
    replay = await gateway.call("POST", "/v1/workloads", SPEC, key=key, **again)
    other = await gateway.call("POST", "/v1/workloads?team=blue", SPEC)

    assert [202, 202, 202, 202] == [one.status for one in (first, second, replay, other)]
    assert "true" == replay.headers["Idempotency-Replayed"]
    assert (429, "urn:muster:problem:too-many-pending") == (full.status, full.body["type"])
    assert int(full.headers["Retry-After"]) > 0
    (error,) = full.body["errors"]
    assert ("max_pending", "3", True) == (
        error["field"],
        error["value"],
        "at most 3" in error["rule"],
    )


async def test_a_revoked_key_is_useless_and_the_database_holds_no_usable_key(
    gateway: Gateway, database: Database
):
    key = await gateway.key("red", "admin")
    before = await gateway.call("GET", "/v1/teams/red", key=key)
    stored = database.execute("SELECT row_to_json(k) FROM gateway.api_key k")

    prefix = key.split("_")[1]
    revoked = await gateway.call("DELETE", f"/v1/teams/red/keys/{prefix}")
    after = await gateway.call("GET", "/v1/teams/red", key=key)
    keys = await gateway.call("GET", "/v1/teams/red/keys")

    assert (200, 204, 401) == (before.status, revoked.status, after.status)
    assert key.split("_", 2)[2] not in stored
    (listed,) = [one for one in keys.body["items"] if one["prefix"] == prefix]
    assert "key" not in listed
    assert listed["revoked_at_ms"]


async def test_a_team_admin_makes_no_key_stronger_than_his_own(gateway: Gateway):
    admin = await gateway.key("red", "admin")

    replies = [
        await gateway.call("POST", f"/v1/teams/{team}/keys", {"role": role}, key=admin)
        for team, role in (("red", "operator"), ("red", "member"), ("blue", "viewer"))
    ]

    assert [403, 201, 404] == [reply.status for reply in replies]


async def test_an_open_stream_ends_within_five_seconds_of_its_keys_revocation(gateway: Gateway):
    key = await gateway.key("red", "viewer")
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}

    async with gateway.http.get(f"{gateway.address}/v1/events", headers=headers) as stream:
        await stream.content.readline()
        await gateway.call("DELETE", f"/v1/teams/red/keys/{key.split('_')[1]}")
        started = time.monotonic()
        async with asyncio.timeout(10):
            while await stream.content.readline():
                pass

    assert time.monotonic() - started < 5


async def test_a_commit_whose_answer_was_lost_is_found_again_and_accepted_once(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
):
    key = await gateway.key("red", "member")
    session = gateway.door.committer._session
    true_commit = session._store.commit
    lost: list[int] = []

    async def lose_the_answer(unit):
        await true_commit(unit)
        if unit.outbox and not lost:
            lost.append(unit.number)
            raise UnknownCommit("the connection broke")

    monkeypatch.setattr(session._store, "commit", lose_the_answer)
    replies = await asyncio.gather(
        *(gateway.call("POST", "/v1/workloads", SPEC, key=key) for _ in range(5))
    )

    assert lost
    assert {202} == {reply.status for reply in replies}
    assert "5" == database.execute("SELECT count(*) FROM gateway.accepted_request").strip()
    assert (
        "5"
        == database.execute(
            "SELECT count(*) FROM gateway.outbox WHERE topic = 'submission.commands.v1'"
        ).strip()
    )


async def test_when_too_much_waits_the_caller_is_told_to_come_back(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
):
    key = await gateway.key("red", "member")
    monkeypatch.setattr(gateway.door.committer, "_waiting_items_max", 1)

    replies = await asyncio.gather(
        *(gateway.call("POST", "/v1/workloads", SPEC, key=key) for _ in range(30))
    )

    assert {202, 429} == {reply.status for reply in replies}
    told = next(reply for reply in replies if reply.status == 429)
    assert "1" == told.headers["Retry-After"]


async def test_health_is_open_and_says_when_it_is_ready(gateway: Gateway):
    replies = [
        await gateway.call("GET", path, key="")
        for path in ("/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/nodes", "/nowhere")
    ]

    assert [200, 200, 200, 200, 401, 401] == [reply.status for reply in replies]
    assert "3.1.0" == replies[2].body["openapi"]
