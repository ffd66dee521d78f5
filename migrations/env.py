"""Runs migrations on the database of MUSTER_DATABASE_URL, as its owner.

With `-x newer=kept` tables of a newer version are left as they are, as after `helm rollback`: they
only grow. Without it that is an error.
"""

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
        newer = _unknown_here()
        if newer and context.get_x_argument(as_dictionary=True).get("newer") == "kept":
            context.config.print_stdout("tables of a newer version stay: %s", ", ".join(newer))
            return
        context.run_migrations()


def _unknown_here() -> list[str]:
    """Migrations that the database has and this checkout has not."""
    known = {one.revision for one in context.script.walk_revisions()}
    return [one for one in context.get_context().get_current_heads() if one not in known]


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
