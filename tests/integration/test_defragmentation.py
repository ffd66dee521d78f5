"""Moves for a waiting workload, planned from placement's rows in real PostgreSQL."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from services.placement.offline.defragmentation import NotWaiting, plan_for
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.core.model.value import replace
from shared.core.preemption.defragmentation.defragment import DefragmentationObstacle, NoPlan, Plan
from shared.events.nodes import CordonNode
from shared.events.pods import PodsFinished, PodsRunning
from shared.events.quotas import NominationWithdrawn
from tests.fixtures.servers import Database
from tests.support.placement_driver import (
    Driver,
    a_node,
    a_quota,
    a_workload,
    nominated,
    pod_fact,
    reported,
)

Filled = tuple[Pool, Database, Driver]


@pytest.fixture
async def filled(database: Database) -> AsyncIterator[Filled]:
    """Two nodes of 4 GPUs: 3 of the first and 1 of the second are held; `big` waits for 4."""
    pool = Pool(database.url("placement"))
    driver = Driver()
    driver.send(a_quota(), reported(a_node("n1", gpus=4)), reported(a_node("n2", gpus=4)))
    for order, (name, gpus) in enumerate((("fixed", 3), ("x", 1), ("small", 1), ("y", 3))):
        work = a_workload(name, gpus=gpus, preemptible=name != "fixed")
        driver.send(nominated(work, order=order))
        driver.send(pod_fact(PodsRunning, name))
    driver.send(pod_fact(PodsFinished, "x", succeeded=True))
    driver.send(pod_fact(PodsFinished, "y", succeeded=True))
    driver.send(nominated(a_workload("big", gpus=4), order=8))
    driver.send(nominated(a_workload("huge", gpus=5), order=9))
    lease = PostgresLease(pool, "placement", "cell-0", "a", time_to_live_seconds=600)
    assert await lease.try_acquire()
    store = PostgresStore(pool, lease)
    for unit in driver.units:
        await store.commit(unit)
    yield pool, database, driver
    await pool.close()


async def test_a_plan_moves_the_small_one_out_of_the_way_and_changes_nothing(
    filled: Filled,
) -> None:
    pool, _, driver = filled

    plan = await plan_for(pool, "big")

    assert isinstance(plan, Plan)
    (move,) = plan.moves
    here, there = driver.handler.state.records.alive["small"].placement, move.to_pods
    assert here is not None
    assert (move.workload_id, move.from_pods) == ("small", here.pods)
    assert {pod.node for pod in here.pods} | {pod.node for pod in there} == {"n1", "n2"}
    assert plan.placement.pods[0].node == here.pods[0].node
    rows = await pool.fetch("SELECT count(*) AS many FROM placement.workload WHERE NOT over")
    assert rows[0]["many"] == 4


async def test_what_cannot_be_helped_or_does_not_wait_says_so(filled: Filled) -> None:
    pool, _, driver = filled

    huge = await plan_for(pool, "huge")
    assert isinstance(huge, NoPlan)
    assert huge.obstacle is DefragmentationObstacle.NO_ROOM
    with pytest.raises(NotWaiting, match="running"):
        await plan_for(pool, "small")
    with pytest.raises(NotWaiting, match="knows no workload nobody"):
        await plan_for(pool, "nobody")
    driver.send(NominationWithdrawn(workload_id="big", nomination=1))
    await commit_last(pool, driver)
    waits = await plan_for(pool, "big")
    assert isinstance(waits, NoPlan)
    assert waits.obstacle is DefragmentationObstacle.QUOTA


async def test_a_workload_may_be_named_if_one_alone_has_the_name(filled: Filled) -> None:
    pool, _, driver = filled
    twins = [a_workload(name, gpus=5) for name in ("w1", "w2")]
    twins = [replace(one, spec=replace(one.spec, name="twin")) for one in twins]
    single = replace(a_workload("w3", gpus=4), spec=replace(twins[0].spec, name="single"))
    driver.send(*(nominated(one, order=20) for one in (*twins, single)))
    await commit_last(pool, driver)

    assert isinstance(await plan_for(pool, "single"), NoPlan)
    with pytest.raises(NotWaiting, match="2 workloads are named twin; give an id: w1, w2"):
        await plan_for(pool, "twin")


async def test_nothing_is_moved_to_a_node_that_takes_no_work(filled: Filled) -> None:
    pool, _, driver = filled
    alive = driver.handler.state.records.alive
    other = alive["fixed"].placement
    assert other is not None
    driver.send(CordonNode(node=other.pods[0].node, drain=False, note="fan", actor="me"))
    await commit_last(pool, driver)

    plan = await plan_for(pool, "big")

    assert isinstance(plan, NoPlan)


async def commit_last(pool: Pool, driver: Driver) -> None:
    lease = PostgresLease(pool, "placement", "cell-0", "a", time_to_live_seconds=600)
    assert await lease.try_acquire()
    await PostgresStore(pool, lease).commit(driver.units[-1])


def test_the_command_prints_the_plan_and_its_exit_code_tells_if_there_is_one(
    filled: Filled,
) -> None:
    _, database, _ = filled

    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "operations",
                "defragment",
                *arguments,
                "--database",
                database.url("placement"),
                "--kafka",
                "unused:9092",
            ],
            capture_output=True,
            text=True,
            check=False,
        )

    found, words, none, wrong = (
        ask("big", "-o", "json"),
        ask("big"),
        ask("huge"),
        ask("nobody"),
    )

    assert (found.returncode, words.returncode, none.returncode, wrong.returncode) == (0, 0, 1, 2)
    answer = json.loads(found.stdout)
    assert [move["workload_id"] for move in answer["plan"]["moves"]] == ["small"]
    assert answer["plan"]["gpu_milli_moved"] == 1000
    assert "1. move small from n" in words.stdout
    assert "huge: no plan (NotEvenAfterMoves)" in none.stdout
    assert "knows no workload nobody" in wrong.stderr
