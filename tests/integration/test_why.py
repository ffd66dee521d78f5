"""`why` on a real database: place, limits, who ends next, who took the room; and the past."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from services.gateway import neighbours
from shared.core.lifecycle import State
from shared.core.model import GpuRequest, GpuShare, Placement, PodPlacement, PodSet
from shared.core.preemption.plan import Obstacle
from shared.core.units import Resources
from shared.events import idleness, plans, quotas, topics, workloads
from tests.fixtures.servers import Database
from tests.support import facts as telling
from tests.support.facts import Fact, common
from tests.support.gateway import SPEC, Gateway, publish_facts, running_projection, until
from tests.support.two_teams import (
    HOUR,
    START,
    budget_told,
    queued,
    refused,
    running,
    two_teams,
)

LATER = START + 24 * HOUR * 1000


@pytest.fixture
async def gateway(kafka: str, database: Database, topic_prefix: str) -> AsyncIterator[Gateway]:
    async with two_teams(kafka, database, topic_prefix) as running_one:
        yield running_one


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
            body = (await gateway.call("GET", "/v1/workloads/w6/why", key=red)).body
            if body.get("reason") != "WaitingForQuota":
                return None
            used = max(
                one["used"]["gpu_milli"] for one in body["limits"]
            )  # the tree is remembered for a second
            seen = (body["place"]["waiting"], len(body["frees_next"]), used)
            return body if seen == (4, 2, 16_000) else None

        why = await until(told)
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
    assert ([], ["gpu_milli"]) == (levels["red"]["lacks"], levels["all"]["lacks"])
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
    await gateway.call("PUT", "/v1/flavors/cheap", {"products": ["A100"], "spot": True})
    await gateway.call("PUT", "/v1/flavors/bare", {})
    bare = plenty | {"gpu_milli": 0}
    owned = (("a100", plenty), ("h100", few), ("cheap", plenty), ("bare", bare))
    flavors = [{"flavor": name, "nominal": own} for name, own in owned]
    body = {"team": "red", "cohort": "all", "flavors": flavors}
    reply = await gateway.call("PUT", "/v1/queues/red", body, headers={"If-Match": '"3"'})
    assert reply.status == 200, reply.body
    facts = [queued("w1"), queued("w3"), queued("w4", "blue"), *running("w4", "blue", START)]
    facts += [*running("w1", "red", START), queued("w2", products=("H100",))]

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
    assert {"a100", "h100"} == {each["flavor"] for each in any_product["limits"]}, (
        "no GPUs in bare"
    )
    assert "Pending" == any_product["reason"]
    assert ([], ["cheap"]) == (one["spot_left_out"], any_product["spot_left_out"])


async def test_a_budget_is_told_once_the_team_was_warned_of_it(gateway: Gateway):
    red, blue = await gateway.key("red", "viewer"), await gateway.key("blue", "viewer")
    told = [
        (topics.QUOTA_FACTS, budget_told(team, at)) for team, at in (("red", 80), ("blue", 79))
    ]

    async with running_projection(gateway.settings):
        facts = [*told, queued("w1"), queued("w2", "blue")]
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)

        async def answer(workload: str, key: str):
            body = (await gateway.call("GET", f"/v1/workloads/{workload}/why", key=key)).body
            return body if body.get("place") and (body["budget"] or key == blue) else None

        warned = await until(lambda: answer("w1", red))
        not_yet = await until(lambda: answer("w2", blue))

    assert (80, "2026-11", 100_000) == tuple(
        warned["budget"][one] for one in ("percent", "month", "limit_gpu_milli_hours")
    )
    assert not_yet["budget"] is None


async def test_who_wants_what_others_own_and_use_hears_so_and_not_of_nodes(gateway: Gateway):
    red = await gateway.key("red", "viewer")
    size = PodSet(count=2, gpu=GpuRequest(count=8), cpu_milli=4000, memory_mib=1024)
    wide = telling.queued("w2", pods=size, at_ms=START)
    no_room = [
        telling.refused("w2", "no nodes", "wait for nodes", {}),
        telling.refused("w3", "no nodes", "wait for nodes", {}),
    ]
    facts = [queued("w1", "blue"), *running("w1", "blue", START), wide, queued("w3"), *no_room]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)

        async def told():
            body = (await gateway.call("GET", "/v1/workloads/w3/why", key=red)).body
            return body if body.get("reason") == "InsufficientCapacity" else None

        async def counted():
            body = (await gateway.call("GET", "/v1/workloads/w2/why", key=red)).body
            return body if body.get("reason") == "WaitingForQuota" else None

        owed = await until(told)
        beyond = await until(counted)  # the tree is remembered for a second
        behind = (await gateway.call("GET", "/v1/workloads/w3/eta", key=red)).body
        never = (await gateway.call("GET", "/v1/workloads/w2/eta", key=red)).body

    assert "no nodes" == owed["message"]
    assert ("WaitingForQuota", 1) == (beyond["reason"], len(beyond["history"]))
    assert beyond["message"].startswith(
        "others own and use gpu=8 of the gpu=16 of all (flavor h100)"
    )
    assert (None, beyond["message"]) == (never["start"], never["message"])
    assert behind["message"].startswith("too little like it has started")
    assert beyond["next_step"].startswith("starts when others use gpu=8 less of what they own")


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
    assert "queue red is strict: n-w2 is ahead and must start first" == last["message"]
    assert "BehindStrictHead" != head["reason"]


async def test_who_began_to_run_is_no_longer_named_ahead_however_long_names_are_remembered(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(neighbours, "FRESH_SECONDS", 60)
    red = await gateway.key("red", "viewer")

    async def place(number: int) -> list[str] | None:
        body = (await gateway.call("GET", "/v1/workloads/w3/why", key=red)).body
        found = body.get("place") or {"place": 0}
        return [one["name"] for one in found["first"]] if found["place"] == number else None

    async with running_projection(gateway.settings):
        waiting = [queued("w1"), queued("w2", after=1), queued("w3", after=2)]
        await publish_facts(gateway.settings, waiting, source="a", at_ms=START)
        before = await until(partial(place, 3))
        begun = running("w1", "red", START)
        await publish_facts(gateway.settings, begun, source="b", at_ms=START)
        after = await until(partial(place, 2))

    assert (["n-w1", "n-w2"], ["n-w2"]) == (before, after)


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


async def test_who_waits_for_what_nobody_may_be_evicted_from_hears_so_and_so_do_his_equals(
    gateway: Gateway,
):
    blue = await gateway.key("blue", "viewer")
    small = PodSet(gpu=GpuRequest(count=1), cpu_milli=4000, memory_mib=1024)
    facts = [
        queued("w1"),
        queued("w2"),
        *running("w1", "red", START),
        *running("w2", "red", START),
    ]
    facts += [queued(name, "blue", after=at) for at, name in enumerate(("w3", "w4"))]
    facts += [queued("w5", "blue", products=("H100",))]
    facts += [telling.queued("w6", "blue", pods=small, at_ms=START)]

    async def answer(workload: str, obstacle: str | None):
        """Once it is so; the facts are of several topics."""
        body = (await gateway.call("GET", f"/v1/workloads/{workload}/why", key=blue)).body
        if not body.get("place") or (body["no_eviction"] or {}).get("obstacle") != obstacle:
            return None
        evicts = "are evicted for it" in body["owed"]
        return body if obstacle or evicts or workload == "w5" else None

    async def tell(source: str, *facts: Fact) -> None:
        await publish_facts(gateway.settings, facts, source=source, at_ms=int(time.time() * 1000))

    async with running_projection(gateway.settings):
        await tell("a", *facts, not_evicted("w3", retry_at_ms=LATER))
        first = await until(lambda: answer("w3", "VictimsNotEvictable"))
        equal = await until(lambda: answer("w4", "VictimsNotEvictable"))
        for other in ("w5", "w6"):
            assert await until(partial(answer, other, None))
        await tell("b", not_evicted("w3", obstacle=Obstacle.FITS))
        assert await until(lambda: answer("w3", None))
        late = not_evicted("w4", version=7, obstacle=Obstacle.POLICY)
        await tell("c", late, not_evicted("w3"))
        assert await until(lambda: answer("w4", "VictimsNotEvictable"))
        held = workloads.WorkloadHeld(**common("w3", 2, State.HELD, "blue"))
        await tell("d", (topics.WORKLOAD_FACTS, held))
        assert await until(lambda: answer("w4", None))

    assert (LATER, {"spared_gpu_milli": 8000}) == tuple(
        first["no_eviction"][one] for one in ("retry_at_ms", "evidence")
    )
    assert "8 GPUs are not preemptible, which may change at" in first["owed"]
    assert first["owed"].endswith("; wait until they end")
    assert "VictimsNotEvictable" != first["reason"], "it is no other reason to wait"
    assert "VictimsNotEvictable" in [one["reason"] for one in first["history"]]
    assert first["no_eviction"] == equal["no_eviction"]


def not_evicted(identifier: str, **changed: Any) -> Fact:
    """Nobody may go for a workload of blue."""
    fields: dict[str, Any] = {"workload_id": identifier, "team": "blue", "queue": "blue"}
    fields |= {"version": 1, "obstacle": Obstacle.NOT_EVICTABLE, "flavor": "h100"}
    fields |= {"message": "h100: 8 GPUs are not preemptible.", "next_step": "wait until they end"}
    fields |= {"evidence": {"spared_gpu_milli": 8000}} | changed
    return topics.PREEMPTION_FACTS, plans.PreemptionRefused(**fields)


async def test_what_is_being_stopped_frees_next_unless_it_is_kept_for_another(gateway: Gateway):
    operator = gateway.operator_key
    now_ms = int(time.time() * 1000)
    names = ("w1", "w2", "w3")
    facts = [queued(name) for name in names]
    facts += [one for name in names for one in running(name, "red", START)]
    facts += [queued("w4", "blue"), queued("w5", "blue")]
    taken = workloads.Preemption(
        plan_id="p", rule="reclaim", workload_id="w4", team="blue", queue="blue"
    )
    stopping = [
        workloads.WorkloadEvicted(**common("w1", 4, State.EVICTING), preemption=taken),
        workloads.WorkloadCancelling(**common("w2", 4, State.CANCELLING)),
    ]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        both = [(topics.WORKLOAD_FACTS, one) for one in stopping]
        await publish_facts(gateway.settings, both, source="b", at_ms=now_ms)

        async def told(workload: str, *states: str):
            path = f"/v1/workloads/{workload}/why"
            frees = (await gateway.call("GET", path, key=operator)).body.get("frees_next") or []
            return frees if [one["state"] for one in frees] == list(states) else None

        mine = await until(lambda: told("w4", "evicting", "cancelling", "running"))
        await until(lambda: told("w5", "cancelling", "running"))

    assert now_ms + 30_000 < mine[0]["ends_at_ms"] < now_ms + 31_000
    assert 8000 == mine[0]["charge"]["gpu_milli"]


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
        if one["pods"] is None:
            return None  # what was asked for comes on another topic, in its own time
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


async def test_that_its_key_came_again_with_another_body_hides_nothing(gateway: Gateway):
    made = await gateway.call("POST", "/v1/workloads?team=red", SPEC)
    received = made.body["id"]
    idle = idleness.IdlenessNoticed(
        workload_id="w1", team="red", queue="red", attempt=1, since_ms=START, until_ms=START,
        utilization_percent=1, percent_below=5,
    )  # fmt: skip

    def conflict(identifier: str) -> Fact:
        told = workloads.SubmissionConflicted(workload_id=identifier, team="red", message="used")
        return topics.QUEUE_FACTS, told

    async def told(workload: str, count: int, state: str):
        body = (await gateway.call("GET", f"/v1/workloads/{workload}/why")).body
        known = (state, count) == (body.get("state"), len(body.get("history", ())))
        return body if known else None

    async with running_projection(gateway.settings):
        facts = [queued("w1"), *running("w1", "red", START), (topics.IDLENESS_FACTS, idle)]
        await publish_facts(gateway.settings, facts, source="a", at_ms=START)
        warned = await until(partial(told, "w1", 1, "running"))
        again = [conflict("w1"), conflict(received)]
        await publish_facts(gateway.settings, again, source="b", at_ms=START + 1000)
        still = await until(partial(told, "w1", 2, "running"))
        waits = await until(partial(told, received, 1, "received"))

    assert ("idle", "idle") == (warned["reason"], still["reason"])
    assert ("Received", "Conflicted") == (waits["reason"], waits["history"][0]["reason"])


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
