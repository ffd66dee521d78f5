"""The outboxes of all services, read in one snapshot and in the order of their commits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from operations.failures import Failure
from shared.adapters.postgres.unit_statement import unpack_headers
from shared.ports.store import OutboxRow

BATCH_ROWS: Final = 2_000
TIME: Final = "ce_time"
_SCHEMAS: Final = """
SELECT n.nspname AS schema FROM pg_namespace n
WHERE (SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid
       AND c.relname IN ('outbox', 'watermark', 'consumer_offset')
       AND c.relkind IN ('r', 'p')) = 3
ORDER BY 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which rows: of these topics (None: of all), told at `since_ms` or later (Unix time)."""

    topics: Collection[str] | None = None
    since_ms: int = 0

    def takes(self, row: OutboxRow) -> bool:
        """Whether a row of these topics is young enough."""
        return not self.since_ms or told_at_ms(row) >= self.since_ms


def told_at_ms(row: OutboxRow) -> int:
    """When it was told, by its own header; 0 for a dead letter of what says no time."""
    text = dict(row.headers).get(TIME, b"").decode(errors="replace")
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0


class Outboxes:
    """Of one snapshot of the database."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401  # asyncpg is untyped
        self._connection = connection

    async def fetch(self, sql: str, *arguments: Any) -> Sequence[Mapping[str, Any]]:  # noqa: ANN401  # values of a query
        """Rows of any query, of the same snapshot."""
        rows: Sequence[Mapping[str, Any]] = await self._connection.fetch(sql, *arguments)
        return rows

    async def schemas(self) -> list[str]:
        """Schemas with the tables of the protocol, in order of name."""
        return [row["schema"] for row in await self.fetch(_SCHEMAS)]

    async def shards(self) -> list[tuple[str, str]]:
        """(schema, shard) of each outbox."""
        return [
            (schema, row["shard"])
            for schema in await self.schemas()
            for row in await self.fetch(f"SELECT shard FROM {schema}.watermark ORDER BY 1")  # noqa: S608  # found names
        ]

    async def counts(self, chosen: Chosen) -> dict[str, int]:
        """Rows by topic; of `since_ms` alone the days count, as times are in the headers."""
        counts: dict[str, int] = {}
        for schema, shard in await self.shards():
            async for rows in self.rows(schema, shard, chosen):
                for row in rows:
                    counts[row.topic] = counts.get(row.topic, 0) + 1
        return counts

    async def rows(
        self, schema: str, shard: str, chosen: Chosen
    ) -> AsyncIterator[Sequence[OutboxRow]]:
        """Rows of one outbox by number, at most `BATCH_ROWS` at a time."""
        topics = None if chosen.topics is None else list(chosen.topics)
        since = datetime.fromtimestamp(chosen.since_ms / 1000, UTC).date()
        cursor = await self._connection.cursor(
            f"SELECT seq, event_id::text, topic, partition, key, headers, value"  # noqa: S608  # found names
            f" FROM {schema}.outbox WHERE shard = $1 AND ($2::text[] IS NULL OR topic = ANY ($2))"
            # A day of the server's own zone may begin up to a day before.
            " AND written_on >= $3::date - 1 ORDER BY seq",
            shard,
            topics,
            since,
        )
        while found := await cursor.fetch(BATCH_ROWS):
            rows = [_row(one) for one in found]
            yield [row for row in rows if chosen.takes(row)]


def _row(found: Mapping[str, Any]) -> OutboxRow:
    return OutboxRow(
        seq=found["seq"],
        event_id=found["event_id"],
        topic=found["topic"],
        partition=found["partition"],
        key=found["key"],
        headers=unpack_headers(found["headers"]),
        value=found["value"],
    )


@asynccontextmanager
async def outboxes(url: str) -> AsyncIterator[Outboxes]:
    """All outboxes as they are now.

    Raises:
        Failure: the database cannot be reached, or has no such tables.
    """
    import asyncpg

    try:
        connection = await asyncpg.connect(url, timeout=10)
    except (OSError, asyncpg.PostgresError, TimeoutError) as error:
        raise Failure(f"database: {error}; is its address right?") from error
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            found = Outboxes(connection)
            if not await found.schemas():
                raise Failure("database: no schema has the protocol tables; is it migrated?")
            yield found
    finally:
        await connection.close()
