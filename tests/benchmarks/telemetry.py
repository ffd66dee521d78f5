"""What telemetry costs, and how soon a broken GPU is acted on: `make bench-telemetry`.

A whole system with a simulated fleet of 1,250 nodes of eight GPUs that reports use every ten
seconds, while work runs: CPU of monitoring and of all services, rows that are written, and the
time from an XID to the GPU being out of service, and to the eviction told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp

from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from tests.benchmarks.options import machine
from tests.support.system import Stage, launch

ERRORS: Final = 40
"""XIDs whose consequences are timed; each on a GPU of another node."""
GROUP: Final = {
    "name": "n",
    "flavor": "default",
    "product": "NVIDIA-H100-80GB-HBM3",
    "gpus": 8,
    "gpu_memory_mib": 81_559,
}
STEP_SQL: Final = (
    "SELECT at_ms FROM gateway.device_health WHERE node = $1 AND gpu = $2 AND state <> 'healthy'"
)
_ROWS_SQL: Final = "SELECT coalesce(sum(n_tup_ins + n_tup_upd), 0) FROM pg_stat_user_tables"
_INBOX_SQL: Final = "SELECT count(*) FROM monitoring.inbox WHERE topic = 'usage.facts.v1'"


async def run(nodes: int, seconds: float, workloads: int) -> dict[str, Any]:
    """Start, fill, measure, stop."""
    described = json.dumps({"groups": [{**GROUP, "count": nodes}]})
    overrides = {
        "fleet": {"MUSTER_FLEET_FILE": "", "MUSTER_FLEET_USAGE_SECONDS": "10"},
        "simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"},
        "placement": {"MUSTER_HEALTH_PROBATION_SECONDS": "5"},
    }
    with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
        folder, fleet = Path(name) / "system", Path(name) / "fleet.json"
        fleet.write_text(described)
        overrides["fleet"]["MUSTER_FLEET_FILE"] = str(fleet)
        system = await asyncio.to_thread(launch, folder, overrides=overrides, leave_out=())
        stage = Stage(system)
        try:
            await stage.connect()
            await stage.organise()
            await stage.until("SELECT count(*) FROM gateway.node", nodes, 120)
            await stage.submit(_specs(workloads), "telemetry")
            held = "SELECT count(*) FROM gateway.workload WHERE state = 'running'"
            await stage.until(held, workloads, 60, every_seconds=1.0)
            await asyncio.sleep(20)
            return {**await _at_rest(stage, seconds), **await _errors(stage)}
        finally:
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


def _specs(count: int) -> list[WorkloadSpec]:
    """One GPU each, for ten hours."""
    pod_sets = (PodSet(gpu=GpuRequest(count=1), cpu_milli=1_000, memory_mib=1_024),)
    return [
        WorkloadSpec(
            name=f"run-{number}",
            kind=WorkloadKind.TRAINING,
            pod_sets=pod_sets,
            expected_duration_seconds=36_000,
        )
        for number in range(count)
    ]


async def _at_rest(stage: Stage, seconds: float) -> dict[str, Any]:
    """Nothing happens but reports of use."""
    pids = json.loads((stage.system.folder / "state.json").read_text())["processes"]
    monitoring = [pid for name, pid in pids.items() if name.startswith("monitoring")]
    services = [pid for name, pid in pids.items() if name not in {"kafka", "postgres", "fleet"}]
    rows, began = await stage.rows.fetchval(_ROWS_SQL), time.monotonic()
    cpu = [_cpu_seconds(monitoring), _cpu_seconds(services)]
    await asyncio.sleep(seconds)
    wall = time.monotonic() - began
    await asyncio.sleep(1.5)  # the server tells its counts a second later
    more = await stage.rows.fetchval(_ROWS_SQL) - rows
    return {
        "monitoring_cpu_percent": round(100 * (_cpu_seconds(monitoring) - cpu[0]) / wall, 1),
        "services_cpu_percent": round(100 * (_cpu_seconds(services) - cpu[1]) / wall, 1),
        "rows_per_second": round(float(more) / wall, 1),
        "inbox_rows_of_usage": int(await stage.rows.fetchval(_INBOX_SQL)),
    }


async def _errors(stage: Stage) -> dict[str, Any]:
    """XIDs 119 on GPUs that are held, one after the other; at most eight an hour are drained."""
    held = await stage.rows.fetch(
        "SELECT id, nodes[1] AS node, placement FROM gateway.workload WHERE state = 'running'"
    )
    chosen = random.Random(1).sample(held, min(ERRORS, len(held)))
    out_ms, told_ms = [], []
    url = stage.system.url("fleet")
    async with aiohttp.ClientSession(url) as session:
        for row in chosen:
            (pod,) = json.loads(row["placement"])["pods"]
            gpu = pod["shares"][0]["index"]
            began = time.monotonic()
            path = f"/v1/nodes/{row['node']}/gpus/{gpu}/tell?kind=xid&code=119"
            (await session.post(path)).raise_for_status()
            out = await _until(stage, STEP_SQL, row["node"], gpu)
            told = await _until(
                stage,
                "SELECT 1 FROM gateway.event WHERE workload_id = $1"
                " AND type = 'muster.workload.evicted.v1'",
                row["id"],
            )
            out_ms.append(1000 * (out - began))
            told_ms.append(1000 * (told - began))
    return {
        "errors": len(out_ms),
        "xid_to_out_of_service_ms": _spread(out_ms),
        "xid_to_eviction_told_ms": _spread(told_ms),
    }


async def _until(stage: Stage, sql: str, *arguments: Any) -> float:
    """When the row is there, by the monotonic clock."""
    deadline = time.monotonic() + 20
    while await stage.rows.fetchval(sql, *arguments) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{arguments}: nothing followed within 20 s")
        await asyncio.sleep(0.005)
    return time.monotonic()


def _spread(milliseconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(milliseconds)
    at = min(len(ordered) - 1, round(0.99 * len(ordered)))
    return {"p50": round(ordered[len(ordered) // 2], 1), "p99": round(ordered[at], 1)}


def _cpu_seconds(pids: Sequence[int]) -> float:
    """User and system time of these processes until now."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_250)
    parser.add_argument("--seconds", type=float, default=120.0, help="of nothing but reports")
    parser.add_argument("--workloads", type=int, default=500, help="that run on one GPU each")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    options = parser.parse_args()
    found = asyncio.run(run(options.nodes, options.seconds, options.workloads))
    text = json.dumps({"machine": machine(), **found}, indent=2)
    if options.json is not None:
        options.json.write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
