"""Connections of a service on a real database: what the driver has lost track of is not kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from shared.adapters.postgres.pool import Database as Pool
from shared.ports.errors import Rejected, UnknownCommit
from tests.fixtures.servers import Database


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    pool = Pool(database.url(), max_size=1)
    yield pool
    await pool.close()


async def backend(pool: Pool) -> int:
    return int((await pool.fetch("SELECT pg_backend_pid() AS pid"))[0]["pid"])


async def test_a_connection_on_which_an_operation_never_ends_is_replaced(pool: Pool):
    first = await backend(pool)

    async def lost(connection: asyncpg.Connection) -> None:
        """A second statement while the first one runs, as a cut connection leaves it."""
        running = asyncio.ensure_future(connection.fetch("SELECT pg_sleep(60)"))
        await asyncio.sleep(0.05)
        try:
            await connection.fetch("SELECT 1")
        finally:
            running.cancel()

    with pytest.raises(UnknownCommit, match="another operation"):
        async with pool.connection() as connection:
            await lost(connection)

    async with asyncio.timeout(2):
        assert first != await backend(pool)


async def test_a_bad_argument_leaves_the_connection_as_it_is(pool: Pool):
    first = await backend(pool)

    with pytest.raises(Rejected):
        await pool.fetch("SELECT $1::int", "no number")

    assert first == await backend(pool)
