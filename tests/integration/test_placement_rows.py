"""What placement writes, applied to real PostgreSQL: a reload finds the memory that wrote it.

Random histories again, each unit committed as the service would. Every refusal of the database
would be a disagreement between memory and ledger, so none may come.
"""

from __future__ import annotations

from dataclasses import fields
from random import Random
from typing import Any

import pytest

from services.placement.cycle import attempts, scheduling_cycle
from services.placement.handlers import PlacementHandler
from services.placement.state.records import Record
from services.placement.unit.cell_state import START_SECONDS
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.core.model.lifecycle import State
from shared.core.model.reason import Reason
from shared.core.model.team_policy import AtLimit
from shared.core.model.value import replace
from shared.core.nodes.shunning import ShunPolicy
from shared.events.nodes import NodeUnshunned
from shared.events.pods import PodsFinished, PodsGone, PodsRunning, PodsUnstarted
from shared.events.quotas import NominationWithdrawn
from shared.events.workloads import HoldWorkload, PlacementRefused
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    check,
    command,
    nominated,
    pod_fact,
    reported,
    sums_of,
)
from tests.support.placement_ledger import sums_agree
from tests.support.placement_story import Story
from tests.support.two_teams import budget_told

BATCHES = 60
RELOAD_EVERY = 6
ESTIMATES = ("began_at_ms", "expected_seconds", "likely_seconds")
"""After a reload the last change of a row is its begin: a guess, and no decision of the ledger."""


@pytest.fixture(autouse=True)
def bounds_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small bounds, so that a short history meets them."""
    monkeypatch.setattr(attempts, "TOLD_MAX", 1)
    monkeypatch.setattr(scheduling_cycle, "PLACED_MAX", 2)


@pytest.mark.parametrize("seed", range(6))
async def test_memory_and_rows_agree_through_a_random_history(pool: Pool, seed: int) -> None:
    store = await _store(pool)
    story, driver = Story(Random(seed), calm=seed % 2 == 1), Driver()
    written = 0
    for number in range(BATCHES):
        driver.send(*story.batch(driver))
        driver.wait(story.seconds())
        for unit in driver.units[written:]:
            await store.commit(unit)
        written = len(driver.units)
        await sums_agree(pool, driver.handler)
        if number % RELOAD_EVERY == RELOAD_EVERY - 1:
            loaded = PlacementHandler(cell=0, seed=0)
            await loaded.load(pool)
            _same(driver.handler, loaded)


@pytest.mark.parametrize("seed", range(100, 104))
async def test_a_service_that_reloads_all_the_time_breaks_nothing(pool: Pool, seed: int) -> None:
    store = await _store(pool)
    story, driver = Story(Random(seed), calm=seed % 2 == 1), Driver()
    written = 0
    for _ in range(BATCHES):
        driver.send(*story.batch(driver))
        driver.wait(story.seconds())
        for unit in driver.units[written:]:
            await store.commit(unit)
        written = len(driver.units)
        await driver.restart(pool)
        check(driver.handler)


async def test_a_hold_of_what_runs_outlives_a_reload(pool: Pool) -> None:
    store, driver = await _store(pool), Driver()
    driver.send(reported(a_node()), a_quota(), nominated(a_workload()))
    driver.send(pod_fact(PodsRunning, "w1"))
    await store.commit(driver.units[0])
    await store.commit(driver.units[1])
    driver.send(command(HoldWorkload, "w1"))
    await store.commit(driver.units[2])

    await driver.restart(pool)
    driver.send(pod_fact(PodsGone, "w1"))

    assert State.HELD is driver.state()


@pytest.mark.parametrize(
    ("reason", "pod_reason"),
    [("failed", "OOMKilled"), ("OOMKilled", "")],
    ids=["a row", "a row of before the column"],
)
async def test_what_was_said_of_a_pod_outlives_a_reload_and_an_upgrade(
    pool: Pool, reason: str, pod_reason: str
) -> None:
    store, driver = await _store(pool), Driver()
    driver.send(reported(a_node()), a_quota(), nominated(a_workload(max_retries=1)))
    driver.send(pod_fact(PodsFinished, "w1", succeeded=False, reason="OOMKilled"))
    for unit in driver.units:
        await store.commit(unit)
    rows = await pool.fetch("SELECT reason, pod_reason FROM placement.workload")
    change = "UPDATE placement.workload SET reason = $1, pod_reason = $2 RETURNING 1"
    await pool.fetch(change, reason, pod_reason)

    await driver.restart(pool)

    assert [("failed", "OOMKilled")] == [tuple(row.values()) for row in rows]
    record = driver.record()
    assert (Reason.FAILED, "OOMKilled") == (record.reason, record.pod_reason)


async def test_a_time_to_live_outlives_a_reload(pool: Pool) -> None:
    store, driver = await _store(pool), Driver()
    driver.send(reported(a_node()), a_quota(), nominated(a_workload(time_to_live_seconds=60)))
    driver.send(pod_fact(PodsRunning, "w1"))
    for unit in driver.units:
        await store.commit(unit)

    await driver.restart(pool)
    driver.wait(60)

    assert State.CANCELLING is driver.state()


async def test_a_promise_that_is_not_kept_is_told_once_also_after_a_reload(pool: Pool) -> None:
    store, driver = await _store(pool), Driver()
    driver.send(reported(a_node()), a_quota())
    driver.send(nominated(a_workload("w1", gpus=8, expected_duration_seconds=600)))
    driver.send(pod_fact(PodsRunning, "w1"))
    driver.send(nominated(a_workload("w2", gpus=8), order=1))
    promise = driver.handler.state.promises.of("w2")
    driver.send(NominationWithdrawn(workload_id="w2", nomination=1))
    written = 0

    async def reload() -> None:
        nonlocal written
        for unit in driver.units[written:]:
            await store.commit(unit)
        written = len(driver.units)
        await driver.restart(pool)

    await reload()
    driver.wait(700)
    told = driver.send(nominated(a_workload("w2", gpus=8), number=2, order=1))
    await reload()
    again = driver.send(nominated(a_workload("w2", gpus=8), number=3, order=1))
    rows = await pool.fetch("SELECT workload_id FROM placement.broken_promise")

    assert promise is not None
    first, second = [
        [one.evidence for one in some if isinstance(one, PlacementRefused)][-1]
        for some in (told, again)
    ]
    assert promise.promised_ms == first["broken_promise_ms"], "it was not told before the reload"
    assert "broken_promise_ms" not in second
    assert [] == rows


async def test_a_promised_start_and_its_nodes_outlive_a_reload(pool: Pool) -> None:
    store, driver = await _store(pool), Driver()
    driver.send(reported(a_node("n1")), reported(a_node("n2")), a_quota())
    driver.send(nominated(a_workload("w1", gpus=8, expected_duration_seconds=600)))
    driver.send(nominated(a_workload("w2", gpus=8, pod_count=2), order=1))
    for unit in driver.units:
        await store.commit(unit)
    before = driver.handler.state.promises.of("w2")
    assert before is not None
    assert driver.now_ms + 600_000 == before.promised_ms

    await driver.restart(pool)

    assert before == driver.handler.state.promises.of("w2")
    driver.send(nominated(a_workload("late", expected_duration_seconds=601), order=2))
    driver.send(nominated(a_workload("early", expected_duration_seconds=300), order=3))
    assert (State.QUEUED, State.PLACED) == (driver.state("late"), driver.state("early"))
    driver.send(pod_fact(PodsFinished, "w1", succeeded=True))
    driver.send(pod_fact(PodsFinished, "early", succeeded=True))
    assert State.PLACED is driver.state("w2")


async def test_what_a_spent_budget_leaves_outlives_a_reload(pool: Pool) -> None:
    store, driver = await _store(pool), Driver()
    spent = budget_told("red", 100)
    driver.send(
        spent,
        replace(spent, team="blue", at_limit=AtLimit.SPOT, spot_flavors=("cheap", "old")),
        replace(spent, team="green", at_limit=AtLimit.NOMINAL),
    )
    driver.send(replace(spent, team="green", at_ms=spent.at_ms + 1, percent=3))
    for unit in driver.units:
        await store.commit(unit)

    await driver.restart(pool)

    after = driver.handler.state.spent_budgets
    assert not after.may_grow("red", "cheap")
    assert [after.may_grow("blue", one) for one in ("cheap", "old", "h100")] == [True, True, False]
    assert (after.may_grow("green", "h100"), after.owned_only("green")) == (True, False)


async def test_a_shunned_node_and_who_goes_round_it_outlive_a_reload(pool: Pool) -> None:
    store, driver = await _store(pool), Driver(shun=ShunPolicy(seconds=300))
    driver.send(reported(a_node("n1")), reported(a_node("n2")), a_quota())
    driver.send(nominated(a_workload("a", team="red")), nominated(a_workload("b", team="blue")))
    bad = driver.placement("a").pods[0].node
    driver.wait(START_SECONDS + 1)
    driver.send(*(pod_fact(PodsUnstarted, name, ranks=(0,)) for name in ("a", "b")))
    driver.send(*(pod_fact(PodsGone, name) for name in ("a", "b")))
    for unit in driver.units:
        await store.commit(unit)
    committed = len(driver.units)

    await driver.restart(pool)

    check(driver.handler)
    assert (bad,) == driver.record("a").avoids
    assert driver.now_ms + 300_000 == driver.handler.shunning.next_due_ms()
    driver.send(nominated(a_workload("z")))
    assert bad != driver.placement("z").pods[0].node
    (opened,) = (one for one in driver.wait(300) if isinstance(one, NodeUnshunned))
    assert (bad, "expired") == (opened.node, opened.reason)
    driver.send(nominated(a_workload("y", gpus=8)))
    assert bad == driver.placement("y").pods[0].node
    driver.send(pod_fact(PodsRunning, "y"))
    for unit in driver.units[committed:]:
        await store.commit(unit)
    assert [] == await pool.fetch("SELECT * FROM placement.suspicion")
    assert ["a", "b"] == [
        row["workload_id"]
        for row in await pool.fetch("SELECT workload_id FROM placement.avoided ORDER BY 1")
    ]


async def _store(pool: Pool) -> PostgresStore:
    lease = PostgresLease(pool, "placement", "cell-0", "a", time_to_live_seconds=600)
    assert await lease.try_acquire()
    return PostgresStore(pool, lease)


def _same(kept: PlacementHandler, loaded: PlacementHandler) -> None:
    """Everything that a decision may depend on is as it was before the reload."""
    check(loaded)
    assert kept.state.cluster.digest() == loaded.state.cluster.digest()
    assert kept.fleet.generations == loaded.fleet.generations
    assert kept.fleet.present == loaded.fleet.present
    assert kept.state.usage.facts == loaded.state.usage.facts
    assert sums_of(kept.state.usage) == sums_of(loaded.state.usage)
    assert _rows(kept) == _rows(loaded)
    assert {name: _fields(one) for name, one in kept.state.records.alive.items()} == {
        name: _fields(one) for name, one in loaded.state.records.alive.items()
    }
    assert kept.state.records.over.keys() == loaded.state.records.over.keys()
    assert sorted(map(str, kept.state.promises.standing)) == sorted(
        map(str, loaded.state.promises.standing)
    )
    assert _deadlines(kept) == _deadlines(loaded)
    assert kept.shunning.suspicions == loaded.shunning.suspicions
    assert kept.fleet.shunned == loaded.fleet.shunned


def _rows(handler: PlacementHandler) -> dict[str, set[Any]]:
    usage = handler.state.usage
    return {name: set(usage.rows(name)) for name in usage.facts}


def _fields(record: Record) -> dict[str, Any]:
    compared = (one.name for one in fields(Record) if one.compare)
    return {name: getattr(record, name) for name in compared if name not in ESTIMATES}


def _deadlines(handler: PlacementHandler) -> set[tuple[str, str, int]]:
    return {
        (name, record.deadline_kind, record.deadline_ms)
        for name, record in handler.state.records.alive.items()
        if record.deadline_kind
    }
