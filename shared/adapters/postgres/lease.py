"""The lease of one (service, shard): time-outs make take-over fast, the epoch makes it safe.

A lease names a stable holder slot. The supervisor's restart of that slot takes over at once with
the next epoch; another slot only after expiry. All times are the database's own (design.md 2).
"""

from __future__ import annotations

from typing import Final

from shared.adapters.postgres.pool import Database
from shared.ports.errors import LeaseLost

TIME_TO_LIVE_SECONDS: Final = 5.0
RENEW_SECONDS: Final = 1.5
SILENCE_SECONDS: Final = 3.3
"""A holder that could not renew for so long stops by itself."""


class PostgresLease:
    """One row of `<schema>.lease`; `epoch` is 0 while it is not held."""

    def __init__(
        self,
        database: Database,
        schema: str,
        shard: str,
        slot: str,
        *,
        time_to_live_seconds: float = TIME_TO_LIVE_SECONDS,
    ) -> None:
        self.schema = schema
        self.shard = shard
        self.slot = slot
        self.epoch = 0
        self._database = database
        self._ttl = time_to_live_seconds

    async def try_acquire(self) -> bool:
        """Take the shard if its holder is this slot or has expired; counts the epoch up."""
        await self._database.fetch(
            f"INSERT INTO {self.schema}.lease (shard) VALUES ($1) ON CONFLICT DO NOTHING",
            self.shard,
        )
        rows = await self._database.fetch(
            f"WITH taken AS (UPDATE {self.schema}.lease SET epoch = epoch + 1, holder = $2,"
            " expires_at = now() + make_interval(secs => $3)"
            " WHERE shard = $1 AND (holder = $2 OR expires_at < now()) RETURNING epoch),"
            f" noted AS (INSERT INTO {self.schema}.lease_history (shard, epoch, holder)"
            " SELECT $1, epoch, $2 FROM taken RETURNING epoch) SELECT epoch FROM noted",
            self.shard,
            self.slot,
            self._ttl,
        )
        self.epoch = rows[0]["epoch"] if rows else 0
        return bool(rows)

    async def renew(self) -> None:
        """Keep it for another time to live; raises LeaseLost when the epoch has moved on."""
        rows = await self._database.fetch(
            f"UPDATE {self.schema}.lease SET expires_at = now() + make_interval(secs => $3)"
            " WHERE shard = $1 AND epoch = $2 RETURNING 1",
            self.shard,
            self.epoch,
            self._ttl,
        )
        if not rows:
            raise LeaseLost(f"{self.schema}/{self.shard}: epoch {self.epoch} is over")

    async def release(self) -> None:
        """Let another slot take it at once."""
        await self._database.fetch(
            f"UPDATE {self.schema}.lease SET expires_at = now() WHERE shard = $1 AND epoch = $2",
            self.shard,
            self.epoch,
        )
