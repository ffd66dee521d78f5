"""What is asked for and does not exist is told with what does; ids by their first characters."""

from __future__ import annotations

import pytest

from shared.core.model.nouns import Node
from shared.events import nodes, topics
from tests.support.gateway import SPEC, Gateway, publish_facts, running_projection, until


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/v1/workloads?tem=red", "cursor, id, kind, label, limit, name, queue, state, team"),
        ("/v1/nodes?flavour=h100", "cursor, flavor, limit, pool"),
        ("/v1/cohorts?team=red", "none"),
        ("/v1/workloads/w1?full=true", "none"),
    ],
)
async def test_an_unknown_query_parameter_is_refused_with_those_that_are_known(
    gateway: Gateway, path: str, names: str
):
    reply = await gateway.call("GET", path)

    name, _, value = path.partition("?")[2].partition("=")
    rule = f"unknown query parameter; the route takes: {names}"
    assert (400, "application/problem+json") == (reply.status, reply.headers["Content-Type"])
    assert [{"field": name, "value": value, "rule": rule}] == reply.body["errors"]
    assert 401 == (await gateway.call("GET", path, key="")).status
    assert 200 == (await gateway.call("GET", "/healthz?probe=1")).status


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/v1/workloads?team=rod", "team rod does not exist; there are: red, blue"),
        ("/v1/workloads?queue=blu", "queue blu does not exist; there are: blue, red"),
        ("/v1/events?team=rod", "team rod does not exist; there are: red, blue"),
        ("/v1/preemptions?team=rod", "team rod does not exist; there are: red, blue"),
        ("/v1/queues?team=rod", "team rod does not exist; there are: red, blue"),
        ("/v1/teams?team=rod", "team rod does not exist; there are: red, blue"),
        ("/v1/queues/blu", "queue blu does not exist; there are: blue, red"),
        ("/v1/nodes?flavor=h1000", "flavor h1000 does not exist; there are: h100"),
        ("/v1/nodes?pool=a", "pool a does not exist; there is none"),
        ("/v1/nodes/n1", "node n1 does not exist; there is none"),
    ],
)
async def test_what_does_not_exist_is_told_with_what_does(
    gateway: Gateway, path: str, detail: str
):
    reply = await gateway.call("GET", path)

    assert (404, detail) == (reply.status, reply.body["detail"])


async def test_a_selection_by_a_queue_that_is_none_is_told(gateway: Gateway):
    reply = await gateway.call("POST", "/v1/workloads:hold", {"queue": "rod"})
    known = await gateway.call("POST", "/v1/workloads:hold", {"queue": "red"})

    assert (404, 202) == (reply.status, known.status)
    assert "queue rod does not exist; there are: red, blue" == reply.body["detail"]


async def test_a_member_hears_of_no_other_team(gateway: Gateway):
    key = await gateway.key("red", "member")

    for name in ("blue", "blu"):
        one = await gateway.call("GET", f"/v1/queues/{name}", key=key)
        many = await gateway.call("GET", f"/v1/workloads?queue={name}", key=key)
        assert (404, 404) == (one.status, many.status)
        detail = f"queue {name} does not exist; there are: red"
        assert (detail, detail) == (one.body["detail"], many.body["detail"])


async def test_nodes_are_named_where_one_is_not_known(gateway: Gateway):
    place: dict = {"flavor": "h100", "product": "H100", "pool": "a"}
    node = Node(name="h100-0017", cpu_milli=8_000, memory_mib=1_024, gpus=(), **place)
    report = nodes.NodeInventoryReported(node=node, generation=1)

    async def reported() -> bool:
        return bool((await gateway.call("GET", "/v1/nodes")).body["items"])

    async with running_projection(gateway.settings):
        await publish_facts(
            gateway.settings, [(topics.NODE_FACTS, report)], source="t1", at_ms=1_000
        )
        await until(reported)
    drained = await gateway.call("POST", "/v1/nodes/h100-17/drain", {})
    pools = await gateway.call("GET", "/v1/nodes?pool=b")

    assert "node h100-17 does not exist; there are: h100-0017" == drained.body["detail"]
    assert "pool b does not exist; there are: a" == pools.body["detail"]


async def test_workloads_are_found_by_the_first_characters_of_their_ids(gateway: Gateway):
    made = [
        (await gateway.call("POST", f"/v1/workloads?team={team}", SPEC)).body["id"]
        for team in ("red", "red", "blue")
    ]

    async def found(text: str) -> set[str]:
        items = (await gateway.call("GET", f"/v1/workloads?id={text}")).body["items"]
        return {one["id"] for one in items}

    assert {made[0]} == await found(made[0])
    assert {made[1]} == await found(made[1][:20])
    assert set(made) == await found("w")
    assert {made[0], made[2]} == await found(f"{made[0][:20]},{made[2]}")
    key = await gateway.key("red", "member")
    theirs = await gateway.call("GET", f"/v1/workloads?id={made[2]}", key=key)
    assert [] == theirs.body["items"]
    for wrong in ("x", "W", "w%25", ",".join(["w"] * 101)):
        assert 400 == (await gateway.call("GET", f"/v1/workloads?id={wrong}")).status


async def test_the_same_key_again_tells_the_state_of_now(gateway: Gateway):
    key = await gateway.key("red", "member")
    options: dict = {"key": key, "headers": {"Idempotency-Key": "k"}}
    item = {"items": [{"idempotency_key": "k", "spec": SPEC}]}

    first = await gateway.call("POST", "/v1/workloads", SPEC, **options)
    row = "UPDATE gateway.workload SET state = 'running' WHERE id = $1 RETURNING 1"
    await gateway.context.reader.fetch(row, first.body["id"])
    again = await gateway.call("POST", "/v1/workloads", SPEC, **options)
    batch = await gateway.call("POST", "/v1/workloads:batch", item, key=key)

    assert (False, "received") == (first.body["replayed"], first.body["state"])
    assert (True, "running") == (again.body["replayed"], again.body["state"])
    (answer,) = batch.body["items"]
    assert (True, "running") == (answer["replayed"], answer["state"])
