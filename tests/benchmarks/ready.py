"""How long placement takes from a kill -9 until it is ready: 1,200 nodes, 8,000 running.

`python -m tests.benchmarks ready [--nodes 1200] [--workloads 8000] [--kills 5]`. The seconds are
from the kill, so the supervisor's restart and Python's imports are in them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.system import Stage, launch
from tests.support.work import fleet, submissions

RUNNING = "SELECT count(*) FROM placement.workload WHERE state = 'running'"


async def run(options: argparse.Namespace) -> dict[str, Any]:
    """Fill a system, then kill placement a few times."""
    with tempfile.TemporaryDirectory(prefix="muster-ready-", dir="/var/tmp") as name:
        overrides = {"simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0"}}
        system = await asyncio.to_thread(launch, Path(name) / "system", overrides=overrides)
        stage = Stage(system)
        try:
            await stage.connect()
            await stage.organise()
            await stage.nodes(list(fleet(options.nodes)))
            specs = submissions(options.workloads, seed=1, gangs=0)
            await stage.submit(specs, "ready")
            await stage.until(RUNNING, options.workloads, 120)
            return await _kills(stage, options)
        finally:
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


async def _kills(stage: Stage, options: argparse.Namespace) -> dict[str, Any]:
    seconds = []
    for _ in range(options.kills):
        await asyncio.sleep(11)  # a process that was up for 10 s is restarted at once
        pid = stage.system.pid("placement")
        stage.system.kill("placement")
        started = time.monotonic()
        while stage.system.pid("placement") in (pid, None) or not await asyncio.to_thread(
            stage.system.ready, "placement"
        ):
            await asyncio.sleep(0.01)
        seconds.append(round(time.monotonic() - started, 2))
    return {"nodes": options.nodes, "running": options.workloads, "ready_seconds": seconds}


def main() -> None:
    """Parse options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_200)
    parser.add_argument("--workloads", type=int, default=8_000)
    parser.add_argument("--kills", type=int, default=3)
    print(json.dumps(asyncio.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
