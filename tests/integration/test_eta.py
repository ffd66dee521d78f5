"""`eta` on a real database: ranges of like work, the user's word, a promise, what is missing."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from msgspec.structs import replace

from shared.core.model.nouns import GpuRequest, Placement, PodSet
from shared.core.model.units import Resources
from shared.events import topics, workloads
from tests.support import facts as telling
from tests.support.facts import Fact
from tests.support.gateway import (
    Gateway,
    publish_facts,
    running_projection,
    until,
)
from tests.support.two_teams import budget_told

MINUTE_MS = 60_000
LONG_AGO = int(time.time() * 1000) - 600 * MINUTE_MS


def queued(name: str, at_ms: int, *, seconds: int | None = None) -> Fact:
    pods = PodSet(gpu=GpuRequest(count=1))
    return telling.queued(name, pods=pods, at_ms=at_ms, seconds=seconds)


def started(name: str, submitted_ms: int, waited_ms: int) -> list[Fact]:
    placement = Placement(flavor="h100", pods=(), charge=Resources(gpu_milli=1000))
    at_ms = submitted_ms + waited_ms
    return telling.started(name, placement=placement, at_ms=at_ms, submitted_at_ms=submitted_ms)


def history(minutes: range) -> list[Fact]:
    """Workloads that waited so many minutes each."""
    facts = []
    for number, waited in enumerate(minutes):
        name = f"h{number}"
        facts.append(queued(name, LONG_AGO))
        facts += started(name, LONG_AGO, waited * MINUTE_MS)
    return facts


def promise(name: str, start_ms: int) -> Fact:
    return telling.refused(name, "promised", "wait", {"promised_start_ms": start_ms})


async def asked(gateway: Gateway, name: str, key: str, version: int = 1) -> dict[str, Any]:
    """The answer, once the read model knows the workload in this version."""

    async def known() -> bool:
        reply = await gateway.call("GET", f"/v1/workloads/{name}", key=key)
        return reply.status == 200 and reply.body["version"] >= version

    await until(known)
    reply = await gateway.call("GET", f"/v1/workloads/{name}/eta", key=key)
    assert reply.status == 200, reply.body
    return dict(reply.body)


async def test_a_start_is_told_by_what_like_work_waited_and_an_end_by_the_users_word(
    gateway: Gateway,
):
    key = await gateway.key("red", "viewer")
    now_ms = int(time.time() * 1000)
    facts = [
        promise("w2", now_ms + 45 * MINUTE_MS),  # before what is waited for, in one topic
        *history(range(10, 20)),
        queued("w1", now_ms, seconds=600),
        queued("w2", now_ms),
        queued("w3", LONG_AGO),
    ]
    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="a", at_ms=now_ms)
        await asked(gateway, "h9", key, 3)
        one, two, three = [await asked(gateway, name, key) for name in ("w1", "w2", "w3")]
        runs = await asked(gateway, "h0", key, 3)

    start, end = one["start"], one["end"]
    assert ("queue and size", 10) == (start["basis"], start["samples"])
    assert abs(start["p50_ms"] - now_ms - 14 * MINUTE_MS) < MINUTE_MS
    assert abs(start["p90_ms"] - now_ms - 18 * MINUTE_MS) < MINUTE_MS
    assert "queue and size, then stated" == end["basis"]
    assert 10 * MINUTE_MS == end["p50_ms"] - start["p50_ms"]
    promised = {"at_ms": now_ms + 45 * MINUTE_MS, "basis": "promise", "samples": 10}
    assert promised == two["earliest_start"], "no like work waited beyond it: there is no spread"
    assert (None, None) == (two["start"], two["end"])
    assert one["earliest_start"] is None
    assert "expected_duration_seconds" in two["message"]
    assert three["start"] is None
    assert "too little like it" in three["message"]
    assert (None, None) == (runs["start"], runs["end"])


async def test_without_history_the_expected_ends_of_what_runs_speak(gateway: Gateway):
    now_ms = int(time.time() * 1000)
    facts: list[Fact] = []
    for number, seconds in enumerate((600, 1_200, 1_800)):
        facts.append(queued(f"r{number}", now_ms, seconds=seconds))
        facts += started(f"r{number}", now_ms, 0)
    facts += [queued("w4", now_ms + 1), queued("w5", now_ms + 2)]
    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="c", at_ms=now_ms)
        await asked(gateway, "r2", gateway.operator_key, 3)
        first, second = [await asked(gateway, one, gateway.operator_key) for one in ("w4", "w5")]

    told = [(one["earliest_start"], one["start"], one["end"]) for one in (first, second)]
    for (earliest, *rest), seconds in zip(told, (600, 1_200), strict=True):
        assert ("expected ends", now_ms + 1000 * seconds) == (earliest["basis"], earliest["at_ms"])
        assert [None, None] == rest, "others may come first: nothing says when, but not before"


async def test_what_waits_behind_a_limit_starts_by_the_ends_of_those_who_use_it(gateway: Gateway):
    now_ms = int(time.time() * 1000)
    pods = PodSet(gpu=GpuRequest(count=4))

    def asks(name: str, team: str, seconds: int) -> Fact:
        return telling.queued(name, team, pods=pods, at_ms=now_ms, seconds=seconds)

    charge = Placement(flavor="h100", pods=(), charge=Resources(gpu_milli=4000))
    facts: list[Fact] = []
    runs = {"r1": ("blue", 1_800), "r2": ("blue", 2_400), "r3": ("red", 1_200)}
    runs |= {"r4": ("green", 1_500), "r5": ("grey", 600)}
    for name, (team, seconds) in runs.items():
        facts.append(asks(name, team, seconds))
        facts += telling.started(
            name, team, placement=charge, at_ms=now_ms, submitted_at_ms=now_ms
        )
    facts += [asks("w1", "blue", 60), asks("w2", "red", 60), asks("w3", "green", 60)]

    async def limit(team: str, cohort: str, gpu_milli: int) -> None:
        flavors = [{"flavor": "h100", "nominal": {"gpu_milli": gpu_milli}}]
        body = {"team": team, "cohort": cohort, "flavors": flavors}
        reply = await gateway.call("PATCH", f"/v1/queues/{team}", body)
        assert reply.status == 200, reply.body

    await gateway.organise("green")
    await gateway.call("PATCH", "/v1/cohorts/pair", {})
    await limit("red", "pair", 4_000)
    await limit("green", "pair", 4_000)

    async def told(name: str) -> Any:
        """Once all is read that it rests on."""
        return (await asked(gateway, name, gateway.operator_key))["earliest_start"]

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="c", at_ms=now_ms)
        await asked(gateway, "r5", gateway.operator_key, 3)
        found = [await until(partial(told, name)) for name in ("w1", "w2", "w3")]

    assert [1_800, 1_200, 1_200] == [(one["at_ms"] - now_ms) // 1000 for one in found], (
        "blue by its own queue's first end; red and green by the first end in their cohort"
    )
    assert {"expected ends"} == {one["basis"] for one in found}


async def test_where_nothing_is_started_no_start_is_told_and_that_instead(gateway: Gateway):
    now_ms = int(time.time() * 1000)
    facts = [*history(range(10, 20)), promise("w2", now_ms + 45 * MINUTE_MS)]
    facts += [queued("w1", now_ms, seconds=600), queued("w2", now_ms)]

    async def change(version: int, **changed: Any) -> None:
        body = {"flavors": [{"flavor": "h100"}], "held": None, "draining": None, **changed}
        match = {"If-Match": f'"{version}"'}
        reply = await gateway.call("PATCH", "/v1/queues/red", body, headers=match)
        assert reply.status == 200, reply.body

    async def told(name: str, words: str) -> dict[str, Any] | None:
        """Once it says so: documents and the tree are remembered for a second."""
        found = await asked(gateway, name, gateway.operator_key)
        return found if words in found["message"] else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="d", at_ms=now_ms)
        await asked(gateway, "h9", gateway.operator_key, 3)
        free = await asked(gateway, "w1", gateway.operator_key)
        version = (await gateway.call("GET", "/v1/queues/red")).body["version"]
        await change(version, held=True)
        held = await until(partial(told, "w1", "queue red is held: nothing of it is started"))
        promised = await until(partial(told, "w2", "queue red is held: nothing of it is started"))
        await change(version + 1, draining=True)
        drained = await until(partial(told, "w1", "queue red is drained"))
        await change(version + 2)
        spent = [(topics.QUOTA_FACTS, budget_told("red", 100))]
        await publish_facts(gateway.settings, spent, source="e", at_ms=now_ms)
        stopped = await until(partial(told, "w1", "nothing is started"))

    assert free["start"] is not None
    assert [(None, None)] * 4 == [
        (one["start"], one["end"]) for one in (held, promised, drained, stopped)
    ]
    assert (
        "budget of team red for 2026-11 is spent (100 GPU-hours): until 2026-12-01 00:00 UTC"
        " nothing is started" == stopped["message"]
    )


async def test_past_its_estimate_the_limit_is_told_or_that_it_runs_longer(gateway: Gateway):
    now_ms = int(time.time() * 1000)
    said: dict[str, tuple[int | None, int | None]] = {
        "expected": (3_600, None),
        "limited": (3_600, 72_000),
        "over": (3_600, 7_200),
        "unsaid": (None, None),
    }
    facts: list[Fact] = []
    for name, (seconds, most) in said.items():
        facts += [with_limit(queued(name, LONG_AGO, seconds=seconds), most)]
        facts += started(name, LONG_AGO, 0)

    async def answer(name: str) -> dict[str, Any] | None:
        """Once what was asked for is known as well; it comes on another topic."""
        found = await asked(gateway, name, gateway.operator_key, 3)
        whole = (await gateway.call("GET", f"/v1/workloads/{name}")).body["pods"] is not None
        return found if whole else None

    async with running_projection(gateway.settings):
        await publish_facts(gateway.settings, facts, source="f", at_ms=now_ms)
        told = {name: await until(partial(answer, name)) for name in said}

    assert "it has run longer than the 3600 s that were expected" == told["expected"]["message"]
    end, last_ms = told["limited"]["end"], LONG_AGO + 72_000_000
    assert (last_ms, last_ms, "stated", "") == (
        end["p50_ms"],
        end["p90_ms"],
        end["basis"],
        told["limited"]["message"],
    )
    assert (
        "it has run for the 7200 s that it may at most, and is stopped"
        == (told["over"]["message"])
    )
    assert "nothing says how long it will run" in told["unsaid"]["message"]


def with_limit(fact: Fact, seconds: int | None) -> Fact:
    """The same workload, which may run no longer."""
    topic, told = fact
    assert isinstance(told, workloads.WorkloadQueued)
    spec = replace(told.workload.spec, max_duration_seconds=seconds)
    return topic, replace(told, workload=replace(told.workload, spec=spec))


async def test_another_team_learns_nothing(gateway: Gateway):
    key, other = await gateway.key("red", "viewer"), await gateway.key("blue", "viewer")
    async with running_projection(gateway.settings):
        facts = [queued("x1", LONG_AGO)]
        await publish_facts(gateway.settings, facts, source="b", at_ms=LONG_AGO)
        await asked(gateway, "x1", key)
        reply = await gateway.call("GET", "/v1/workloads/x1/eta", key=other)

    assert reply.status in {403, 404}
