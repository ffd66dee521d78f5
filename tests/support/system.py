"""A whole system for a benchmark or the kill test, with an organisation and a fleet."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import msgspec

from deploy.local.services import ON_KUBERNETES, SERVICES, Service
from deploy.local.system import LocalSystem
from shared.adapters.kafka import KafkaPublisher
from shared.core.model.nouns import Node, WorkloadSpec
from shared.events.grants import OPERATOR
from shared.ports.store import OutboxRow
from tests.support.work import node_row, submission_row

TEAM = "bench"
BATCH = 2_000
UNLIMITED = 2**62


def now_ms() -> int:
    """Unix time in milliseconds."""
    return time.time_ns() // 1_000_000


def launch(
    folder: Path,
    *,
    overrides: Mapping[str, Mapping[str, str]] | None = None,
    leave_out: Sequence[str] = ("fleet",),
    services: Sequence[Service] = SERVICES,
    backup: bool = False,
) -> LocalSystem:
    """A started system with every service ready; the caller stops it."""
    wanted = [one for one in services if one.name not in leave_out]
    system = LocalSystem(
        folder, services=wanted, overrides=overrides, tell=_keeper_log(folder), backup=backup
    )
    system.start()
    try:
        system.wait_ready(90)
    except BaseException:
        system.discard()
        raise
    return system


def _keeper_log(folder: Path) -> Callable[[str], None]:
    """Starts and ends of processes go to a file beside their logs."""

    def tell(line: str) -> None:
        with (folder / "logs" / "keeper.log").open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {line}\n")

    (folder / "logs").mkdir(parents=True, exist_ok=True)
    return tell


class Stage:
    """Connections to a started system: its API, its database (read-only) and its log."""

    def __init__(self, system: LocalSystem) -> None:
        self.system = system
        self.names = [one.name for one in (*SERVICES, *ON_KUBERNETES) if system.runs(one.name)]

    async def connect(self) -> None:
        """Open the connections on this event loop."""
        client = json.loads((self.system.folder / "client.json").read_text())
        self.api = aiohttp.ClientSession(
            base_url=client["address"], headers={"Authorization": f"Bearer {client['key']}"}
        )
        url = self.system.postgres.url("operations", "muster")
        self.rows = await asyncpg.create_pool(url, min_size=1, max_size=2)
        self.publisher = KafkaPublisher(self.system.kafka.access(OPERATOR), "muster")

    async def disconnect(self) -> None:
        """Close them."""
        await self.publisher.close()
        await self.api.close()
        self.rows.terminate()

    async def get(self, path: str) -> dict[str, Any]:
        """The JSON of a resource."""
        async with self.api.get(f"/v1/{path}") as reply:
            assert reply.status == 200, f"GET {path}: {reply.status} {await reply.text()}"
            return dict(await reply.json())

    async def command(self, workload_id: str, verb: str, **body: Any) -> None:
        """Send a command for one workload."""
        async with self.api.post(f"/v1/workloads/{workload_id}/{verb}", json=body) as reply:
            assert reply.status == 202, f"{verb}: {reply.status} {await reply.text()}"

    async def reaches(self, workload_id: str, state: str, seconds: float = 15) -> dict[str, Any]:
        """Wait until a workload is in a state; raises TimeoutError with what it is in."""
        deadline = time.monotonic() + seconds
        while (found := await self.get(f"workloads/{workload_id}"))["state"] != state:
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        else:
            return found
        raise TimeoutError(f"{workload_id} is {found['state']}, not {state}: {found}")

    async def put(self, path: str, body: Mapping[str, Any]) -> None:
        """Apply one document; a service that is not up yet is asked again."""
        async with self.api.patch(f"/v1/{path}", json=body) as reply:
            text = await reply.text()
            assert reply.status < 300, f"PATCH {path}: {reply.status} {text}"

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

    async def submit_http(self, spec: WorkloadSpec, key: str, *, team: str = TEAM) -> int:
        """Submit by HTTP; the status, or 0 when no answer came."""
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        body = msgspec.json.encode(spec)
        try:
            async with self.api.post(
                "/v1/workloads", params={"team": team}, data=body, headers=headers
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
