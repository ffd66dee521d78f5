"""`why` on a real database of who waits: place, limits, who ends next, whose turn it is."""

from __future__ import annotations

from functools import partial

import pytest

from services.gateway.why import neighbours
from shared.core.model.nouns import GpuRequest, PodSet
from shared.events import quotas, topics
from tests.support import facts as telling
from tests.support.gateway import Gateway, publish_facts, running_projection, until
from tests.support.two_teams import (
    LASTS,
    START,
    budget_told,
    queue_of,
    queued,
    refused,
    running,
)


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
        refused("w5", promised_start_ms=START),
        refused("w6"),  # what is waited for comes last
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
    assert [START + 50 + LASTS * 1000, START + 100 + LASTS * 1000] == ends
    assert ["", "n-w1"] == [one["workload"]["name"] for one in why["frees_next"]]
    assert 8000 == why["frees_next"][0]["charge"]["gpu_milli"]
    assert 404 == hidden.status


async def test_who_wants_one_product_hears_nothing_of_flavors_without_it(gateway: Gateway):
    red = await gateway.key("red", "viewer")
    await gateway.call("PATCH", "/v1/flavors/a100", {"products": ["A100"]})
    replaced = {"If-Match": '"1"'}
    await gateway.call("PATCH", "/v1/flavors/h100", {"products": ["H100"]}, headers=replaced)
    plenty = {"gpu_milli": 64_000, "cpu_milli": 64_000, "memory_mib": 65_536}
    few = plenty | {"gpu_milli": 8000}
    await gateway.call("PATCH", "/v1/flavors/cheap", {"products": ["A100"], "spot": True})
    await gateway.call("PATCH", "/v1/flavors/bare", {})
    bare = plenty | {"gpu_milli": 0}
    owned = (("a100", plenty), ("h100", few), ("cheap", plenty), ("bare", bare))
    flavors = [{"flavor": name, "nominal": own} for name, own in owned]
    body = {"team": "red", "cohort": "all", "flavors": flavors}
    reply = await gateway.call("PATCH", "/v1/queues/red", body, headers={"If-Match": '"3"'})
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
    body = queue_of("red", strict=True)
    reply = await gateway.call("PATCH", "/v1/queues/red", body, headers={"If-Match": '"3"'})
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
            whole = turn and turn["share_millionths"] == 500_000 and turn["debt_told_at_ms"]
            return turn if whole else None

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
    assert (
        "a deficit of 3.1 % of share, 1.0 GPU-hours of h100, beside the 50.0 %" in turn["message"]
    )
    assert ("WaitingForQuota", None) == (higher["reason"], higher["turn"])
    assert ("queued", None) == (owed["state"], owed["turn"])
    assert "queue blue owns enough for it (it uses 0 of its 8 h100 GPUs)" in owed["owed"]
    assert "" == higher["owed"]
