"""The Python client against a real gateway: both sides mean the same."""

from __future__ import annotations

import pytest

from muster.client import AsyncClient
from muster.errors import Changed, NotAuthorised, NotFound, Rejected
from tests.support.gateway import SPEC, Gateway


async def test_a_member_submits_finds_and_commands_his_workloads(gateway: Gateway):
    key = await gateway.key("red", "member")

    async with AsyncClient(gateway.address, key) as client:
        one = await client.submit(SPEC, idempotency_key="one")
        again = await client.submit(SPEC, idempotency_key="one")
        many = await client.submit_batch([{"spec": {**SPEC, "name": f"n{n}"}} for n in range(5)])
        found = [item["id"] async for item in client.workloads(state="received")]
        named = [item["name"] async for item in client.workloads(name="n3")]
        read = await client.get(one["id"])
        why = await client.why(one["id"])
        dry = await client.submit({**SPEC, "priority_class": "nope"}, dry_run=True)
        for act in (client.hold, client.release, client.cancel):
            assert (await act(one["id"]))["id"] == one["id"]
        await client.reprioritise(one["id"], "training-batch")
        events = await client.events(one["id"])

    assert again["id"] == one["id"]
    assert {one["id"], *(item["id"] for item in many)} == set(found)
    assert named == ["n3"]
    assert (read["state"], why["reason"], events) == ("received", "Received", [])
    assert (dry["valid"], dry["errors"][0]["field"]) == (False, "priority_class")


async def test_documents_of_a_batch_stand_in_the_order_in_which_they_were_sent(
    gateway: Gateway,
):
    key = await gateway.key("red", "member")
    names = [f"jam-{n}" for n in range(40)]

    async with AsyncClient(gateway.address, key) as client:
        await client.submit_batch([{"spec": {**SPEC, "name": name}} for name in names])
        await client.submit({**SPEC, "name": "behind"})
        found = [item async for item in client.workloads()]

    assert [*names, "behind"] == [one["name"] for one in reversed(found)]
    times = [one["submitted_at_ms"] for one in reversed(found)]
    assert times == sorted(set(times))


async def test_the_clients_errors_are_those_of_the_gateway(gateway: Gateway):
    key = await gateway.key("red", "viewer")

    async with AsyncClient(gateway.address, key) as client:
        with pytest.raises(NotAuthorised):
            await client.submit(SPEC)
        with pytest.raises(NotFound):
            await client.get("w1")
    async with AsyncClient(gateway.address, await gateway.key("red", "member")) as client:
        with pytest.raises(Rejected) as rejected:
            await client.submit({**SPEC, "kind": "nope"})
    async with AsyncClient(gateway.address, "mk_wrong") as client:
        with pytest.raises(NotAuthorised):
            await client.listing("nodes")

    assert rejected.value.errors[0].field == "kind"


async def test_an_operator_applies_documents_and_manages_keys(gateway: Gateway):
    async with AsyncClient(gateway.address, gateway.operator_key) as client:
        made = await client.apply("cohorts", "all", {"weight": 2})
        read, etag = await client.document("cohorts", "all") or ({}, "")
        await client.apply("cohorts", "all", {"weight": 3}, etag=etag)
        with pytest.raises(Changed):
            await client.apply("cohorts", "all", {"weight": 4}, etag=etag)
        nothing = await client.document("cohorts", "none")
        queues = await client.listing("queues", team="red")
        key = await client.create_key("red", "member", "ci")
        await client.revoke_key("red", key["prefix"])
        keys = await client.keys("red")

    assert (made["version"], read["weight"], nothing) == (1, 2, None)
    assert queues[0]["flavors"][0]["nominal"]["gpu_milli"] == 8000
    revoked = {one["label"]: bool(one["revoked_at_ms"]) for one in keys}
    assert revoked == {"first": False, "ci": True}
