"""`make bench-pipeline`: submissions from Kafka to running and visible, through all services.

10,000 nodes with 8 GPUs, openb's sizes plus 5 % gangs, start delay 0, constraints and audit on.
Throughput: N submissions wait in Kafka while admission is stopped by SIGSTOP; the clock runs from
SIGCONT until the last is running and visible in the gateway's read model. Latency: Poisson
arrivals by HTTP, from the scheduled send time to the broker's time of `WorkloadPlaced`, which
is after its commit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition

from shared.adapters.kafka.client import options
from shared.events.grants import READER
from shared.events.topics import WORKLOAD_FACTS
from tests.support.costs import cpu_seconds, family, memory_mib
from tests.support.system import TEAM, Stage, launch, now_ms
from tests.support.work import fleet, submissions

SCHEMAS = ("admission", "quota", "placement", "binder", "gateway", "monitoring", "preemption")
VISIBLE = "SELECT count(*) FROM gateway.workload WHERE state = 'running'"
WAS_RUNNING = "SELECT count(*) FROM gateway.workload WHERE state IN ('running', 'succeeded')"


async def processes(stage: Stage) -> dict[str, list[int]]:
    """Process ids by name; the database's by the service that they work for."""
    pids = {name: stage.system.pid(name) for name in stage.names}
    found = {name: [pid] for name, pid in pids.items() if pid}
    found["kafka"] = family(stage.system.kafka.pid)
    backends = await stage.rows.fetch(
        "SELECT pid, application_name AS name FROM pg_stat_activity WHERE pid IS NOT NULL"
    )
    named = {row["pid"]: row["name"].removeprefix("muster-") or "server" for row in backends}
    for pid in family(stage.system.postgres.pid):
        found.setdefault(f"postgres for {named.get(pid, 'server')}", []).append(pid)
    return found


async def units_of(stage: Stage, schema: str) -> int:
    """Units of work that a service has committed."""
    units: int = await stage.rows.fetchval(f"SELECT sum(next_unit)::int FROM {schema}.watermark")
    return units


async def throughput(stage: Stage, count: int, prefix: str, run_seconds: int | None) -> dict:
    """Let `count` submissions wait, then count the seconds until the last is seen running."""
    query = VISIBLE if run_seconds is None else WAS_RUNNING
    before = await stage.rows.fetchval(query)
    stage.system.send("admission", signal.SIGSTOP)
    specs = submissions(count, seed=len(prefix) + count, run_seconds=run_seconds)
    await stage.submit(specs, prefix)
    cpu = {name: cpu_seconds(group) for name, group in (await processes(stage)).items()}
    before_units = {name: await units_of(stage, name) for name in SCHEMAS}
    started = time.monotonic()
    stage.system.send("admission", signal.SIGCONT)
    # Counting costs the database time of its own: at 80,000 rows once a second is enough.
    await stage.until(query, before + count, 600, every_seconds=max(0.2, count / 80_000))
    seconds = time.monotonic() - started
    units = {name: await units_of(stage, name) - before_units[name] for name in SCHEMAS}
    pids = await processes(stage)
    used = {name: cpu_seconds(group) - cpu.get(name, 0) for name, group in pids.items()}
    return {
        "workloads": count,
        "seconds": round(seconds, 2),
        "workloads_per_second": round(count / seconds),
        "cpu_microseconds_per_workload": {
            name: round(value * 1e6 / count) for name, value in sorted(used.items())
        },
        "units_of_work": units,
        "cores_used": round(sum(used.values()) / seconds, 2),
        "memory_mib": {name: memory_mib(group[0]) for name, group in sorted(pids.items())},
    }


async def latency(stage: Stage, rate: float, seconds: float, prefix: str) -> dict[str, Any]:
    """Poisson arrivals at `rate` a second by HTTP; milliseconds to the commit of the placement."""
    generator = random.Random(7)
    count = int(rate * seconds)
    specs = list(submissions(count, seed=int(rate), gangs=0.05))
    start = time.time() + 0.5
    times, clock = [], start
    for _ in range(count):
        clock += generator.expovariate(rate)
        times.append(clock)
    ids = await asyncio.gather(
        *(
            _submit(stage, spec, at, f"{prefix}-{n}")
            for n, (spec, at) in enumerate(zip(specs, times, strict=True))
        )
    )
    placed = await _placed_times(stage, set(ids), 30)
    waits = sorted(placed[one] - at * 1000 for one, at in zip(ids, times, strict=True))
    return {
        "rate": rate,
        "submitted": count,
        "p50_ms": round(waits[len(waits) // 2], 1),
        "p95_ms": round(waits[int(len(waits) * 0.95)], 1),
        "p99_ms": round(waits[int(len(waits) * 0.99)], 1),
        "second_half_p50_ms": _late_half(ids, times, placed),
    }


def _late_half(ids: list[str], times: list[float], placed: dict[str, int]) -> float:
    late = sorted(
        placed[i] - at * 1000 for i, at in list(zip(ids, times, strict=True))[len(ids) // 2 :]
    )
    return round(late[len(late) // 2], 1)


async def _submit(stage: Stage, spec: Any, at: float, key: str) -> str:
    await asyncio.sleep(max(0.0, at - time.time()))
    body = msgspec.json.encode(spec)
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    async with stage.api.post(
        "/v1/workloads", params={"team": TEAM}, data=body, headers=headers
    ) as reply:
        answer = await reply.json()
        assert reply.status == 202, f"{reply.status}: {answer}"
        return str(answer["id"])


async def _placed_times(stage: Stage, ids: set[str], seconds: float) -> dict[str, int]:
    """Broker time of `WorkloadPlaced` for each id, Unix milliseconds."""
    consumer = AIOKafkaConsumer(**options(stage.system.kafka.access(READER)))
    await consumer.start()
    place = TopicPartition(WORKLOAD_FACTS.on_broker("muster"), 0)
    consumer.assign([place])
    await consumer.seek_to_beginning(place)
    found: dict[str, int] = {}
    deadline = time.monotonic() + seconds
    while len(found) < len(ids) and time.monotonic() < deadline:
        for records in (await consumer.getmany(timeout_ms=200)).values():
            for one in records:
                name = one.key.decode()
                if name in ids and dict(one.headers)["ce_type"] == b"muster.workload.placed.v1":
                    found.setdefault(name, one.timestamp)
    await consumer.stop()
    missing = len(ids) - len(found)
    assert not missing, f"{missing} of {len(ids)} were not placed"
    return found


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """All parts that were asked for, on one system in a temporary folder."""
    overrides = {"simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}}
    with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
        system = await asyncio.to_thread(launch, Path(name) / "system", overrides=overrides)
        stage = Stage(system)
        try:
            await stage.connect()
            return await _measure(stage, options)
        finally:
            if options.keep_logs:
                shutil.copytree(system.folder / "logs", options.keep_logs, dirs_exist_ok=True)
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


async def _measure(stage: Stage, options: argparse.Namespace) -> dict[str, Any]:
    await stage.organise()
    started = now_ms()
    await stage.nodes(list(fleet(options.nodes)))
    result: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "fleet": {
            "nodes": options.nodes,
            "gpus": options.nodes * 8,
            "ready_ms": now_ms() - started,
        },
    }
    await throughput(stage, 500, "warm", None)
    for rate in options.rates:
        result[f"latency_{rate:g}"] = await latency(stage, rate, options.seconds, f"l{rate:g}")
        print(json.dumps(result[f"latency_{rate:g}"]), flush=True)
    if options.workloads:
        result["throughput"] = await throughput(stage, options.workloads, "many", None)
        print(json.dumps(result["throughput"]), flush=True)
    if options.long:
        result["long"] = await throughput(stage, options.long, "long", 10)
        print(json.dumps(result["long"]), flush=True)
    return result


def main() -> None:
    """Parse options, measure, print and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--workloads", type=int, default=20_000)
    parser.add_argument("--long", type=int, default=80_000, help="with run time 10 s; 0: none")
    parser.add_argument("--rates", type=float, nargs="*", default=[50, 200])
    parser.add_argument("--seconds", type=float, default=20, help="of each latency part")
    parser.add_argument("--json", help="write the figures here")
    parser.add_argument("--keep-logs", help="copy the logs of the services into this folder")
    options = parser.parse_args()
    result = asyncio.run(run(options))
    text = json.dumps(result, indent=2)
    print(text)
    if options.json:
        Path(options.json).write_text(text + "\n")


if __name__ == "__main__":
    main()
