"""Runs migrations on the database of MUSTER_DATABASE_URL, as its owner."""

from __future__ import annotations

import asyncio
import os

from alembic import context
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.ext.asyncio import create_async_engine


def run(connection: Connection) -> None:
    """All pending migrations in one transaction."""
    context.configure(connection=connection, target_metadata=None)
    with context.begin_transaction():
        context.run_migrations()


async def main() -> None:
    """Connect by asyncpg, the one driver that is installed."""
    url = make_url(os.environ["MUSTER_DATABASE_URL"]).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


asyncio.run(main())
