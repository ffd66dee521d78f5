"""The ports of one simulated process: the fakes, with latencies and the faults that are armed."""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from typing_extensions import override

from shared.adapters.memory import FIRST_MS, MemoryDatabase, MemoryLease, MemoryShard, MemoryStore
from shared.adapters.memory_log import MemoryLog
from shared.ports.errors import MusterError, Transient, UnknownCommit
from shared.ports.store import OutboxRow, Unit
from tests.simulation.rows.tables import Row, Tables

SHARD: Final = "cell-0"
EPOCH_SQL: Final = "SELECT epoch FROM placement.lease WHERE shard = $1"


class Time:
    """`ports.Clock` of one machine: virtual time, and by how much its wall clock is off.

    It may be asked from any thread, and after its event loop has ended, as metrics do.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.off_ms = 0

    def now_ms(self) -> int:
        """Unix milliseconds."""
        return FIRST_MS + round(self.monotonic_seconds() * 1000) + self.off_ms

    def monotonic_seconds(self) -> float:
        """Virtual seconds."""
        return self._loop.time()


class SimulatedDatabase(MemoryDatabase):
    """The database of one service; `stale` tells of units that a past epoch has written."""

    __slots__ = ("_random", "own", "service", "stale")

    def __init__(self, clock: Time, service: str, random: Random) -> None:
        super().__init__(clock=clock)
        self.service = service
        self.own = Tables(service)
        self.stale: list[str] = []
        self._random = random

    @override
    async def fetch(self, sql: str, *arguments: Any) -> list[Row]:
        """Rows of the service's own tables; in any order where the query has none."""
        await asyncio.sleep(self._random.uniform(0.0005, 0.002))
        if sql == EPOCH_SQL:
            return [{"epoch": self.shard(arguments[0]).epoch}]
        rows = self.own.fetch(sql, *arguments)
        if "ORDER BY" not in sql:
            self._random.shuffle(rows)
        return rows


@dataclass(slots=True)
class Armed:
    """Faults that wait for the next commit or publishing of a service."""

    random: Random
    waiting: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def take(self, service: str, what: str) -> str:
        """The next fault of commits or publishings; "" for none."""
        waiting = self.waiting[service, what]
        return waiting.pop(0) if waiting else ""


class SimulatedStore(MemoryStore):
    """A commit takes time before and after it happens, and may break in each way."""

    def __init__(self, database: SimulatedDatabase, lease: MemoryLease, armed: Armed) -> None:
        super().__init__(database, lease)
        self._own, self._armed = database, armed
        self._service = database.service

    @override
    async def commit(self, unit: Unit) -> None:
        """As `MemoryStore`; the statement carries the epoch that it was sent with."""
        await asyncio.sleep(self._armed.random.uniform(0.0005, 0.004))
        fault = self._armed.take(self._service, "commit")
        if fault == "commit_refused":
            raise Transient("too many connections")
        if fault == "commit_lost":
            raise UnknownCommit("the connection broke before it")
        if fault == "commit_late":
            sent = SimulatedStore(self._own, copy.copy(self._lease), self._armed)
            seconds = self._armed.random.uniform(0.01, 2.0)
            asyncio.get_running_loop().call_later(seconds, sent.late, unit, context=OUTSIDE)
            raise UnknownCommit("the connection broke, the server goes on")
        await super().commit(unit)
        if fault == "commit_executed":
            raise UnknownCommit("the connection broke after it")
        await asyncio.sleep(self._armed.random.uniform(0.0005, 0.004))

    def late(self, unit: Unit) -> None:
        """The server executes what nothing waits for any more."""
        task = super().commit(unit)
        try:
            task.send(None)
        except StopIteration:
            return
        except MusterError:
            return

    @override
    def _apply(self, unit: Unit, row: MemoryShard) -> None:
        if self._lease.epoch != row.epoch:
            self._own.stale.append(f"unit {unit.number}: epoch {self._lease.epoch} at {row.epoch}")
        self._own.own.apply(unit.writes, self._lease.epoch)
        super()._apply(unit, row)


class SimulatedPublisher:
    """`ports.Publisher` on the log of the world."""

    def __init__(self, log: MemoryLog, service: str, armed: Armed) -> None:
        self._log, self._service, self._armed = log, service, armed

    async def publish(self, rows: Sequence[OutboxRow]) -> None:
        """Write `rows`; in each way that a broker can break."""
        random = self._armed.random
        await asyncio.sleep(random.uniform(0.001, 0.005))
        fault = self._armed.take(self._service, "publish")
        if fault == "publish_away":
            raise Transient("no broker")
        half = len(rows) // 2 if fault == "publish_half" else random.randint(0, len(rows))
        if fault == "publish_late":
            await asyncio.sleep(random.uniform(0.1, 3.0))
        for row in rows[:half]:
            self._log.append(row)
        if fault == "publish_half":
            raise Transient("the broker went away")
        await asyncio.sleep(random.uniform(0.0005, 0.002))
        for row in rows[half:]:
            self._log.append(row)
        if fault == "publish_twice":
            raise Transient("no answer")

    async def close(self) -> None:
        """Nothing is held."""


OUTSIDE = Context()
"""Of what belongs to no process: servers go on when their clients are killed."""
