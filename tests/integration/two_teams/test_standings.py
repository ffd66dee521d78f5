"""Queues and cohorts as the gateway tells them: borrowed, lent, shares, debts, use, budgets."""

from __future__ import annotations

import time

import msgspec

from shared.events import quotas, topics
from tests.support.facts import Fact
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.two_teams import START, budget_told, queued, running


def told_of_quota() -> tuple[list[Fact], list[Fact]]:
    """Two of red run, with its debts, use and budget; what comes late is older, but of blue."""
    usage = quotas.QueueUsageTold(
        queue="red", gpu_seconds=7_200, at_ms=int(time.time() * 1000), half_life_ms=86_400_000
    )
    spent = budget_told("red", 81)
    debts = quotas.DebtsTold(debts={"red": 31_250, "all": -1}, at_ms=START)
    earlier = quotas.DebtsTold(debts={"red": 40_000}, at_ms=START - 1)
    older = msgspec.structs.replace(usage, gpu_seconds=1, at_ms=usage.at_ms - 1)
    facts = [queued("w1"), queued("w2")]
    facts += [*running("w1", "red", START), *running("w2", "red", START)]
    facts += [(topics.QUOTA_FACTS, one) for one in (debts, usage, spent)]
    theirs_told = msgspec.structs.replace(usage, queue="blue")
    before = msgspec.structs.replace(spent, percent=1, at_ms=START - 1)
    ended = msgspec.structs.replace(spent, team="blue", limit_gpu_milli_hours=None)
    lately = (earlier, older, before, ended, theirs_told)
    late: list[Fact] = [(topics.QUOTA_FACTS, one) for one in lately]
    return facts, late


async def test_queues_and_cohorts_tell_what_they_borrow_and_lend_shares_debts_use_and_budgets(
    gateway: Gateway,
):
    facts, late = told_of_quota()

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)

        async def full():
            reply = await gateway.call("GET", "/v1/queues/red")
            used = reply.body["flavors"][0]["used"]["gpu_milli"]
            body = reply.body
            told = body["budget"] and body["usage_gpu_seconds"]
            newest = body["debt_told_at_ms"] == START
            return reply if used == 16_000 and told and newest else None

        async def late_ones():  # what comes late and is older changes nothing
            reply = await gateway.call("GET", "/v1/queues/blue")
            return reply if reply.body["usage_gpu_seconds"] else None

        await until(full)
        await publish_facts(gateway.settings, late, source="b", at_ms=START + 1_000)
        await until(late_ones)
        red = (await gateway.call("GET", "/v1/queues/red")).body
        blue = (await gateway.call("GET", "/v1/queues/blue")).body
        cohort = (await gateway.call("GET", "/v1/cohorts/all")).body
        listed = (await gateway.call("GET", "/v1/cohorts")).body["items"]

    mine, theirs = red["flavors"][0], blue["flavors"][0]
    assert (8_000, 0, 0) == tuple(
        mine[one]["gpu_milli"] for one in ("borrowed", "lent", "available")
    )
    assert (0, 8_000, 0) == tuple(
        theirs[one]["gpu_milli"] for one in ("borrowed", "lent", "available")
    )
    assert (500_000, 0) == (red["share_millionths"], blue["share_millionths"])
    assert [cohort] == listed
    debts_seen = [(one["debt_millionths"], one["debt_told_at_ms"]) for one in (red, cohort, blue)]
    assert [(31_250, START), (-1, START), (0, None)] == debts_seen
    pool = cohort["flavors"][0]
    assert (16_000, 16_000) == (
        pool["total_nominal"]["gpu_milli"],
        pool["total_used"]["gpu_milli"],
    )
    assert (16_000, 0, 0, 0) == tuple(
        pool[one]["gpu_milli"] for one in ("used", "borrowed", "lent", "available")
    )
    assert 7_190 < red["usage_gpu_seconds"] <= 7_200
    assert (81, "2026-11", None) == tuple(
        red["budget"][one] for one in ("percent", "month", "limit_microdollars")
    )
    assert blue["budget"] is None
