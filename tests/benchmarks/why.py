"""How long `why` takes to answer by HTTP while many wait in one queue.

One team with quota for a small part of what it submits: some run, the others wait in one queue.
Workloads are picked at random and asked about, one after another and several at once; each answer
counts the place in the queue, the limits up the tree and who ends next.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from shared.core.model.nouns import GpuRequest, PodSet, WorkloadKind, WorkloadSpec
from tests.benchmarks.options import machine, numbers
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet

NODES: Final = 1_000
RUNNING: Final = 4_000
RUN_SECONDS: Final = 36_000
AT_ONCE: Final = 8


def specs(count: int) -> Iterator[WorkloadSpec]:
    """One GPU each, for ten hours."""
    pods = PodSet(gpu=GpuRequest(count=1), cpu_milli=1_000, memory_mib=1_024)
    for number in range(count):
        yield WorkloadSpec(
            name=f"wait-{number}",
            kind=WorkloadKind.TRAINING,
            pod_sets=(pods,),
            expected_duration_seconds=RUN_SECONDS,
        )


async def organise(stage: Stage) -> None:
    """A queue that may run `RUNNING` workloads, in a cohort below another."""
    await stage.put("flavors/default", {})
    await stage.put(f"teams/{TEAM}", {"default_queue": TEAM})
    await stage.put("cohorts/all", {})
    await stage.put("cohorts/research", {"parent": "all"})
    nominal = {"gpu_milli": RUNNING * 1_000, "cpu_milli": 1 << 50, "memory_mib": 1 << 50}
    flavors = [{"flavor": "default", "nominal": nominal}]
    body = {"team": TEAM, "cohort": "research", "flavors": flavors}
    await stage.put(f"queues/{TEAM}", body)


async def run(pending: int, asked: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Fill the queue, then ask."""
    overrides = {"simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}}
    with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
        system = await asyncio.to_thread(launch, Path(name) / "system", overrides=overrides)
        stage = Stage(system)
        try:
            await stage.connect()
            await organise(stage)
            await stage.nodes(list(fleet(NODES)))
            await stage.submit(specs(RUNNING + pending), "why")
            waiting = "SELECT count(*) FROM gateway.workload WHERE state = 'queued'"
            running = "SELECT count(*) FROM gateway.workload WHERE state = 'running'"
            await stage.until(running, RUNNING, 300, every_seconds=1.0)
            await stage.until(waiting, pending, 300, every_seconds=1.0)
            rows = await stage.rows.fetch("SELECT id FROM gateway.workload WHERE state = 'queued'")
            ids = sorted(row["id"] for row in rows)
            return await _measure(stage, ids, asked, seeds)
        finally:
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


async def _measure(
    stage: Stage, ids: Sequence[str], asked: int, seeds: Sequence[int]
) -> dict[str, Any]:
    alone: list[float] = []
    together: list[float] = []
    for seed in seeds:
        picked = random.Random(seed).choices(ids, k=asked)
        alone += [await _ask(stage, one) for one in picked]
        for first in range(0, asked, AT_ONCE):
            group = (_ask(stage, one) for one in picked[first : first + AT_ONCE])
            together += await asyncio.gather(*group)
    example = await stage.get(f"workloads/{ids[0]}/why")
    return {
        "pending": len(ids),
        "running": RUNNING,
        "answers": len(alone),
        "ms": {"one_at_a_time": _spread(alone), f"{AT_ONCE}_at_once": _spread(together)},
        "example": {name: example[name] for name in ("reason", "message", "place", "limits")},
    }


async def _ask(stage: Stage, identifier: str) -> float:
    started = time.perf_counter()
    answer = await stage.get(f"workloads/{identifier}/why")
    assert answer["place"]["waiting"] > 0, answer
    return (time.perf_counter() - started) * 1_000


def _spread(times: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times)
    places = {"p50": len(ordered) // 2, "p99": int(len(ordered) * 0.99), "max": -1}
    return {name: round(ordered[place], 1) for name, place in places.items()}


def main() -> None:
    """Measure, print and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks why --pending 50000 --asked 500",
    )
    parser.add_argument("--pending", type=int, default=50_000, help="that wait in one queue")
    parser.add_argument("--asked", type=int, default=250, help="answers for each seed")
    parser.add_argument("--seeds", default="1000-1003", help="of the workloads asked about")
    parser.add_argument("--short", action="store_true", help="5,000 wait, one seed")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.pending, options.seeds = 5_000, "1000"
    seeds = numbers(options.seeds)
    found = asyncio.run(run(options.pending, options.asked, seeds))
    found |= {"seeds": seeds, **machine()}
    print(json.dumps(found["ms"]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
