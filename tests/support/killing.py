"""Kill one process of a running system, see how soon it decides again, and judge the end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from tests.support.system import Stage

Read = TypeVar("Read")
SERVICES = {
    "admission": "admission",
    "quota": "quota",
    "placement": "placement",
    "binder": "binder",
    "monitoring": "monitoring",
    "preemption": "preemption",
    "gateway-projection": "gateway",
}
"""Schema by process."""
SERVERS = ("kafka", "postgres")
OTHERS = ("gateway", "simulated-cluster", "fleet")
"""Without a shard: they are back when all are ready."""
AWAY = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the driver lost track of a connection; its pool closes it
    OSError,
    TimeoutError,
)
INVARIANTS_MIN = 11
RECOVERY_SECONDS_MAX = 60.0
MORE_SEEDS = (2, 3)
TOO_LITTLE = 2
"""Exit code of a run in which something never happened: it says nothing."""
TERMINAL = "('succeeded', 'failed', 'cancelled', 'rejected')"


async def decided(stage: Stage, schema: str) -> tuple[int, int]:
    """(epoch, next unit) of a service's shard; it has decided when both have moved."""
    row = await stage.rows.fetchrow(
        f"SELECT max(l.epoch) AS epoch, max(w.next_unit) AS unit FROM {schema}.lease l"
        f" JOIN {schema}.watermark w USING (shard) WHERE shard NOT LIKE 'http%'"
    )
    return row["epoch"], row["unit"]


async def recovery_seconds(stage: Stage, name: str) -> float:
    """Kill `name`; seconds until it, or after a server all services, decide again."""
    watched = [SERVICES[name]] if name in SERVICES else ["admission", "quota", "placement"]
    before = {schema: await _patient(stage, schema) for schema in watched}
    stage.system.kill(name)
    started = time.monotonic()
    if name in SERVERS:
        server = getattr(stage.system, name)
        await asyncio.sleep(0.3)
        while not await asyncio.to_thread(server.answers):
            await asyncio.sleep(0.05)
        started = time.monotonic()
        before = {schema: await _patient(stage, schema) for schema in watched}
    if name in OTHERS:
        await asyncio.to_thread(stage.system.wait_ready, RECOVERY_SECONDS_MAX)
        return time.monotonic() - started
    while time.monotonic() - started < RECOVERY_SECONDS_MAX:
        now = {schema: await _patient(stage, schema) for schema in watched}
        if all(_moved(before[one], now[one], restarted=name in SERVICES) for one in watched):
            return time.monotonic() - started
        await asyncio.sleep(0.05)
    return RECOVERY_SECONDS_MAX


def _moved(before: tuple[int, int], now: tuple[int, int], *, restarted: bool) -> bool:
    return now[1] > before[1] and (now[0] > before[0] or not restarted)


async def _patient(stage: Stage, schema: str) -> tuple[int, int]:
    return await patient(lambda: decided(stage, schema))


async def patient(read: Callable[[], Awaitable[Read]]) -> Read:
    """What is read, asked again while the database is away."""
    while True:
        try:
            return await read()
        except AWAY:
            await asyncio.sleep(0.1)


async def settle(stage: Stage, accepted: list[str], seconds: float) -> dict[str, int]:
    """Wait until every accepted workload is over; counts of those that are not, by state."""
    deadline = time.monotonic() + seconds
    await stage.rows.expire_connections()  # some of them saw servers die
    while True:
        rows = await stage.rows.fetch(
            "SELECT coalesce(w.state, 'missing') AS state, count(*) AS n"
            " FROM unnest($1::text[]) AS a(id) LEFT JOIN gateway.workload w USING (id)"
            f" WHERE w.state IS NULL OR w.state NOT IN {TERMINAL} GROUP BY 1",
            accepted,
        )
        left = {row["state"]: row["n"] for row in rows}
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.5)


async def doubled(stage: Stage) -> int:
    """Workloads with more than one audit row for a version, or with two queued facts."""
    count: int = await stage.rows.fetchval(
        "SELECT count(*) FROM (SELECT subject, version FROM placement.audit"
        " GROUP BY 1, 2 HAVING count(*) > 1 UNION ALL SELECT subject, version"
        " FROM admission.audit GROUP BY 1, 2 HAVING count(*) > 1) d"
    )
    return count


def checked(stage: Stage, *more: str) -> str:
    """`muster-ops check`: "clean", or its exit code; what it found is printed."""
    environment = {**os.environ, "MUSTER_HOME": str(stage.system.folder)}
    command = [sys.executable, "-m", "operations", "check", "-o", "json", *more]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode == 0 and done.stdout.count('"id"') >= INVARIANTS_MIN:
        return "clean"
    print(done.stdout[-6000:], done.stderr[-3000:])
    return f"exit {done.returncode}"


def run_in_short(test: str, rounds: int) -> None:
    """Run `tests.e2e.TEST`, a kill test, for some rounds; fails unless it is green.

    On a busy machine something may never happen that must: then another seed has its turn.
    """
    done = _ran(test, rounds, 1)
    for seed in MORE_SEEDS:
        if done.returncode == TOO_LITTLE:
            done = _ran(test, rounds, seed)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]


def _ran(test: str, rounds: int, seed: int) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.e2e.{test}", f"--rounds={rounds}", f"--seed={seed}"],
        check=False,
        capture_output=True,
        text=True,
    )
    print(done.stdout[-4000:])
    return done
