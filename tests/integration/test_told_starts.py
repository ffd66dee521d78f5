"""What is told of starts is scored by its basis on a real database, by one gateway of several."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest
from prometheus_client import REGISTRY

from services.gateway.app import told_starts
from services.gateway.app.told_starts import ToldStart, ToldStarts, score
from shared.adapters.postgres.pool import Database as Pool
from shared.core.backfill.eta import BASES_OF_STARTS, Range
from shared.core.model.nouns import GpuRequest, Placement, PodSet
from shared.core.model.units import Resources
from tests.fixtures.servers import Database
from tests.support import facts as telling
from tests.support.facts import Fact
from tests.support.gateway import (
    Gateway,
    publish_facts,
    running_gateway,
    running_projection,
    until,
)

MINUTE_MS = 60_000
LONG_AGO = int(time.time() * 1000) - 600 * MINUTE_MS


def queued(name: str, team: str, gpus: int, at_ms: int, seconds: int | None = None) -> Fact:
    pods = PodSet(gpu=GpuRequest(count=gpus))
    return telling.queued(name, team, pods=pods, at_ms=at_ms, seconds=seconds)


def started(name: str, team: str, submitted_ms: int, at_ms: int) -> list[Fact]:
    placement = Placement(flavor="h100", pods=(), charge=Resources(gpu_milli=1000))
    return telling.started(
        name, team, placement=placement, at_ms=at_ms, submitted_at_ms=submitted_ms
    )


def scored(basis: str) -> tuple[float, float]:
    """(how many starts, the sum of their errors in seconds)."""
    name, labels = "muster_eta_error_seconds", {"basis": basis}
    count, total = [
        REGISTRY.get_sample_value(f"{name}_{one}", labels) or 0 for one in ("count", "sum")
    ]
    return count, total


async def test_every_basis_is_scored_once_also_by_a_gateway_that_was_not_asked(
    kafka: str, database: Database, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
):
    """Red's like work waited ten minutes; of other sizes its queue is known; blue has ends."""
    monkeypatch.setattr(told_starts, "ROUND_SECONDS", 0.2)
    before = {basis: scored(basis) for basis in BASES_OF_STARTS}
    now_ms = int(time.time() * 1000)
    facts = [telling.refused("promised", "no room", "wait", {"promised_start_ms": now_ms + 1_000})]
    for number in range(9):
        facts.append(queued(f"h{number}", "red", 1, LONG_AGO))
        facts += started(f"h{number}", "red", LONG_AGO, LONG_AGO + 10 * MINUTE_MS)
    facts += [queued("runs", "blue", 1, now_ms, seconds=600)]
    facts += started("runs", "blue", now_ms, now_ms)
    asked = {"alike": ("red", 1), "other": ("red", 4), "ends": ("blue", 1), "promised": ("red", 8)}
    facts += [queued(name, team, gpus, now_ms) for name, (team, gpus) in asked.items()]
    bases: dict[str, str] = {}

    async def told(gateway: Gateway, name: str) -> str | None:
        reply = await gateway.call("GET", f"/v1/workloads/{name}/eta")
        if reply.status != 200 or reply.body["state"] != "queued":
            return None
        found = reply.body["start"] or reply.body["earliest_start"]
        return found and str(found["basis"])

    async def rows() -> list[str]:
        text = await asyncio.to_thread(
            database.execute, "SELECT basis FROM gateway.told_start ORDER BY basis"
        )
        return text.split("\n") if text else []

    async def all_are_kept() -> bool:
        return await rows() == sorted(BASES_OF_STARTS)

    async def all_are_scored() -> bool:
        return not await rows()

    url = database.url("gateway")
    async with running_gateway(kafka, url, topic_prefix) as gateway:
        await gateway.organise("red", "blue")
        async with running_projection(gateway.settings):
            await publish_facts(gateway.settings, facts, source="a", at_ms=now_ms)
            for name in asked:
                bases[name] = await until(partial(told, gateway, name))
            await until(all_are_kept)
    assert {"alike": "queue and size", "other": "queue", "ends": "expected ends"} == {
        name: basis for name, basis in bases.items() if name != "promised"
    }
    async with running_gateway(kafka, url, topic_prefix) as gateway:
        at_ms = now_ms + 2 * MINUTE_MS  # after all was told, however slow the gateways were
        starts = [
            fact
            for name, (team, _) in asked.items()
            for fact in started(name, team, now_ms, at_ms)
        ]
        async with running_projection(gateway.settings):
            await publish_facts(gateway.settings, starts, source="b", at_ms=at_ms)
            await until(all_are_scored)

    late = {basis: scored(basis)[1] - before[basis][1] for basis in BASES_OF_STARTS}
    assert {basis: before[basis][0] + 1 for basis in BASES_OF_STARTS} == {
        basis: scored(basis)[0] for basis in BASES_OF_STARTS
    }
    assert 78 < late["promise"] < 120, "it was told for the next moment"
    for basis in ("queue and size", "queue", "expected ends"):
        assert 475 < late[basis] < 485, f"{basis}: eight minutes before the ten that were told"


async def test_of_two_gateways_one_scores_and_what_never_starts_is_forgotten(database: Database):
    pools = [Pool(database.url("gateway")) for _ in range(2)]
    names = [f"w{number}" for number in range(200)]
    database.execute(
        "INSERT INTO gateway.workload (id, team, submitted_at_ms, changed_at_ms, live, version,"
        " state, attempt, placed_at_ms) SELECT 'w' || n, 'red', 0, 0, n <> 7, 1, 'queued', 1,"
        " CASE WHEN n < 7 OR n > 8 THEN 5000 END FROM generate_series(0, 199) n"
    )
    told = ToldStarts()
    for name in names:
        row = {"id": name, "placed_at_ms": None}
        told.note(row, Range(p50_ms=1_000, p90_ms=2_000, basis="queue"), 1_000)
        told.note(row, Range(p50_ms=9_000, p90_ms=9_000, basis="queue"), 2_000)
    before = scored("queue")
    try:
        await told.keep(pools[0])
        gone = await asyncio.gather(*(score(one) for one in pools for _ in range(3)))
        left = database.execute("SELECT * FROM gateway.told_start").split("\n")
    finally:
        for one in pools:
            await one.close()

    count, seconds = scored("queue")
    assert (199, 198) == (sum(gone), count - before[0]), "one was cancelled, another still waits"
    assert 198 * 3 == round(seconds - before[1]), "against the first that each was told"
    assert ["|".join(map(str, ToldStart("w8", "queue", 2_000, 3_000, 1_000)))] == left


async def test_what_waits_in_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(told_starts, "WAITING_MAX", 2)
    told, kept = ToldStarts(), []

    class Rows:
        async def fetch(self, _: str, *columns):
            kept.append(columns[0])
            return []

    for name in ("w1", "w2", "w3"):
        row = {"id": name, "placed_at_ms": None}
        told.note(row, Range(p50_ms=1, p90_ms=2, basis="queue"), 0)
    ran = {"id": "w1", "placed_at_ms": 5}
    told.note(ran, Range(p50_ms=1, p90_ms=2, basis="promise"), 0)
    await told.keep(Rows())
    await told.keep(Rows())

    assert [["w1", "w2"]] == kept
