"""Records of preemptions: cost, outcome, what was refused, and who sees which victims."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from shared.core.model.reason import Reason
from shared.events import plans, topics
from tests.fixtures.servers import Database
from tests.support.facts import Fact
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.two_teams import START, queued, running, two_teams

PREEMPTOR: dict = {"workload_id": "w3", "team": "red", "queue": "red"}


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with two_teams(kafka, database, topic_prefix) as running_one:
        yield running_one


def accepted_plan(identifier: str) -> Fact:
    """A workload of blue and one of red go for w3 of red."""
    victims = tuple(
        plans.PlannedVictim(workload_id=name, version=3, attempt=1, lost_gpu_ms=1_000)
        for name in ("w1", "w2")
    )
    other = plans.RefusedAlternative(why="costs more", victims=("w1", "w2"), lost_gpu_ms=9_000)
    fact = plans.EvictionPlanAccepted(
        **PREEMPTOR,
        plan_id=identifier,
        flavor="h100",
        rule="reclaim",
        victims=victims,
        alternatives=(other,),
        expires_at_ms=START + 9_000,
    )
    return topics.WORKLOAD_FACTS, fact


def expired_plan(identifier: str) -> Fact:
    """It was not carried out in time."""
    fact = plans.ReservationExpired(
        **PREEMPTOR,
        plan_id=identifier,
        reason=Reason.TIMED_OUT,
        message="m",
        expired_at_ms=START + 9_000,
    )
    return topics.WORKLOAD_FACTS, fact


async def two_plans(gateway: Gateway) -> None:
    """The first runs out of its time, by the second w3 starts."""
    facts = [queued("w1", "blue"), queued("w2", "red"), accepted_plan("p1"), accepted_plan("p2")]
    facts += [queued("w3"), *running("w3", "red", START + 500), expired_plan("p1")]
    await publish_facts(gateway.settings, facts, source="a", at_ms=START)

    async def told():
        items = (await gateway.call("GET", "/v1/preemptions")).body["items"]
        known = {victim["team"] for one in items for victim in one["victims"]}  # of their own rows
        outcomes = [one["outcome"] for one in items]
        return outcomes == ["placed", "expired: timed-out"] and known == {"blue", "red"}

    await until(told)


async def test_a_preemption_is_one_record_with_its_cost_its_outcome_and_what_was_refused(
    gateway: Gateway,
):
    async with running_projection(gateway.settings):
        await two_plans(gateway)
        first = (await gateway.call("GET", "/v1/preemptions?limit=1")).body
        rest = await gateway.call("GET", f"/v1/preemptions?cursor={first['next_cursor']}")
        late = await gateway.call("GET", f"/v1/preemptions?since={START + 60_000}")

    (newest,), (oldest,) = first["items"], rest.body["items"]
    assert ("p2", "p1") == (newest["plan_id"], oldest["plan_id"])
    assert "expired: timed-out" == oldest["outcome"]
    assert (2, 2_000, 2) == (
        newest["victims_count"],
        newest["lost_gpu_ms"],
        newest["alternatives"][0]["victims_count"],
    )
    assert [] == late.body["items"]


async def test_of_a_preemption_a_team_sees_its_own_victims_and_the_others_are_only_counted(
    gateway: Gateway,
):
    await gateway.organise("green")
    keys = {team: await gateway.key(team, "viewer") for team in ("red", "blue", "green")}

    async with running_projection(gateway.settings):
        await two_plans(gateway)
        seen = {
            team: (await gateway.call("GET", "/v1/preemptions", key=key)).body["items"]
            for team, key in keys.items()
        }

    victims_seen = {
        team: [one["workload_id"] for one in items[0]["victims"]] if items else None
        for team, items in seen.items()
    }
    assert {"red": ["w2"], "blue": ["w1"], "green": None} == victims_seen
    assert {2} == {one["victims_count"] for items in seen.values() for one in items}
