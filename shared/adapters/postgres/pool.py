"""A small pool with every time-out set: a cut network must never hang a service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

import asyncpg

from shared.adapters.postgres.arrays import tell_arrays_by_type
from shared.adapters.postgres.errors import translated

COMMAND_TIMEOUT_SECONDS: Final = 6.0
CONNECT_TIMEOUT_SECONDS: Final = 3.0
SERVER_SETTINGS: Final = {
    "statement_timeout": "5000",
    "lock_timeout": "1000",
    "idle_in_transaction_session_timeout": "2000",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}
tell_arrays_by_type()


class Database:
    """Connections of one service under its own role."""

    def __init__(self, url: str, *, max_size: int = 4, name: str = "muster") -> None:
        self._url = url.replace("postgresql+asyncpg://", "postgresql://")
        self._max_size = max_size
        self._name = name
        self._pool: asyncpg.Pool | None = None
        self._opening = asyncio.Lock()

    async def pool(self) -> asyncpg.Pool:
        """The open pool; raises Transient while the database cannot be reached."""
        async with self._opening:
            if self._pool is None:
                with translated():
                    self._pool = await asyncpg.create_pool(
                        self._url,
                        min_size=1,
                        max_size=self._max_size,
                        timeout=CONNECT_TIMEOUT_SECONDS,
                        command_timeout=COMMAND_TIMEOUT_SECONDS,
                        statement_cache_size=300,
                        max_inactive_connection_lifetime=0,
                        reset=_keep_as_it_is,
                        server_settings=SERVER_SETTINGS | {"application_name": self._name},
                    )
        return self._pool

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """A connection for one statement or transaction; errors are those of the ports.

        One that the driver itself has lost track of is closed: given out again, it would refuse
        every later statement ("another operation is in progress") until the process ends.
        """
        pool = await self.pool()
        with translated():
            async with pool.acquire(timeout=CONNECT_TIMEOUT_SECONDS) as connection:
                try:
                    yield connection
                except asyncpg.DataError:  # an argument that cannot be sent: nothing was
                    raise
                except (asyncpg.InterfaceError, asyncpg.InternalClientError):
                    connection.terminate()
                    raise

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Mapping[str, Any]]:  # noqa: ANN401  # any SQL value
        """Rows of one query; `ports.Reader`."""
        async with self.connection() as connection:
            rows: Sequence[Mapping[str, Any]] = await connection.fetch(sql, *arguments)
            return rows

    async def execute(self, sql: str, *arguments: Any) -> None:  # noqa: ANN401  # any SQL value
        """Run one statement."""
        await self.fetch(sql, *arguments)

    async def close(self) -> None:
        """Close all connections; those in use are cut after a second."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(1):
                await pool.close()
        except (TimeoutError, OSError, asyncpg.InterfaceError):
            pool.terminate()


async def _keep_as_it_is(_: asyncpg.Connection) -> None:
    """Nothing here changes the state of a session: no round trip to reset it after each use."""
