"""Connections of a service on a real database: what the driver has lost track of is not kept."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from shared.adapters.postgres.pool import Database as Pool
from shared.ports.errors import Rejected, Transient, UnknownCommit
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


@pytest.mark.parametrize(
    ("sql", "advice"),
    [
        ("SELECT * FROM placement.workload", "run the migrations (migrations/rights.py)"),
        ("SELECT * FROM quota.nothing", "run the migrations"),
    ],
)
async def test_what_the_installation_lacks_is_no_message_s_fault(database, sql: str, advice: str):
    pool = Pool(database.url("quota"))

    with pytest.raises(Transient, match=re.escape(advice)):
        await pool.fetch(sql)
    await pool.close()


async def test_arrays_hold_what_the_tables_hold(pool: Pool):
    texts = ["a", "", "[1]", '{"b"}', None]
    query = (
        "SELECT $1::text[] AS t, $2::bigint[] AS n, $3::bytea[] AS b, $4::bool[] AS f,"
        " $5::uuid[] AS u"
    )
    uuid = "0193f6a0-0000-7000-8000-000000000001"

    (row,) = await pool.fetch(query, texts, (1, None, 2**62), {b"\x00": 1}.keys(), [True], {uuid})

    assert [*row["t"]] == texts
    assert (row["n"], row["b"], row["f"]) == ([1, None, 2**62], [b"\x00"], [True])
    assert [str(one) for one in row["u"]] == [uuid]


async def test_nothing_and_what_is_nested_are_arrays_too(pool: Pool):
    (row,) = await pool.fetch(
        "SELECT $1::int[] AS none, $2::int[] AS nested", [], [[1, 2], [3, 4]]
    )

    assert (row["none"], row["nested"]) == ([], [[1, 2], [3, 4]])


async def test_what_is_no_array_is_refused(pool: Pool):
    for wrong in ("text", {"a": 1}, 5):
        with pytest.raises(Rejected):
            await pool.fetch("SELECT $1::text[]", wrong)
