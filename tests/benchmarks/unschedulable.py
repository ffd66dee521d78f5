"""How soon a gang that cannot fit is told why, through every service.

500 nodes of 8 GPUs are full of 4,000 workloads that do not end. Gangs of different sizes are then
submitted by HTTP, one after another; the clock runs from the request until `GET .../why` answers
with a reason of placement or quota. KAI's own scale test waits 249.5 s for the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from shared.core.model.nouns import (
    GpuRequest,
    Level,
    PodSet,
    TopologyRequest,
    WorkloadKind,
    WorkloadSpec,
)
from tests.benchmarks.options import machine
from tests.support.system import TEAM, Stage, launch
from tests.support.work import fleet

GPUS: Final = 8
RACK_NODES: Final = 16
"""As `fleet` builds them; a larger gang for one rack would be rejected by admission."""
POLL_SECONDS: Final = 0.005
ANSWER_SECONDS_MAX: Final = 300.0
KAI_MS: Final = 249_500
"""KAI-scheduler's scale test on a machine like this one: distributed job on a full cluster."""
UNDECIDED: Final = frozenset({"received", "Received", "Pending", ""})


def filler(number: int) -> WorkloadSpec:
    """One GPU for ever."""
    pods = PodSet(gpu=GpuRequest(count=1), cpu_milli=1_000, memory_mib=1_024)
    return WorkloadSpec(name=f"full-{number}", kind=WorkloadKind.TRAINING, pod_sets=(pods,))


def gangs(count: int) -> Iterator[tuple[str, WorkloadSpec]]:
    """(what it asks for, spec), each of another size, so that no answer is known before."""
    levels = (("anywhere", None), ("in one rack", Level.RACK), ("in one block", Level.BLOCK))
    for number in range(count):
        words, level = levels[number % len(levels)]
        pods = 2 + number // len(levels) % (RACK_NODES - 1)
        gpu = GpuRequest(count=GPUS)
        workers = PodSet(count=pods, gpu=gpu, cpu_milli=64_000 + number, memory_mib=65_536)
        spec = WorkloadSpec(
            name=f"gang-{number}",
            kind=WorkloadKind.TRAINING,
            pod_sets=(workers,),
            topology=TopologyRequest(required=level),
        )
        yield f"{pods} nodes {words}", spec


async def ask(stage: Stage, spec: WorkloadSpec, key: str) -> tuple[float, dict[str, Any]]:
    """Submit and ask why until there is a reason: (milliseconds, the answer)."""
    body = msgspec.json.encode(spec)
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    started = time.perf_counter()
    async with stage.api.post(
        "/v1/workloads", params={"team": TEAM}, data=body, headers=headers
    ) as reply:
        answer = await reply.json()
        assert reply.status == 202, answer
    why: dict[str, Any] = {}
    while time.perf_counter() - started < ANSWER_SECONDS_MAX:
        why = await stage.get(f"workloads/{answer['id']}/why")
        assert why["state"] in {"received", "queued"}, why
        if why["state"] == "queued" and why["reason"] not in UNDECIDED:
            return (time.perf_counter() - started) * 1_000, why
        await asyncio.sleep(POLL_SECONDS)
    raise TimeoutError(f"no reason for {spec.name} in {ANSWER_SECONDS_MAX:.0f} s: {why}")


async def run(nodes: int, count: int) -> dict[str, Any]:
    """Fill the fleet, then submit the gangs."""
    overrides = {"simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}}
    with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
        system = await asyncio.to_thread(launch, Path(name) / "system", overrides=overrides)
        stage = Stage(system)
        try:
            await stage.connect()
            await stage.organise()
            await stage.nodes(list(fleet(nodes)))
            full = nodes * GPUS
            await stage.submit(map(filler, range(full)), "full")
            running = "SELECT count(*) FROM gateway.workload WHERE state = 'running'"
            seconds = await stage.until(running, full, 300)
            print(f"{nodes} nodes are full of {full} workloads after {seconds:.1f} s", flush=True)
            return await _measure(stage, count)
        finally:
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


async def _measure(stage: Stage, count: int) -> dict[str, Any]:
    times, texts = [], {}
    for number, (words, spec) in enumerate(gangs(count)):
        milliseconds, why = await ask(stage, spec, f"gang-{number}")
        times.append(milliseconds)
        texts[words] = f"{why['reason']}: {why['message']} Next: {why['next_step']}"
        if number < 3:  # one of each level
            print(f"{words}, {milliseconds:.0f} ms: {texts[words]}", flush=True)
    times.sort()
    return {
        "gangs": count,
        "ms_to_reason": {
            "mean": round(statistics.mean(times), 1),
            "sd": round(statistics.pstdev(times), 1),
            "p50": round(times[len(times) // 2], 1),
            "p99": round(times[int(len(times) * 0.99)], 1),
            "max": round(times[-1], 1),
        },
        "texts": dict(list(texts.items())[:3]),
    }


def main() -> None:
    """Measure, print and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks unschedulable --nodes 500 --gangs 100",
    )
    parser.add_argument("--nodes", type=int, default=500, help="of 8 GPUs")
    parser.add_argument("--gangs", type=int, default=100)
    parser.add_argument("--short", action="store_true", help="50 nodes, 30 gangs")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.nodes, options.gangs = 50, 30
    found = asyncio.run(run(options.nodes, options.gangs))
    found |= {"nodes": options.nodes, "kai_published_ms": KAI_MS, **machine()}
    print(json.dumps(found["ms_to_reason"]))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
