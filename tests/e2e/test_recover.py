"""A store is lost or goes back under load: named, and healed by the steps of docs/operate.md."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterator

import pytest

from deploy.local.system import LocalSystem
from shared.events.envelope import workload_id
from tests.support.killing import checked, doubled, settle
from tests.support.recovering import (
    COMPARE,
    DECIDE,
    ENDED,
    HEALED_SECONDS_MAX,
    NAMED_SECONDS_MAX,
    SETTLE_SECONDS,
    HttpLoad,
    lose_log,
    named_seconds,
    operations,
    put_back_alone,
)
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet, submissions

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]
LEFT_OUT = ("fleet", "monitoring", "preemption")
NODES = 24
KAFKA_TOO_SECONDS = 30.0
"""Beside the database, an empty broker is made whole by the same start."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    folder = tmp_path_factory.mktemp("recover") / "system"
    system = launch(folder, leave_out=LEFT_OUT, backup=True)
    yield system
    system.discard()


async def _loaded(stage: Stage, name: str) -> tuple[HttpLoad, asyncio.Task[None]]:
    await stage.organise()
    await stage.nodes(list(fleet(NODES)))
    load = HttpLoad(stage, name)
    return load, asyncio.create_task(load.run())


async def _more_end(stage: Stage, count: int) -> None:
    ended = await stage.rows.fetchval(ENDED)
    await stage.until(ENDED, ended + count, 60)


async def _all_is_well(stage: Stage, accepted: list[str]) -> None:
    assert {} == await settle(stage, accepted, SETTLE_SECONDS)
    assert 0 == await doubled(stage)
    assert "clean" == checked(stage)


async def test_all_of_kafka_is_made_again_from_the_database(
    system: LocalSystem, stage: Stage
) -> None:
    load, loading = await _loaded(stage, "kafka")
    await _more_end(stage, 30)

    await lose_log(system)
    named = await named_seconds(system, DECIDE, "muster-ops recover kafka")
    asked = time.monotonic()
    code, report = await asyncio.to_thread(operations, system, "recover", "kafka")
    await asyncio.to_thread(system.wait_ready, HEALED_SECONDS_MAX)
    await stage.nodes(list(fleet(NODES)))  # as agents do, again and again
    await _more_end(stage, 10)
    healed = time.monotonic() - asked
    print(f"named {named:.1f} s, healed {healed:.1f} s, {sum(report['records'].values())} records")
    _, again = await asyncio.to_thread(operations, system, "recover", "kafka")
    load.stop()
    await loading

    assert named < NAMED_SECONDS_MAX
    assert healed < HEALED_SECONDS_MAX
    assert (0, [TEAM], [TEAM]) == (code, report["teams"], report["teams_without_password"])
    assert {"queue.facts.v1", "workload.facts.v1", "pod.commands.v1"} < set(report["records"])
    assert ([], {}) == (again["topics_made"], again["records"])
    await _all_is_well(stage, load.accepted)


async def test_copies_of_what_is_in_the_log_change_nothing(
    system: LocalSystem, stage: Stage
) -> None:
    _, told = await asyncio.to_thread(operations, system, "republish", "--all", "--dry-run")
    topics = ("--topic", "workload.facts.v1", "--topic", "pod.commands.v1")
    since = ("--since", "10m")
    _, sent = await asyncio.to_thread(operations, system, "republish", *topics, *since)
    _, none = await asyncio.to_thread(operations, system, "republish", "--since", "0s")

    counts = await stage.rows.fetch(
        "SELECT topic, count(*) AS n FROM placement.outbox WHERE topic = ANY ($1) GROUP BY 1",
        ["workload.facts.v1", "pod.commands.v1"],
    )
    assert {row["topic"]: row["n"] for row in counts} == sent["records"]
    assert sent["records"].items() <= told["records"].items()
    assert {} == none["records"]
    spec = next(iter(submissions(1, 7, run_seconds=2)))
    assert 202 == await stage.submit_http(spec, "after copies")
    after = workload_id(TEAM, "after copies")
    await stage.reaches(after, "succeeded", 30)
    await _all_is_well(stage, [after])


async def test_a_base_backup_is_named_and_the_kept_commits_heal_it(
    system: LocalSystem, stage: Stage
) -> None:
    load, loading = await _loaded(stage, "postgres")
    await _more_end(stage, 10)
    await asyncio.to_thread(system.postgres.take_backup)
    await _more_end(stage, 30)
    clean, _ = await asyncio.to_thread(operations, system, "recover", "postgres")
    load.stop()
    await loading

    await asyncio.to_thread(system.crash)
    put_back_alone(system)
    await asyncio.to_thread(system.start)
    named = await named_seconds(system, COMPARE, "muster-ops recover postgres")
    code, told = await asyncio.to_thread(operations, system, "recover", "postgres")
    asked = time.monotonic()
    await asyncio.to_thread(system.stop)
    system.postgres.restore()
    shutil.rmtree(system.kafka.folder / "data")  # what `make up` makes again, too
    await asyncio.to_thread(system.start)
    await asyncio.to_thread(system.wait_ready, HEALED_SECONDS_MAX)
    healed = time.monotonic() - asked
    print(f"named {named:.1f} s, healed {healed:.1f} s, {told}")
    await stage.disconnect()
    await stage.connect()
    await stage.nodes(list(fleet(NODES)))

    assert 0 == clean
    assert named < NAMED_SECONDS_MAX
    assert healed < HEALED_SECONDS_MAX + KAFKA_TOO_SECONDS
    assert (1, True) == (code, told["older"])
    assert {one["service"] for one in told["behind"]} >= COMPARE
    assert told["unknown"]["ended"] >= 20
    await _all_is_well(stage, load.accepted)
    assert 0 == operations(system, "recover", "postgres")[0]
