"""The same lease and store twice: in PostgreSQL and in memory, for one suite of tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from shared.adapters.memory import ManualClock, MemoryDatabase, MemoryLease, MemoryStore
from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.ports.errors import Rejected
from shared.ports.store import Write
from tests.fixtures.servers import Database

SHARD = "cell-0"
TTL_SECONDS = 0.4
MARK = "INSERT INTO quota.watermark (shard) VALUES ({0}::text) RETURNING 1"
BAD = "INSERT INTO quota.watermark (shard) VALUES (NULL) RETURNING 1"
NOBODY = "UPDATE quota.watermark SET next_seq = 9 WHERE shard = 'nobody' RETURNING 1"


@dataclass
class InMemory:
    """The fakes."""

    database: MemoryDatabase

    def lease(self, slot: str, process: str = "") -> MemoryLease:
        return MemoryLease(
            self.database, SHARD, slot, time_to_live_seconds=TTL_SECONDS, process=process
        )

    def store(self, lease: Any) -> MemoryStore:
        return MemoryStore(self.database, lease)

    async def time_passes(self) -> None:
        assert isinstance(self.database.clock, ManualClock)
        self.database.clock.advance(2 * TTL_SECONDS)

    async def a_moment_passes(self) -> None:
        assert isinstance(self.database.clock, ManualClock)
        self.database.clock.advance(TTL_SECONDS / 8)

    async def marks(self) -> int:
        """Writes that became true."""
        return len(self.database.shard(SHARD).writes)


@dataclass
class InPostgres:
    """The real ones, in the schema of quota under its own role."""

    pool: Pool

    def lease(self, slot: str, process: str = "") -> PostgresLease:
        return PostgresLease(
            self.pool, "quota", SHARD, slot, time_to_live_seconds=TTL_SECONDS, process=process
        )

    def store(self, lease: Any) -> PostgresStore:
        return PostgresStore(self.pool, lease)

    async def time_passes(self) -> None:
        await asyncio.sleep(1.25 * TTL_SECONDS)

    async def a_moment_passes(self) -> None:
        await asyncio.sleep(TTL_SECONDS / 8)

    async def marks(self) -> int:
        """Writes that became true."""
        rows = await self.pool.fetch(
            "SELECT count(*) AS n FROM quota.watermark WHERE shard <> $1", SHARD
        )
        count: int = rows[0]["n"]
        return count


World = InMemory | InPostgres


@asynccontextmanager
async def world_of(kind: str, database: Database | None) -> AsyncIterator[World]:
    """The world of `kind`, "memory" or "postgres"."""
    if database is None:
        memory = MemoryDatabase(clock=ManualClock())
        memory.refused[BAD] = Rejected("a column is null")
        memory.rows_changed[NOBODY] = 0
        yield InMemory(memory)
        return
    pool = Pool(database.url("quota"))
    yield InPostgres(pool)
    await pool.close()


def mark(name: str = "m") -> Write:
    """A write that works."""
    return Write(MARK, (name,), 1)


def bad() -> Write:
    """A write whose content the database refuses."""
    return Write(BAD, (), 1)


def of_nobody() -> Write:
    """A write of a row that is no longer as it was seen."""
    return Write(NOBODY, (), 1)
