"""`make kill-test N=60 SEED=1`: kill -9 of random processes under load.

Each round kills one service, the broker or the database; the supervisor starts it again. For each
it is measured how long until it decides again: from the death of a service, from the moment
at which PostgreSQL accepts connections, or the broker answers. At the end the load is left to
finish, and three judges speak: the client's own ledger of accepted submissions, `muster-ops check`
(which shares no code with the services), and the load: under 50 events/s or 100 placements the run
is INVALID. Exit code 0 green, 1 red, 2 invalid, 3 slow:
all is whole, and something took longer than it may.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from shared.events.envelope import workload_id
from shared.ports.errors import Transient
from tests.support.killing import SERVERS, SERVICES, recovery_seconds
from tests.support.system import TEAM, Stage, launch, now_ms
from tests.support.verdict import LeastLoad, judged
from tests.support.work import GANG_SHARE, fleet, submission_row, submissions

TARGETS = (*SERVICES, *SERVICES, *SERVERS, "gateway", "simulated-cluster")
SETTLE_SECONDS = 90.0
LIMIT_SECONDS = {"kafka": 10.0, "postgres": 5.0}
SERVICE_LIMIT_SECONDS = 5.0
RATE = 40


@dataclass(slots=True)
class Load:
    """Submissions by Kafka and by HTTP at a steady rate, with a ledger of what was accepted."""

    stage: Stage
    generator: random.Random
    accepted: list[str] = field(default_factory=list)
    stopping: bool = False
    rate: int = RATE
    gangs: float = GANG_SHARE

    async def run(self) -> None:
        """Go on until told to stop; what is not acknowledged is sent again with the same key."""
        number = 0
        while not self.stopping:
            started = time.monotonic()
            batch = []
            seed = self.generator.randrange(1 << 30)
            for spec in submissions(self.rate // 2, seed, run_seconds=2, gangs=self.gangs):
                number += 1
                batch.append((number, spec))
            half = len(batch) // 2
            await self._by_kafka(batch[:half])
            await self._by_http(batch[half:])
            await asyncio.sleep(max(0.0, 0.5 - (time.monotonic() - started)))

    async def _by_kafka(self, batch: list[tuple[int, Any]]) -> None:
        at_ms = now_ms()
        rows = [submission_row(n, spec, TEAM, f"kill-{n}", at_ms) for n, spec in batch]
        while True:
            try:
                await self.stage.publisher.publish(rows)
                break
            except Transient:
                await asyncio.sleep(0.2)
        self.accepted += [workload_id(TEAM, f"kill-{n}") for n, _ in batch]

    async def _by_http(self, batch: list[tuple[int, Any]]) -> None:
        await asyncio.gather(*(self._post(f"kill-{n}", spec) for n, spec in batch))

    async def _post(self, key: str, spec: Any) -> None:
        while True:
            status = await self.stage.submit_http(spec, key)
            if status == 202:
                self.accepted.append(workload_id(TEAM, key))
                return
            assert status in (0, 429, 500, 503), f"HTTP {status}"
            await asyncio.sleep(0.2)


async def run(options: argparse.Namespace) -> int:
    """All rounds on one system in a temporary folder; prints a line each and a verdict."""
    with tempfile.TemporaryDirectory(prefix="muster-kill-", dir="/var/tmp") as name:
        overrides = {
            "simulated-cluster": {"MUSTER_CLUSTER_START_DELAY_SECONDS": "0.2"},
            "*": {"MUSTER_FAILPOINTS": options.failpoints, "MUSTER_SEED": str(options.seed)},
        }
        system = await asyncio.to_thread(launch, Path(name) / "system", overrides=overrides)
        stage = Stage(system)
        try:
            await stage.connect()
            return await _rounds(stage, options)
        finally:
            if options.keep_logs:
                shutil.copytree(system.folder / "logs", options.keep_logs, dirs_exist_ok=True)
            await stage.disconnect()
            await asyncio.to_thread(system.discard)


async def _rounds(stage: Stage, options: argparse.Namespace) -> int:
    generator = random.Random(options.seed)
    await stage.organise()
    await stage.nodes(list(fleet(100)))
    load = Load(stage, generator)
    feeding = asyncio.create_task(load.run())
    started = time.monotonic()
    slow: list[str] = []
    for number in range(1, options.rounds + 1):
        await asyncio.sleep(generator.uniform(1.0, 3.0))
        target = options.only or generator.choice(TARGETS)
        seconds = await recovery_seconds(stage, target)
        limit = LIMIT_SECONDS.get(target, SERVICE_LIMIT_SECONDS)
        mark = "ok" if seconds <= limit else f"SLOW (limit {limit:g} s)"
        slow += [target] if seconds > limit else []
        line = f"round {number:3d} kill {target:18s} decides again after {seconds:5.2f} s {mark}"
        print(line, flush=True)
    load.stopping = True
    await feeding
    lasted = time.monotonic() - started
    found = await judged(stage, load.accepted, lasted, SETTLE_SECONDS)
    found.slow = [*slow, *found.slow]
    counts = {"rounds": options.rounds, "seed": options.seed, "accepted": len(load.accepted)}
    print(json.dumps(counts | asdict(found)))
    verdict = found.verdict(LeastLoad())
    print(verdict.name.replace("_", " "))
    return verdict


def main() -> None:
    """Parse options, run, exit with the verdict."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="kill this process every time")
    parser.add_argument("--failpoints", default="", help="as MUSTER_FAILPOINTS, in all services")
    parser.add_argument("--keep-logs", help="copy the logs of the services into this folder")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
