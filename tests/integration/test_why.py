"""`why` on a real database: place, limits, who ends next, who took the room; and the past."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import msgspec
import pytest

from shared.core.decision import Reason
from shared.core.lifecycle import State
from shared.core.model import GpuRequest, GpuShare, Placement, PodPlacement, PodSet
from shared.core.team_policy import AtLimit
from shared.core.units import Resources
from shared.events import plans, quotas, topics, workloads
from tests.fixtures.servers import Database
from tests.support import facts as telling
from tests.support.facts import Fact, common
from tests.support.gateway import (
    Gateway,
    publish_facts,
    running_gateway,
    running_projection,
    until,
)

START = int(time.time() * 1000) - 60_000
HOUR = 3_600
PREEMPTOR: dict = {"workload_id": "w3", "team": "red", "queue": "red"}


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with running_gateway(kafka, database.url("gateway"), topic_prefix) as running:
        await running.organise("red", "blue")
        await running.call("PUT", "/v1/cohorts/all", {})
        for team in ("red", "blue"):
            nominal = {"gpu_milli": 8000, "cpu_milli": 64_000, "memory_mib": 65_536}
            body: dict = {"team": team, "cohort": "all"}
            body["flavors"] = [{"flavor": "h100", "nominal": nominal}]
            reply = await running.call(
                "PUT", f"/v1/queues/{team}", body, headers={"If-Match": '"2"'}
            )
            assert reply.status in {200, 412}, reply.body
        yield running


def queued(
    identifier: str,
    team: str = "red",
    *,
    priority: int = 0,
    after: int = 0,
    products: tuple[str, ...] = (),
) -> Fact:
    return telling.queued(
        identifier,
        team,
        pods=PodSet(gpu=GpuRequest(count=8), cpu_milli=4000, memory_mib=1024),
        at_ms=START + after,
        priority=priority,
        seconds=HOUR,
        products=products,
    )


def running(identifier: str, team: str, since_ms: int) -> list[Fact]:
    charge = Resources(gpu_milli=8000, cpu_milli=4000, memory_mib=1024)
    placement = Placement(flavor="h100", pods=(), charge=charge)
    return telling.started(
        identifier, team, placement=placement, at_ms=since_ms, submitted_at_ms=START
    )


def refused(identifier: str, **promised: int) -> Fact:
    fact = quotas.QuotaRefused(
        workload_id=identifier,
        team="red",
        queue="red",
        reason=Reason.WAITING_FOR_QUOTA,
        message="exceeded quota: all",
        next_step="wait",
        evidence={"requested_gpu_milli": 8000, **promised},
    )
    return topics.QUOTA_FACTS, fact


async def test_one_who_waits_is_told_his_place_his_limits_and_who_ends_next(gateway: Gateway):
    red, blue = await gateway.key("red", "viewer"), await gateway.key("blue", "viewer")
    facts = [
        queued("w1"),
        queued("w2", "blue"),
        *running("w1", "red", START + 100),
        *running("w2", "blue", START + 50),
        queued("w3", after=10, priority=5),
        queued("w4", after=5),
        queued("w6", after=9),
        queued("w5", after=9),
        refused("w6"),
        refused("w5", promised_start_ms=START),
    ]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)

        async def told():  # the facts are of three topics
            reply = await gateway.call("GET", "/v1/workloads/w6/why", key=red)
            whole = reply.body.get("reason") == "WaitingForQuota" and (
                (4, 2) == (reply.body["place"]["waiting"], len(reply.body["frees_next"]))
            )
            return reply if whole else None

        why = (await until(told)).body
        first = (await gateway.call("GET", "/v1/workloads/w3/why", key=red)).body
        untold = (await gateway.call("GET", "/v1/workloads/w4/why", key=red)).body
        promised = (await gateway.call("GET", "/v1/workloads/w5/why", key=red)).body
        hidden = await gateway.call("GET", "/v1/workloads/w6/why", key=blue)

    assert (4, 4, 24_000) == tuple(
        why["place"][name] for name in ("place", "waiting", "gpu_milli_ahead")
    )
    assert ["n-w3", "n-w4", "n-w5"] == [one["name"] for one in why["place"]["first"]]
    assert (1, []) == (first["place"]["place"], first["place"]["first"])
    assert "WaitingForQuota" == untold["reason"]
    assert "exceeded quota: all, requested: gpu=8, used: gpu=16" in untold["message"]
    assert untold["message"] == why["message"], "of now, whatever was recorded"
    assert ("exceeded quota: all", START) == (promised["message"], promised["promised_start_ms"])
    assert START + 9 == why["state_since"]
    levels = {one["name"]: one for one in why["limits"]}
    assert {"red": False, "all": True} == {name: one["blocks"] for name, one in levels.items()}
    assert 16_000 == levels["all"]["used"]["gpu_milli"]
    assert 0 == levels["all"]["available"]["gpu_milli"]
    ends = [one["ends_at_ms"] for one in why["frees_next"]]
    assert [START + 50 + HOUR * 1000, START + 100 + HOUR * 1000] == ends
    assert ["", "n-w1"] == [one["workload"]["name"] for one in why["frees_next"]]
    assert 8000 == why["frees_next"][0]["charge"]["gpu_milli"]
    assert 404 == hidden.status


async def test_who_wants_one_product_hears_nothing_of_flavors_without_it(gateway: Gateway):
    red = await gateway.key("red", "viewer")
    await gateway.call("PUT", "/v1/flavors/a100", {"products": ["A100"]})
    replaced = {"If-Match": '"1"'}
    await gateway.call("PUT", "/v1/flavors/h100", {"products": ["H100"]}, headers=replaced)
    plenty = {"gpu_milli": 64_000, "cpu_milli": 64_000, "memory_mib": 65_536}
    few = plenty | {"gpu_milli": 8000}
    flavors = [{"flavor": name, "nominal": own} for name, own in (("a100", plenty), ("h100", few))]
    body = {"team": "red", "cohort": "all", "flavors": flavors}
    reply = await gateway.call("PUT", "/v1/queues/red", body, headers={"If-Match": '"3"'})
    assert reply.status == 200, reply.body
    facts = [queued("w1"), *running("w1", "red", START), queued("w2", products=("H100",))]
    facts += [queued("w4", "blue"), *running("w4", "blue", START), queued("w3")]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)

        async def told():
            body = (await gateway.call("GET", "/v1/workloads/w2/why", key=red)).body
            return body if any(one["blocks"] for one in body.get("limits", ())) else None

        one = await until(told)
        any_product = (await gateway.call("GET", "/v1/workloads/w3/why", key=red)).body

    assert {"h100"} == {each["flavor"] for each in one["limits"]}
    assert ("WaitingForQuota", "") == (one["reason"], one["owed"])
    assert "h100" in one["message"], "of now: the other flavor, which has room, is not meant"
    assert {"a100", "h100"} == {each["flavor"] for each in any_product["limits"]}
    assert "Pending" == any_product["reason"]


async def test_behind_the_head_of_a_strict_queue_it_is_told_who_that_is_now(gateway: Gateway):
    red = await gateway.key("red", "viewer")
    nominal = {"gpu_milli": 8000, "cpu_milli": 64_000, "memory_mib": 65_536}
    body = {"team": "red", "cohort": "all", "strict": True}
    body["flavors"] = [{"flavor": "h100", "nominal": nominal}]
    reply = await gateway.call("PUT", "/v1/queues/red", body, headers={"If-Match": '"3"'})
    assert reply.status == 200, reply.body
    facts = [queued("w1"), *running("w1", "red", START), queued("w2", after=1)]
    facts += [queued("w3", after=2), refused("w3"), queued("w4", after=3)]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)

        async def told():
            body = (await gateway.call("GET", "/v1/workloads/w4/why", key=red)).body
            return body if (body.get("place") or {}).get("place") == 3 else None

        last = await until(told)
        second = (await gateway.call("GET", "/v1/workloads/w3/why", key=red)).body
        head = (await gateway.call("GET", "/v1/workloads/w2/why", key=red)).body

    assert ("BehindStrictHead", "BehindStrictHead") == (second["reason"], last["reason"])
    assert "queue red is strict: w2 is ahead and must start first" == last["message"]
    assert "BehindStrictHead" != head["reason"]


def told_of_quota() -> tuple[list[Fact], list[Fact]]:
    """Two of red run, with its debts, use and budget; what comes late is older, but of blue."""
    usage = quotas.QueueUsageTold(
        queue="red", gpu_seconds=7_200, at_ms=int(time.time() * 1000), half_life_ms=86_400_000
    )
    spent = quotas.BudgetTold(
        team="red",
        month="2026-11",
        percent=81,
        at_ms=START,
        at_limit=AtLimit.STOP,
        spent_gpu_milli_hours=81,
        limit_gpu_milli_hours=100,
        spent_microdollars=0,
        limit_microdollars=None,
    )
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


async def test_who_must_borrow_is_told_for_whose_debt_others_of_his_priority_go_first(
    gateway: Gateway,
):
    red, blue = await gateway.key("red", "viewer"), await gateway.key("blue", "viewer")
    owes = (topics.QUOTA_FACTS, quotas.DebtsTold(debts={"red": 31_250}, at_ms=START))
    more = (topics.QUOTA_FACTS, quotas.DebtsTold(debts={"blue": 900_000}, at_ms=START))
    facts = [queued("w1"), queued("w2"), queued("w5", priority=9), queued("w4", "blue")]
    facts += [*running("w1", "red", START), *running("w2", "red", START), queued("w3"), owes]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)

        async def told():  # the facts are of three topics, and both run for its share
            turn = (await gateway.call("GET", "/v1/workloads/w3/why", key=red)).body.get("turn")
            return turn if turn and turn["share_millionths"] == 500_000 else None

        turn = await until(told)
        higher = (await gateway.call("GET", "/v1/workloads/w5/why", key=red)).body
        await publish_facts(gateway.settings, [more], source="b", at_ms=START)

        async def turned():  # now blue owes more
            reply = await gateway.call("GET", "/v1/workloads/w3/why", key=red)
            return reply if reply.body["turn"] is None else None

        await until(turned)
        owed = (await gateway.call("GET", "/v1/workloads/w4/why", key=blue)).body

    assert ("red", "queue", 31_250, START, 1) == tuple(
        turn[one] for one in ("name", "kind", "debt_millionths", "debt_told_at_ms", "queues_ahead")
    )
    assert "owes 3.1 % of share, 1.0 GPU-hours of h100, beside the 50.0 %" in turn["message"]
    assert ("WaitingForQuota", None) == (higher["reason"], higher["turn"])
    assert ("queued", None) == (owed["state"], owed["turn"])
    assert "queue blue owns enough for it (it uses 0 of its 8 h100 GPUs)" in owed["owed"]
    assert "" == higher["owed"]


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


async def two_plans(gateway: Gateway) -> None:
    """The first runs out of its time, by the second w3 starts."""
    expired = plans.ReservationExpired(
        **PREEMPTOR, plan_id="p1", reason="timed-out", message="m", expired_at_ms=START + 9_000
    )
    facts = [queued("w1", "blue"), queued("w2", "red"), accepted_plan("p1"), accepted_plan("p2")]
    facts += [queued("w3"), *running("w3", "red", START + 500), (topics.WORKLOAD_FACTS, expired)]
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


async def test_of_an_elastic_gang_it_is_told_how_much_of_it_runs(gateway: Gateway):
    asked = PodSet(count=4, min_count=1, gpu=GpuRequest(count=8), cpu_milli=4000)
    few, all_of_it = (_on_nodes(count) for count in (2, 4))
    resized = workloads.WorkloadResized(
        **common("w1", 4, State.RUNNING), placement=all_of_it, resized_at_ms=START, resizes=1
    )

    async def told(placed_pods: int) -> tuple[int, int, str] | None:
        one = (await gateway.call("GET", "/v1/workloads/w1")).body
        if one.get("state") != "running" or one["placed_pods"] != placed_pods:
            return None
        message = (await gateway.call("GET", "/v1/workloads/w1/why")).body["message"]
        return one["pods"], one["placed_gpu_milli"], message

    async with running_projection(gateway.settings):
        started = telling.started("w1", placement=few, at_ms=START, submitted_at_ms=START)
        first = [telling.queued("w1", pods=asked, at_ms=START), *started]
        await publish_facts(gateway.settings, first, source="t1", at_ms=START)
        smaller = await until(lambda: told(2))
        whole = [(topics.WORKLOAD_FACTS, resized)]
        await publish_facts(gateway.settings, whole, source="t2", at_ms=START)
        larger = await until(lambda: told(4))

    assert (4, 16_000, "2 of its 4 pods run, as it is elastic") == smaller
    assert (4, 32_000, "its pods run") == larger


def _on_nodes(count: int) -> Placement:
    """Pods of eight GPUs, each on a node of its own."""
    shares = tuple(GpuShare(index=at, mask=255, milli=1000, memory_mib=0) for at in range(8))
    return Placement(
        flavor="h100",
        pods=tuple(
            PodPlacement(pod_set="main", rank=rank, node=f"n{rank}", shares=shares)
            for rank in range(count)
        ),
        charge=Resources(gpu_milli=8000 * count, cpu_milli=4000 * count),
    )


async def test_who_was_preempted_is_told_for_whom_and_the_past_is_told_as_it_was(
    gateway: Gateway,
):
    red = await gateway.key("red", "viewer")
    preemption = workloads.Preemption(
        plan_id="p", rule="reclaim", workload_id="w9", team="blue", queue="blue"
    )
    evicted = workloads.WorkloadEvicted(
        **common("w1", 4, State.EVICTING),
        reason="Reclaimed",
        message="blue takes back what it lent",
        preemption=preemption,
        back_at_ms=77,
    )
    requeued = workloads.WorkloadRequeued(
        **common("w1", 5, State.QUEUED), reason="Reclaimed", message="queues again"
    )
    facts = [queued("w1"), refused("w1"), *running("w1", "red", START + 100)]
    back = [(topics.WORKLOAD_FACTS, evicted), (topics.WORKLOAD_FACTS, requeued)]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        await publish_facts(gateway.settings, back, source="b", at_ms=START + 5_000)

        path = "/v1/workloads/w1/why?at="

        async def again():
            reply = await gateway.call("GET", "/v1/workloads/w1/why", key=red)
            return reply if reply.body.get("preempted_by") else None

        async def refusal():  # it and that it was queued come on topics of their own
            reply = await gateway.call("GET", f"{path}{START + 2}", key=red)
            whole = ("queued", "WaitingForQuota") == (reply.body["state"], reply.body["reason"])
            return reply if whole else None

        now, then = (await until(again)).body, (await until(refusal)).body
        between = (await gateway.call("GET", f"{path}{START + 500}", key=red)).body
        before = await gateway.call("GET", f"{path}{START - 1}", key=red)

    assert ("queued", "Reclaimed") == (now["state"], now["reason"])
    assert ("blue", "reclaim", 77) == tuple(
        now["preempted_by"][name] for name in ("team", "rule", "back_at_ms")
    )
    assert ("queued", "WaitingForQuota", None) == (then["state"], then["reason"], then["place"])
    assert ("running", "Running", None) == (
        between["state"],
        between["reason"],
        between["preempted_by"],
    )
    assert 400 == before.status
