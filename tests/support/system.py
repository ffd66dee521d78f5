"""A whole system for a benchmark or the kill test, with an organisation and a fleet."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import msgspec

from deploy.local.services import SERVICES
from deploy.local.system import LocalSystem
from shared.adapters.kafka import KafkaPublisher
from shared.core.model import Node, WorkloadSpec
from shared.ports.store import OutboxRow
from tests.support.work import node_row, submission_row

TEAM = "bench"
BATCH = 2_000
UNLIMITED = 2**62


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


class Stage:
    """A started system, its API, its database (read-only) and a publisher."""

    def __init__(
        self, folder: Path, *, overrides: Mapping[str, Mapping[str, str]], leave_out: Sequence[str]
    ) -> None:
        services = [one for one in SERVICES if one.name not in leave_out]
        self.system = LocalSystem(folder, services=services, overrides=overrides)
        self.names = [one.name for one in services]

    async def start(self) -> None:
        """Start everything and wait until it is ready."""
        await asyncio.to_thread(self.system.start)
        await asyncio.to_thread(self.system.wait_ready, 90)
        client = json.loads((self.system.folder / "client.json").read_text())
        self.api = aiohttp.ClientSession(
            base_url=client["address"], headers={"Authorization": f"Bearer {client['key']}"}
        )
        url = self.system.postgres.url("operations", "muster")
        self.rows = await asyncpg.create_pool(url, min_size=1, max_size=2)
        bootstrap = f"127.0.0.1:{self.system.kafka.port}"
        self.publisher = KafkaPublisher(bootstrap, "muster")

    async def stop(self) -> None:
        """Stop everything."""
        await self.publisher.close()
        await self.api.close()
        self.rows.terminate()
        await asyncio.to_thread(self.system.stop)

    async def put(self, path: str, body: Mapping[str, Any]) -> None:
        """Apply one document; a service that is not up yet is asked again."""
        async with self.api.put(f"/v1/{path}", json=body) as reply:
            text = await reply.text()
            assert reply.status < 300, f"PUT {path}: {reply.status} {text}"

    async def organise(self) -> None:
        """One team with a queue whose quota is unlimited, in one flavor."""
        await self.put("flavors/default", {})
        await self.put(f"teams/{TEAM}", {"default_queue": TEAM})
        limits = {"gpu_milli": UNLIMITED, "cpu_milli": UNLIMITED, "memory_mib": UNLIMITED}
        flavors = [{"flavor": "default", "nominal": limits}]
        await self.put(f"queues/{TEAM}", {"team": TEAM, "flavors": flavors})

    async def publish(self, rows: Iterable[OutboxRow]) -> None:
        """Write records to the log, in large batches."""
        batch: list[OutboxRow] = []
        for row in rows:
            batch.append(row)
            if len(batch) == BATCH:
                await self.publisher.publish(batch)
                batch = []
        if batch:
            await self.publisher.publish(batch)

    async def nodes(self, nodes: Sequence[Node]) -> None:
        """Report a fleet and wait until placement and admission have it."""
        at_ms = now_ms()
        await self.publish(node_row(number, node, at_ms) for number, node in enumerate(nodes))
        await self.until("SELECT count(*) FROM placement.node", len(nodes), 120)

    async def submit(self, specs: Iterable[WorkloadSpec], prefix: str) -> int:
        """Submit on the team's topic; returns how many."""
        at_ms = now_ms()
        rows = [
            submission_row(number, spec, TEAM, f"{prefix}-{number}", at_ms)
            for number, spec in enumerate(specs)
        ]
        await self.publish(rows)
        return len(rows)

    async def submit_http(self, spec: WorkloadSpec, key: str) -> int:
        """Submit by HTTP; the status, or 0 when no answer came."""
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        body = msgspec.json.encode(spec)
        try:
            async with self.api.post(
                "/v1/workloads", params={"team": TEAM}, data=body, headers=headers
            ) as reply:
                await reply.read()
                return reply.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0

    async def until(
        self, query: str, wanted: int, seconds: float, *, every_seconds: float = 0.1
    ) -> float:
        """Wait until a count is reached; returns the seconds it took.

        Raises:
            TimeoutError: with the count at the end.
        """
        started = time.monotonic()
        count = -1
        while time.monotonic() - started < seconds:
            count = await self.rows.fetchval(query)
            if count >= wanted:
                return time.monotonic() - started
            await asyncio.sleep(every_seconds)
        raise TimeoutError(f"{query}: {count} of {wanted} after {seconds} s")
