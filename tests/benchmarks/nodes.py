"""How long `muster nodes` takes, as a user calls it: `python -m tests.benchmarks.nodes`.

A whole system with 1,200 nodes of eight GPUs, every tenth in MIG mode, and so much running work as
is asked for. Each command is a process of its own, with bytecode as pip leaves it; the requests
behind it are timed apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from shared.core.model.nouns import GpuRequest, Node, PodSet, WorkloadKind, WorkloadSpec
from shared.core.model.value import replace
from tests.benchmarks.options import machine
from tests.support.system import Stage, launch
from tests.support.work import fleet

MIG_EVERY: Final = 10
COMMANDS: Final = (
    ("--version",),
    ("nodes",),
    ("nodes", "-o", "json"),
    ("nodes", "--summary"),
    ("nodes", "node-00000"),
)


def nodes(count: int) -> Iterator[Node]:
    """The fleet of the other benchmarks, every tenth node in MIG mode."""
    for number, node in enumerate(fleet(count)):
        mig = number % MIG_EVERY == 0
        yield replace(node, gpus=tuple(replace(gpu, mig=mig) for gpu in node.gpus))


def specs(count: int) -> Iterator[WorkloadSpec]:
    """Whole GPUs, shares and MIG instances in turn, for ten hours."""
    forms = (
        (WorkloadKind.TRAINING, GpuRequest(count=1)),
        (WorkloadKind.BATCH_INFERENCE, GpuRequest(milli=250, memory_mib=20_000)),
        (WorkloadKind.INFERENCE, GpuRequest(mig_profile="1g.10gb")),
        (WorkloadKind.TRAINING, GpuRequest(count=1)),
    )
    for number in range(count):
        kind, gpu = forms[number % len(forms)]
        yield WorkloadSpec(
            name=f"run-{number}",
            kind=kind,
            pod_sets=(PodSet(gpu=gpu, cpu_milli=1_000, memory_mib=1_024),),
            expected_duration_seconds=36_000,
        )


async def run(count: int, running: int, times: int) -> dict[str, Any]:
    """Start, fill, measure, stop."""
    overrides = {"simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}}
    with tempfile.TemporaryDirectory(prefix="muster-bench-", dir="/var/tmp") as name:
        system = await asyncio.to_thread(launch, Path(name) / "system", overrides=overrides)
        stage = Stage(system)
        try:
            await stage.connect()
            await stage.organise()
            await stage.nodes(list(nodes(count)))
            await stage.submit(specs(running), "nodes")
            held = "SELECT count(*) FROM gateway.workload WHERE state = 'running'"
            await stage.until(held, running, 300, every_seconds=1.0)
            await stage.until("SELECT count(*) FROM gateway.node", count, 60)
            return await _measure(stage, times)
        finally:
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


async def _measure(stage: Stage, times: int) -> dict[str, Any]:
    client = json.loads((stage.system.folder / "client.json").read_text())
    environment = {**os.environ, "MUSTER_ADDRESS": client["address"], "MUSTER_KEY": client["key"]}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(stage.system.folder / "bytecode")

    def command(words: tuple[str, ...]) -> Callable[[], Awaitable[Any]]:
        program = [str(Path(sys.executable).with_name("muster")), *words]
        return lambda: asyncio.to_thread(
            subprocess.run, program, env=environment, check=True, stdout=subprocess.DEVNULL
        )

    found = {f"muster {' '.join(words)}": await _ms(command(words), times) for words in COMMANDS}
    for path in ("nodes?limit=1000", "nodes:summary", "nodes/node-00000"):
        found[f"GET /v1/{path}"] = await _ms(partial(stage.get, path), times)
    return found


async def _ms(call: Callable[[], Awaitable[Any]], times: int) -> dict[str, float]:
    """Least, median and most; what is kept for two seconds is old at each."""
    taken = []
    await call()
    for _ in range(times):
        await asyncio.sleep(2.1)
        started = time.perf_counter()
        await call()
        taken.append((time.perf_counter() - started) * 1_000)
    spread = {"min_ms": min(taken), "median_ms": median(taken), "max_ms": max(taken)}
    return {name: round(ms, 1) for name, ms in spread.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_200)
    parser.add_argument("--running", type=int, default=10_000, help="workloads that hold GPUs")
    parser.add_argument("--times", type=int, default=7, help="of each command")
    options = parser.parse_args()
    found = asyncio.run(run(options.nodes, options.running, options.times))
    asked = {"nodes": options.nodes, "running": options.running}
    print(json.dumps({**asked, **found, **machine()}, indent=1))


if __name__ == "__main__":
    main()
