"""Runs migrations on the database of MUSTER_DATABASE_URL, as its owner."""

from __future__ import annotations

import asyncio
import os

import asyncpg
from alembic import context
from sqlalchemy.engine import Connection
from sqlalchemy.ext.asyncio import create_async_engine


def run(connection: Connection) -> None:
    """All pending migrations in one transaction."""
    context.configure(connection=connection, target_metadata=None)
    with context.begin_transaction():
        context.run_migrations()


async def main() -> None:
    """Connect by asyncpg, as services do: SQLAlchemy would not know `sslmode` of the URL."""
    url = os.environ["MUSTER_DATABASE_URL"].replace("postgresql+asyncpg://", "postgresql://")
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(url)
    )
    async with engine.connect() as connection:
        await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()


asyncio.run(main())
