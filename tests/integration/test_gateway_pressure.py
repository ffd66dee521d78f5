"""Too much at once, and answers that were lost: nothing twice, nobody left without a word."""

from __future__ import annotations

import asyncio
import time

import asyncpg
import pytest

from shared.ports.errors import UnknownCommit
from tests.fixtures.servers import Database
from tests.support.gateway import (
    SPEC,
    Gateway,
)


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


async def test_a_team_gets_no_more_than_it_may_have_alive(gateway: Gateway):
    body = {"kafka": False, "max_pending": 3}
    key = (await gateway.call("PATCH", "/v1/teams/green", body)).body["key"]
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


async def test_a_commit_whose_answer_was_lost_is_found_again_and_accepted_once(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
):
    key = await gateway.key("red", "member")
    session = gateway.context.committer._session
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
    monkeypatch.setattr(gateway.context.committer, "_waiting_items_max", 1)

    replies = await asyncio.gather(
        *(gateway.call("POST", "/v1/workloads", SPEC, key=key) for _ in range(30))
    )

    assert {202, 429} == {reply.status for reply in replies}
    told = next(reply for reply in replies if reply.status == 429)
    assert "1" == told.headers["Retry-After"]


async def test_an_answer_is_known_in_three_seconds_where_the_database_hangs(
    gateway: Gateway, database: Database
):
    key = await gateway.key("red", "member")
    other = await asyncpg.connect(database.url())

    async with other.transaction():
        await other.execute("LOCK TABLE gateway.outbox IN ACCESS EXCLUSIVE MODE")
        started = time.monotonic()
        reply = await gateway.call("POST", "/v1/workloads", SPEC, key=key)
        seconds = time.monotonic() - started
    await other.close()
    after = await gateway.call("POST", "/v1/workloads", SPEC, key=key)

    assert (503, 202) == (reply.status, after.status)
    assert int(reply.headers["Retry-After"]) > 0
    assert seconds < 3, seconds
