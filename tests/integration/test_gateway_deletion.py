"""DELETE of documents: refused while they are used, told once, and version by version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.gateway.organisation import deleting
from services.gateway.organisation.uses import uses_of
from shared.core.model.decision import FieldError
from shared.core.model.nouns import Node, PodSet
from shared.events import topics
from shared.events.nodes import NodeInventoryReported
from shared.events.workloads import WorkloadRejected
from tests.support import facts as telling
from tests.support.gateway import (
    SPEC,
    Gateway,
    publish_facts,
    running_projection,
    until,
)
from tests.support.records import first_records


async def last_fact(gateway: Gateway, count: int) -> tuple[str, dict[str, Any]]:
    """Type and body of the `count`-th fact of the organisation."""
    records = await first_records(gateway.settings, topics.ORGANISATION_FACTS, count)
    headers, body = records[-1]
    return headers["ce_type"].decode(), body


async def test_a_queue_goes_and_comes_again_with_the_version_after(gateway: Gateway):
    path = "/v1/queues/night"
    made = await gateway.call("PATCH", path, {"team": "red"})
    late = await gateway.call("DELETE", path, headers={"If-Match": '"7"'})
    deleted = await gateway.call("DELETE", path, headers={"If-Match": made.headers["ETag"]})
    again = await gateway.call("DELETE", path)
    read = await gateway.call("GET", path)
    listed = await gateway.call("GET", "/v1/queues")
    cohort = await gateway.call("PATCH", "/v1/cohorts/night", {})
    anew = await gateway.call("PATCH", path, {"team": "red"}, headers={"If-None-Match": "*"})
    never = await gateway.call("DELETE", "/v1/queues/never")
    member = await gateway.call("DELETE", path, key=await gateway.key("red", "admin"))

    replies = (late, deleted, again, read, cohort, anew, never, member)
    assert [412, 204, 204, 404, 400, 201, 404, 403] == [one.status for one in replies]
    assert ("", '"3"') == (deleted.body, anew.headers["ETag"])
    assert "night" not in {one["name"] for one in listed.body["items"]}
    assert "was the name of a queue" in cohort.body["errors"][0]["rule"]
    kind, body = await last_fact(gateway, 12)
    assert ("muster.document.deleted.v1", {"kind": "queue", "name": "night", "version": 2}) == (
        kind,
        body,
    )


async def test_what_is_used_is_refused_with_what_uses_it(gateway: Gateway):
    node = Node(name="n1", flavor="h100", product="H100", cpu_milli=1, memory_mib=1, gpus=())
    reported = NodeInventoryReported(node=node, generation=1)
    await gateway.call("PATCH", "/v1/cohorts/all", {})
    await gateway.call("PATCH", "/v1/queues/red", {"cohort": "all"})
    await gateway.call("PATCH", "/v1/priority-classes/gold", {"value": 7})
    queued = telling.queued("w1", pods=PodSet(), at_ms=1, priority_class="gold")
    facts = [queued, (topics.NODE_FACTS, reported)]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="admission", at_ms=1)

        async def is_read() -> bool:
            replies = [
                await gateway.call("GET", path) for path in ("/v1/workloads/w1", "/v1/nodes/n1")
            ]
            return [200, 200] == [one.status for one in replies]

        assert await until(is_read)
        paths = ("cohorts/all", "flavors/h100", "teams/red", "priority-classes/gold", "queues/red")
        refused = [await gateway.call("DELETE", f"/v1/{path}") for path in paths]
        whole = await gateway.call("GET", "/v1/organisation")

    assert [409] * 5 == [one.status for one in refused]
    told = [[f"{e['value']} {e['rule']}" for e in one.body["errors"]] for one in refused]
    assert [
        ["Queue/red is in it"],
        ["Queue/blue has quota in it", "Queue/red has quota in it", "1 node reports it: n1"],
        ["1 workload of it waits or runs: w1"],
        ["1 workload of it waits or runs: w1"],
        [
            "Team/red has it as default_queue; it is deleted with the team",
            "1 workload of it waits or runs: w1",
        ],
    ] == told
    assert "Cohort all is used: Queue/red is in it" == refused[0].body["detail"]
    assert {"red", "blue"} == {one["name"] for one in whole.body["teams"]}


async def test_work_that_was_just_accepted_keeps_its_queue_and_team(gateway: Gateway):
    key = await gateway.key("red", "member")
    accepted = await gateway.call("POST", "/v1/workloads", SPEC, key=key)

    refused = await gateway.call("DELETE", "/v1/teams/red")
    rejected = WorkloadRejected(
        workload_id=accepted.body["id"],
        team="red",
        name="",
        kind="",
        body_hash="",
        errors=(),
        message="",
    )
    async with running_projection(gateway.settings):
        facts = [(topics.QUEUE_FACTS, rejected)]
        await publish_facts(gateway.settings, facts, source="admission", at_ms=1)

        async def is_gone() -> bool:
            return (await gateway.call("DELETE", "/v1/teams/red")).status == 204

        assert await until(is_gone)
    assert 409 == refused.status
    assert accepted.body["id"] in refused.body["errors"][0]["rule"]


async def test_a_team_takes_its_queue_and_its_keys_with_it(gateway: Gateway):
    key = await gateway.key("red", "member")
    before = await gateway.call("GET", "/v1/workloads", key=key)

    deleted = await gateway.call("DELETE", "/v1/teams/red")
    after = await gateway.call("GET", "/v1/workloads", key=key)
    queue = await gateway.call("GET", "/v1/queues/red")
    submitted = await gateway.call("POST", "/v1/workloads?team=red", SPEC)
    anew = await gateway.call("PATCH", "/v1/teams/red", {"kafka": False})
    old_key = await gateway.call("GET", "/v1/workloads", key=key)

    replies = (before, deleted, after, queue, submitted, anew, old_key)
    assert [200, 204, 401, 404, 404, 201, 401] == [one.status for one in replies]
    assert ('"3"', True) == (anew.headers["ETag"], anew.body["key"].startswith("mk_"))
    made = await gateway.call("GET", "/v1/queues/red")
    assert (200, 4) == (made.status, made.body["version"])


@pytest.mark.parametrize("number", range(3))
async def test_of_a_deletion_and_a_use_at_once_one_is_refused(gateway: Gateway, number: int):
    await gateway.call("PATCH", "/v1/cohorts/all", {})

    deleted, used = await asyncio.gather(
        gateway.call("DELETE", "/v1/cohorts/all"),
        gateway.call("PATCH", "/v1/queues/red", {"cohort": "all"}),
    )

    assert (deleted.status, used.status) in {(204, 400), (409, 200)}


async def test_work_that_comes_between_the_look_and_the_deletion_is_seen(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
):
    looks = 0

    async def looked(*arguments: Any) -> list[FieldError]:
        nonlocal looks
        looks += 1
        return [] if looks == 1 else await uses_of(*arguments)

    await gateway.call("PATCH", "/v1/queues/night", {"team": "red"})
    spec = {**SPEC, "queue": "night"}
    await gateway.call("POST", "/v1/workloads?team=red", spec)
    monkeypatch.setattr(deleting, "uses_of", looked)

    refused = await gateway.call("DELETE", "/v1/queues/night")
    read = await gateway.call("GET", "/v1/queues/night")

    assert (409, 200, 2) == (refused.status, read.status, looks)
