"""What tests of a store that went back share: a load by HTTP, and how soon it is named."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection
from typing import Any

import aiohttp

from deploy.local.system import LocalSystem
from shared.events.envelope import workload_id
from tests.support.system import TEAM, Stage
from tests.support.work import submissions

NAMED_SECONDS_MAX = 15.0
HEALED_SECONDS_MAX = 60.0
SETTLE_SECONDS = 60.0
DECIDE = frozenset({"admission", "quota", "placement", "binder"})
COMPARE = DECIDE | {"gateway"}
"""Of these each holds its database against the log before it goes on."""
ENDED = "SELECT count(*) FROM gateway.workload WHERE state = 'succeeded'"


class HttpLoad:
    """Submissions by HTTP at a steady rate until stopped; `accepted` have a 202."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self._name = name
        self._stopping = asyncio.Event()
        self.accepted: list[str] = []

    async def run(self) -> None:
        """Until stopped; what is not accepted is sent again with the same key."""
        number = 0
        while not self._stopping.is_set():
            batch = list(submissions(5, number, run_seconds=2))
            await asyncio.gather(
                *(self._post(f"{self._name}-{number + n}", spec) for n, spec in enumerate(batch))
            )
            number += len(batch)
            await asyncio.sleep(0.3)

    async def _post(self, key: str, spec: Any) -> None:
        while not self._stopping.is_set():
            if await self._stage.submit_http(spec, key) == 202:
                self.accepted.append(workload_id(TEAM, key))
                return
            await asyncio.sleep(0.3)

    def stop(self) -> None:
        """After what is under way."""
        self._stopping.set()


def operations(system: LocalSystem, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of `muster-ops ARGUMENTS -o json`."""
    command = [sys.executable, "-m", "operations", *arguments, "-o", "json"]
    environment = {**os.environ, "MUSTER_HOME": str(system.folder)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


async def named_seconds(system: LocalSystem, services: Collection[str], command: str) -> float:
    """Until each of them demands the command on /readyz."""
    started = time.monotonic()
    left = set(services)
    async with aiohttp.ClientSession() as http:
        while left and time.monotonic() - started < 40:
            for name in list(left):
                try:
                    async with http.get(f"{system.url(name)}/readyz") as reply:
                        text = await reply.text()
                except (aiohttp.ClientError, OSError):
                    continue
                if reply.status == 503 and command in text:
                    left.discard(name)
            await asyncio.sleep(0.1)
    assert not left, f"not named by {left}"
    return time.monotonic() - started


async def lose_log(system: LocalSystem) -> None:
    """Delete all of Kafka's data; the supervisor starts an empty broker, which answers then.

    The data are moved away at once: a broker that runs removes files of its own meanwhile.
    """
    lost = system.kafka.folder / f"data.lost-{time.time_ns()}"
    (system.kafka.folder / "data").rename(lost)
    await asyncio.to_thread(system.kill, system.kafka.name)
    shutil.rmtree(lost, ignore_errors=True)
    await asyncio.sleep(0.5)
    while not await asyncio.to_thread(system.kafka.answers):
        await asyncio.sleep(0.1)


def put_back_alone(system: LocalSystem) -> None:
    """The base backup alone, as somebody who forgets the log of commits does."""
    data = system.postgres.folder / "data"
    shutil.rmtree(data)
    subprocess.run(["cp", "-a", str(system.postgres.backup.base), str(data)], check=True)
