"""Keys: who may make which, and what a revoked one still opens."""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import version

from tests.fixtures.servers import Database
from tests.support.gateway import (
    Gateway,
)

STREAM_ENDS_SECONDS = 5


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


async def test_a_key_is_told_whom_it_makes_of_its_caller(gateway: Gateway):
    wanted = {"role": "viewer", "label": "nightly-ci", "expires_in_seconds": 3_600}
    made = (await gateway.call("POST", "/v1/teams/red/keys", wanted)).body

    viewer = await gateway.call("GET", "/v1/whoami", key=made["key"])
    operator = await gateway.call("GET", "/v1/whoami")
    nobody = await gateway.call("GET", "/v1/whoami", key="")

    assert viewer.body == {
        "team": "red",
        "role": "viewer",
        "key_prefix": made["prefix"],
        "key_label": "nightly-ci",
        "expires_at_ms": made["expires_at_ms"],
        "version": version("muster-gpu"),
    }
    assert ("", "operator", None) == tuple(
        operator.body[name] for name in ("team", "role", "expires_at_ms")
    )
    assert (200, 200, 401) == (viewer.status, operator.status, nobody.status)


async def test_an_open_stream_ends_within_five_seconds_of_its_keys_revocation(gateway: Gateway):
    key = await gateway.key("red", "viewer")
    headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}

    async with gateway.http.get(f"{gateway.address}/v1/events", headers=headers) as stream:
        await stream.content.readline()
        await gateway.call("DELETE", f"/v1/teams/red/keys/{key.split('_')[1]}")
        started = time.monotonic()
        async with asyncio.timeout(40):
            while await stream.content.readline():
                pass

    assert time.monotonic() - started < STREAM_ENDS_SECONDS
