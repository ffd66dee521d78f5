"""No field of a document is wiped by whoever does not name it: PUT needs all, PATCH merges."""

from __future__ import annotations

import json

from shared.core.model.nouns import PodSet
from tests.support import facts as telling
from tests.support.gateway import Gateway, publish_facts, running_projection, until


async def test_a_put_that_leaves_fields_out_changes_nothing_and_a_patch_keeps_them(
    gateway: Gateway,
):
    path = "/v1/queues/red"
    before = await gateway.call("GET", path)

    short = await gateway.call("PUT", path, {"team": "red", "held": True})
    unchanged = await gateway.call("GET", path)
    held = await gateway.call("PATCH", path, {"held": True})
    whole = {name: value for name, value in held.body.items() if name not in {"name", "version"}}
    replaced = await gateway.call("PUT", path, {**whole, "held": False, "weight": 3})
    again = await gateway.call("PUT", path, {**whole, "held": False, "weight": 3})
    cleared = await gateway.call("PATCH", path, {"flavors": None, "weight": None})

    assert 400 == short.status
    missing = ["cohort", "strict", "weight", "flavors", "draining", "policy"]
    assert missing == [error["field"] for error in short.body["errors"]]
    assert before.headers["ETag"] == unchanged.headers["ETag"]
    assert (200, True) == (held.status, held.body["held"])
    quota = held.body["flavors"][0]
    assert ("h100", 8000) == (quota["flavor"], quota["nominal"]["gpu_milli"])
    assert (200, False, 3, held.body["flavors"]) == (
        replaced.status,
        replaced.body["held"],
        replaced.body["weight"],
        replaced.body["flavors"],
    )
    assert replaced.headers["ETag"] == again.headers["ETag"]
    assert (200, [], 1) == (cleared.status, cleared.body["flavors"], cleared.body["weight"])


async def test_conditions_of_a_patch_are_those_of_a_put(gateway: Gateway):
    path, created = "/v1/cohorts/all", {"If-None-Match": "*"}

    absent = await gateway.call("PATCH", path, {"weight": 2}, headers={"If-Match": "*"})
    made = await gateway.call("PATCH", path, {"weight": 2}, headers=created)
    exists = await gateway.call("PATCH", path, {"weight": 3}, headers=created)
    same = await gateway.call("PATCH", path, {"weight": 2}, headers=created)
    match = {"If-Match": made.headers["ETag"]}
    changed = await gateway.call("PATCH", path, {"weight": 3}, headers=match)
    late = await gateway.call("PATCH", path, {"weight": 4}, headers=match)
    read = await gateway.call("GET", path)

    replies = (absent, made, exists, same, changed, late)
    assert [412, 201, 412, 200, 200, 412] == [reply.status for reply in replies]
    assert (3, 2) == (read.body["weight"], read.body["version"])


async def test_a_patch_is_json_or_a_merge_patch(gateway: Gateway):
    path, body = "/v1/cohorts/all", json.dumps({"weight": 2})

    replies = [
        await gateway.call("PATCH", path, data=data, headers={"Content-Type": kind})
        for kind, data in (
            ("application/merge-patch+json", body),
            ("application/json", body),
            ("application/json-patch+json", "[]"),
            ("application/merge-patch+json", "[]"),
        )
    ]

    assert [201, 200, 415, 400] == [reply.status for reply in replies]
    assert "application/merge-patch+json" == replies[2].headers["Accept-Patch"]
    assert "must be a JSON object" in replies[3].body["detail"]


async def test_only_who_forces_it_takes_protection_away(gateway: Gateway):
    path = "/v1/priority-classes/inference-production"
    queued = telling.queued("w1", pods=PodSet(), at_ms=1, priority_class="inference-production")

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, [queued], source="admission", at_ms=1)

        async def is_read() -> bool:
            return (await gateway.call("GET", "/v1/workloads/w1")).status == 200

        assert await until(is_read)
    refused = await gateway.call("PATCH", path, {"protected": False})
    whole = await gateway.call("GET", path)
    body = {name: whole.body[name] for name in ("value", "kinds")} | {"protected": False}
    put = await gateway.call("PUT", path, body)
    other = await gateway.call("PATCH", path, {"value": 2000})
    unclear = await gateway.call("PATCH", path, {"protected": False}, params={"force": "1"})
    forced = await gateway.call("PATCH", path, {"protected": False}, params={"force": "true"})
    back = await gateway.call("PATCH", path, {"protected": True})

    replies = (refused, put, other, unclear, forced, back)
    assert [409, 409, 200, 400, 200, 200] == [reply.status for reply in replies]
    assert "1 workload of priority class inference-production" in refused.body["detail"]
    assert whole.body["protected"]
    assert not forced.body["protected"]


async def test_a_document_that_was_made_with_its_team_is_not_changed_by_its_own_fields(
    gateway: Gateway,
):
    await gateway.call("PATCH", "/v1/teams/green", {"kafka": False})
    whole = await gateway.call("GET", "/v1/organisation")
    (green,) = [one for one in whole.body["queues"] if one["name"] == "green"]
    body = {name: value for name, value in green.items() if name not in {"name", "version"}}

    again = await gateway.call("PUT", "/v1/queues/green", body)
    after = await gateway.call("GET", "/v1/organisation")
    member = await gateway.call("GET", "/v1/organisation", key=await gateway.key("red", "admin"))

    assert (200, '"1"') == (again.status, again.headers["ETag"])
    assert whole.headers["ETag"] == after.headers["ETag"] == f'"{whole.body["version"]}"'
    assert 403 == member.status


async def test_a_dry_run_changes_nothing(gateway: Gateway):
    before = await gateway.call("GET", "/v1/organisation")
    items = [
        {"kind": "Team", "name": "green", "fields": {}},
        {"kind": "Queue", "name": "green", "fields": {"weight": 2}},
        {"kind": "Queue", "name": "red", "fields": {"held": True}},
        {"kind": "Queue", "name": "blue", "fields": {"wait": 1}},
    ]

    rehearsed = await gateway.call("POST", "/v1/organisation:dry-run", {"items": items})
    wrong = await gateway.call("POST", "/v1/organisation:dry-run", {"items": [{"kind": "Node"}]})
    deep: dict[str, object] = {}
    for _ in range(30):
        deep = {"a": deep}
    nested = await gateway.call("POST", "/v1/organisation:dry-run", deep)
    after = await gateway.call("GET", "/v1/organisation")

    results = [one["result"] for one in rehearsed.body["items"]]
    assert ["created", "created", "changed", "refused"] == results
    assert [400, 400] == [wrong.status, nested.status]
    assert before.body == after.body
