"""Two gateways on one database: no command overtakes what the other has accepted."""

from __future__ import annotations

import asyncio

import pytest

from services.gateway.app import other_gateways
from tests.fixtures.servers import Database
from tests.support.gateway import SPEC, Gateway


def not_published(identifier: str) -> list[str]:
    """Gateway 1 has a row about a workload in its outbox; 2 of its units were published before."""
    columns = "shard, seq, key, event_id, topic, partition, headers, value, epoch"
    row = f"'http-1', 3, '{identifier}', gen_random_uuid(), 'submission.commands.v1', 0, '', '', 1"
    return [
        "INSERT INTO gateway.watermark (shard, acked_seq, next_seq) VALUES ('http-1', 2, 4)",
        f"INSERT INTO gateway.outbox ({columns}) VALUES ({row})",
    ]


async def test_a_command_waits_for_what_another_gateway_has_not_published(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
):
    key = await gateway.key("red", "member")
    made, other = [(await gateway.call("POST", "/v1/workloads", SPEC, key=key)) for _ in range(2)]
    identifier = made.body["id"]
    path = f"/v1/workloads/{identifier}/cancel"
    database.execute(*not_published(identifier))

    async def published() -> None:
        await asyncio.sleep(2.5 * other_gateways.PAUSE_SECONDS)
        statement = "UPDATE gateway.watermark SET acked_seq = 3 WHERE shard = 'http-1'"
        await asyncio.to_thread(database.execute, statement)

    monkeypatch.setattr(other_gateways, "TRIES", 2)
    early = await gateway.call("POST", path, {}, key=key)
    many = {"ids": [identifier, other.body["id"]]}
    early_bulk = await gateway.call("POST", "/v1/workloads:cancel", many, key=key)
    another = await gateway.call("POST", f"/v1/workloads/{other.body['id']}/hold", {}, key=key)
    monkeypatch.setattr(other_gateways, "TRIES", 50)
    late, _ = await asyncio.gather(gateway.call("POST", path, {}, key=key), published())

    assert (503, "1") == (early.status, early.headers["Retry-After"])
    assert (
        f"gateway http-1 has accepted something about workload {identifier}"
        in (early.body["detail"])
    )
    assert (503, 202, 202) == (early_bulk.status, another.status, late.status)
