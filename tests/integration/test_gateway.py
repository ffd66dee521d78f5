"""The gateway on a real broker and a real database, through its own front door."""

from __future__ import annotations

import pytest

from shared.events import topics
from shared.events.envelope import workload_id
from tests.support.gateway import (
    SPEC,
    Gateway,
)
from tests.support.records import first_records


async def test_a_submission_is_durable_readable_and_on_the_log_once_it_is_accepted(
    gateway: Gateway,
):
    key = await gateway.key("red", "member")

    reply = await gateway.call(
        "POST", "/v1/workloads", SPEC, key=key, headers={"Idempotency-Key": "one"}
    )
    found = await gateway.call("GET", reply.headers["Location"], key=key)
    ((headers, command),) = await first_records(gateway.settings, topics.SUBMISSION_COMMANDS, 1)

    expected = workload_id("red", "one")
    assert (202, expected) == (reply.status, reply.body["id"])
    assert ("received", "red", "red") == tuple(
        found.body[name] for name in ("state", "team", "queue")
    )
    assert SPEC["name"] == found.body["spec"]["name"]
    assert b"gateway" == headers["ce_source"]
    assert (expected, "red", "http", "a key without a label (team member)") == (
        command["workload_id"],
        command["team"],
        command.get("door", "http"),
        command["by"],
    )


async def test_the_same_key_is_a_replay_and_with_another_body_a_conflict(gateway: Gateway):
    key = await gateway.key("red", "member")
    options: dict = {"key": key, "headers": {"Idempotency-Key": "k"}}

    first = await gateway.call("POST", "/v1/workloads", SPEC, **options)
    again = await gateway.call("POST", "/v1/workloads", {**SPEC, "queue": ""}, **options)
    other = await gateway.call("POST", "/v1/workloads", {**SPEC, "name": "other"}, **options)

    assert (202, 202, 422) == (first.status, again.status, other.status)
    assert {**first.body, "replayed": True} == again.body
    assert "true" == again.headers["Idempotency-Replayed"]
    assert "urn:muster:problem:idempotency-conflict" == other.body["type"]


async def test_a_queue_of_another_team_is_refused_with_field_value_and_rule(gateway: Gateway):
    key = await gateway.key("red", "member")

    reply = await gateway.call("POST", "/v1/workloads", {**SPEC, "queue": "blue"}, key=key)

    assert 400 == reply.status
    assert [
        {"field": "queue", "value": "blue", "rule": "is not a queue of team red"}
    ] == reply.body["errors"]


@pytest.mark.parametrize("name", ["nope", "inference-production"])
async def test_a_priority_class_that_the_team_may_not_use_is_refused_at_the_door(
    gateway: Gateway, name: str
):
    key, spec = await gateway.key("red", "member"), {**SPEC, "priority_class": name}

    reply = await gateway.call("POST", "/v1/workloads", spec, key=key)
    items = [{"spec": SPEC}, {"spec": spec}]
    many = await gateway.call("POST", "/v1/workloads:batch", {"items": items}, key=key)

    (error,), (same,) = reply.body["errors"], many.body["errors"]
    assert (400, "priority_class", name) == (reply.status, error["field"], error["value"])
    assert error["rule"].endswith("it may use: training-interactive, training-batch")
    assert {**error, "field": "items[1].spec.priority_class"} == same


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
    evicted = await gateway.call("POST", f"{path}/evict", {"note": "drain"})
    commands = await first_records(gateway.settings, topics.SUBMISSION_COMMANDS, 5)

    assert [202, 202, 400, 202, 400, 202] == [
        reply.status for reply in (held, moved, wrong, bulk, nothing, evicted)
    ]
    assert [made.body["id"]] == bulk.body["ids"]
    types = [headers["ce_type"] for headers, _ in commands]
    assert 5 == len(set(types))
    assert "drain" == commands[4][1]["note"]


async def test_a_class_that_the_team_may_not_use_or_its_work_not_have_is_refused_for_one_and_many(
    gateway: Gateway,
):
    key = await gateway.key("red", "member")
    share = {"gpu": {"milli": 500, "memory_mib": 8_000}}
    notebook = {**SPEC, "kind": "notebook", "pod_sets": [share], "labels": {"a": "b"}}
    made = await gateway.call("POST", "/v1/workloads", notebook, key=key)
    path = f"/v1/workloads/{made.body['id']}/reprioritise"
    asked = {"priority_class": "inference-production"}
    many = {**asked, "labels": {"a": "b"}}

    foreign = [
        await gateway.call("POST", path, asked, key=key),
        await gateway.call("POST", "/v1/workloads:reprioritise", many, key=key),
    ]
    granted = ["inference-production", "training-batch"]
    team = {"kafka": False, "priority_classes": granted}
    assert 200 == (await gateway.call("PATCH", "/v1/teams/red", team)).status
    shared = [
        await gateway.call("POST", path, asked, key=key),
        await gateway.call("POST", "/v1/workloads:reprioritise", many, key=key),
    ]
    lower = await gateway.call("POST", path, {"priority_class": "training-batch"}, key=key)

    assert [400] * 4 + [202] == [one.status for one in (*foreign, *shared, lower)]
    errors = [one.body["errors"] for one in (*foreign, *shared)]
    assert {("priority_class", "inference-production")} == {
        (one["field"], one["value"]) for (one,) in errors
    }
    for (error,) in errors[:2]:
        assert error["rule"].endswith("it may use: training-interactive, training-batch")
    for (error,) in errors[2:]:
        assert f"{made.body['id']}: a protected class never runs on shares" in error["rule"]


async def test_a_selection_goes_on_behind_the_last_that_was_answered(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("services.gateway.workloads.commands.BULK_MAX", 2)
    key, other = await gateway.key("red", "member"), await gateway.key("blue", "member")
    specs = [{**SPEC, "name": f"n{at}", "labels": {"a": "b"}} for at in range(3)]
    made = [
        (await gateway.call("POST", "/v1/workloads", one, key=key)).body["id"] for one in specs
    ]
    theirs = (await gateway.call("POST", "/v1/workloads", SPEC, key=other)).body["id"]
    selection = {"labels": {"a": "b"}}

    first = await gateway.call("POST", "/v1/workloads:hold", selection, key=key)
    behind = {**selection, "after": first.body["ids"][-1]}
    second = await gateway.call("POST", "/v1/workloads:hold", behind, key=key)
    wrong = await gateway.call(
        "POST", "/v1/workloads:hold", {**selection, "after": theirs}, key=key
    )

    assert [(2, True), (1, False)] == [
        (len(one.body["ids"]), one.body["more"]) for one in (first, second)
    ]
    assert sorted(made) == sorted([*first.body["ids"], *second.body["ids"]])
    assert (400, "after") == (wrong.status, wrong.body["errors"][0]["field"])


async def test_an_operator_selects_in_all_teams_by_queue_or_ids_and_else_names_the_team(
    gateway: Gateway,
):
    made = []
    for team in ("red", "blue"):
        key = await gateway.key(team, "member")
        spec = {**SPEC, "queue": team, "labels": {"a": "b"}}
        made.append((await gateway.call("POST", "/v1/workloads", spec, key=key)).body["id"])

    async def selected(**selection: object) -> object:
        reply = await gateway.call("POST", "/v1/workloads:hold", selection)
        return reply.body["ids"] if reply.status == 202 else reply.body["errors"][0]["field"]

    assert "team" == await selected(labels={"a": "b"})
    assert "team" == await selected(state="received")
    assert [made[0]] == await selected(labels={"a": "b"}, team="red")
    assert [made[1]] == await selected(queue="blue")
    assert made == await selected(ids=made)


async def test_health_is_open_and_says_when_it_is_ready(gateway: Gateway):
    replies = [
        await gateway.call("GET", path, key="")
        for path in ("/healthz", "/readyz", "/openapi.json", "/metrics", "/v1/nodes", "/nowhere")
    ]

    assert [200, 200, 200, 200, 401, 401] == [reply.status for reply in replies]
    assert "3.1.0" == replies[2].body["openapi"]
