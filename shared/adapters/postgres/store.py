"""`ports.Store` on PostgreSQL: the protocol rows of one (service, shard) under its lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database
from shared.adapters.postgres.unit_statement import build, unpack_headers
from shared.ports.errors import Transient, UnknownCommit
from shared.ports.store import OutboxRow, Restored, Unit

RECENT_IDS_MAX: Final = 50_000


class PostgresStore:
    """Reads and writes in the schema of one service; fenced by the epoch of its lease."""

    def __init__(self, database: Database, lease: PostgresLease) -> None:
        self._database = database
        self._lease = lease
        self._schema = lease.schema
        self._shard = lease.shard
        self._next_seq = 1

    async def restore(self) -> Restored:
        """Everything the new holder of the lease needs; also makes the coming partitions."""
        fetch, schema, shard = self._database.fetch, self._schema, self._shard
        await self.maintain()
        mark = (await fetch(f"SELECT * FROM {schema}.watermark WHERE shard = $1", shard))[0]
        self._next_seq = mark["next_seq"]
        ids = await fetch(
            f"SELECT event_id::text FROM {schema}.inbox WHERE shard = $1"
            f" ORDER BY event_id DESC LIMIT {RECENT_IDS_MAX}",
            shard,
        )
        audit = await fetch(
            f"SELECT seq, digest FROM {schema}.audit WHERE shard = $1 ORDER BY seq DESC LIMIT 1",
            shard,
        )
        rows = await self._offset_rows()
        return Restored(
            epoch=self._lease.epoch,
            shard=self._shard,
            offsets={(row["topic"], row["partition"]): row["next_offset"] for row in rows},
            topic_ids={
                (row["topic"], row["partition"]): row["topic_id"]
                for row in rows
                if row["topic_id"]
            },
            unacked=await self._unacked(mark["acked_seq"]),
            next_seq=mark["next_seq"],
            acked_seq=mark["acked_seq"],
            next_unit=mark["next_unit"],
            next_audit=audit[0]["seq"] + 1 if audit else 1,
            last_digest=audit[0]["digest"] if audit else b"",
            recent_ids=[row["event_id"] for row in reversed(ids)],
            recent_complete=len(ids) < RECENT_IDS_MAX,
        )

    async def maintain(self) -> None:
        """Make the partitions of the coming days, drop those that are old."""
        await self._database.fetch(f"SELECT {self._schema}.maintain()")

    async def _offset_rows(self) -> Sequence[Mapping[str, Any]]:
        return await self._database.fetch(
            "SELECT topic, partition, next_offset, topic_id"
            f" FROM {self._schema}.consumer_offset WHERE shard = $1",
            self._shard,
        )

    async def _unacked(self, acked_seq: int) -> list[OutboxRow]:
        rows = await self._database.fetch(
            "SELECT seq, event_id::text, topic, partition, key, headers, value"
            f" FROM {self._schema}.outbox WHERE shard = $1 AND seq > $2 ORDER BY seq",
            self._shard,
            acked_seq,
        )
        return [
            OutboxRow(
                seq=row["seq"],
                event_id=row["event_id"],
                topic=row["topic"],
                partition=row["partition"],
                key=row["key"],
                headers=unpack_headers(row["headers"]),
                value=row["value"],
            )
            for row in rows
        ]

    async def commit(self, unit: Unit) -> None:
        """One statement; see `ports.Store.commit` for the errors."""
        next_seq = unit.outbox[-1].seq + 1 if unit.outbox else self._next_seq
        statement = build(unit, self._schema, self._shard, self._lease.epoch, next_seq)
        await self._opened()
        async with self._database.connection() as connection:
            await connection.fetchrow(statement.text(), *statement.arguments)
        self._next_seq = next_seq

    async def _opened(self) -> None:
        try:
            await self._database.pool()
        except UnknownCommit as error:  # nothing was sent yet
            raise Transient(str(error)) from error

    async def seen(self, event_ids: Sequence[str]) -> set[str]:
        """Those of `event_ids` that this shard has consumed."""
        rows = await self._database.fetch(
            f"SELECT event_id::text FROM {self._schema}.inbox"
            " WHERE shard = $1 AND event_id = ANY($2::uuid[])",
            self._shard,
            list(event_ids),
        )
        return {row["event_id"] for row in rows}
