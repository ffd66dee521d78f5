"""Pages of recorded events on a real database: the newest, those before, and those since."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shared.core.model.nouns import PodSet
from tests.support import facts as telling
from tests.support.gateway import Gateway, publish_facts, running_projection, until

COUNT = 7


@pytest.fixture
async def told(gateway: Gateway) -> AsyncIterator[list[int]]:
    """Seven workloads, by turns of red and blue, are queued a second after each other."""
    facts = [
        telling.queued(f"w{number}", ("red", "blue")[number % 2], pods=PodSet(), at_ms=1_000)
        for number in range(COUNT)
    ]

    async def all_there() -> Any:
        items = (await gateway.call("GET", "/v1/events")).body["items"]
        return items if len(items) == COUNT else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="t1", at_ms=1_000_000)
        found = await until(all_there)
        yield [one["at_ms"] for one in found]


async def page(gateway: Gateway, query: str, key: str | None = None) -> tuple[list[int], int]:
    reply = await gateway.call("GET", f"/v1/events?{query}", key=key)
    assert reply.status == 200, reply.body
    return [one["id"] for one in reply.body["items"]], reply.body["next_before"]


async def test_the_newest_come_in_order_and_say_where_those_before_them_are(
    gateway: Gateway, told: list[int]
):
    assert ([5, 6, 7], 5) == await page(gateway, "newest=true&limit=3")
    assert ([2, 3, 4], 2) == await page(gateway, "before=5&limit=3")
    assert ([1], 0) == await page(gateway, "before=2&limit=3")
    assert ([5, 6, 7], 0) == await page(gateway, "newest=true&limit=3&after=4")
    assert ([1, 2, 3], 0) == await page(gateway, "limit=3")
    assert ([], 0) == await page(gateway, "newest=true&after=7")


async def test_those_since_a_moment_end_where_all_are_older(gateway: Gateway, told: list[int]):
    since = sorted(told)[-2]

    assert ([6, 7], 0) == await page(gateway, f"since={since}&newest=true")
    assert ([7], 7) == await page(gateway, f"since={since}&newest=true&limit=1")
    assert ([], 0) == await page(gateway, f"since={since}&before=6&limit=1")
    forward = await gateway.call("GET", f"/v1/events?since={since}")
    assert (400, "since") == (forward.status, forward.body["errors"][0]["field"])


async def test_of_a_team_and_of_a_workload_only_theirs(gateway: Gateway, told: list[int]):
    viewer = await gateway.key("red", "viewer")

    theirs, _ = await page(gateway, "newest=true&limit=2", viewer)
    one = await gateway.call("GET", "/v1/workloads/w2/events?newest=true", key=viewer)

    assert ([5, 7], ["w2"]) == (theirs, [event["workload_id"] for event in one.body["items"]])


@pytest.mark.parametrize("query", ["newest=true", "since=1", "before=3"])
async def test_a_stream_takes_none_of_it(gateway: Gateway, query: str):
    headers = {"Accept": "text/event-stream"}

    reply = await gateway.call("GET", f"/v1/events?{query}", headers=headers)

    assert 400 == reply.status
    assert "say with `after` where it begins" in reply.body["errors"][0]["rule"]
