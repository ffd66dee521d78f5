"""The lease of one (service, shard): time-outs make take-over fast, the epoch makes it safe.

A lease names a stable holder slot. The supervisor's restart of that slot takes over at once with
the next epoch; another slot only after expiry. All times are the database's own (ADR 3).
"""

from __future__ import annotations

from typing import Final

from shared.adapters.postgres.pool import Database
from shared.adapters.slots import SlotCheck, SlotHolder
from shared.ports.errors import LeaseLost

TIME_TO_LIVE_SECONDS: Final = 5.0


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
        process: str = "",
    ) -> None:
        self.schema = schema
        self.shard = shard
        self.slot = slot
        self.epoch = 0
        self._database = database
        self._ttl = time_to_live_seconds
        self._check = SlotCheck(slot, process)

    async def try_acquire(self) -> bool:
        """Take the shard if its holder is this slot or has expired; counts the epoch up.

        Raises:
            SlotTaken: another process of this slot has it and renews it.
        """
        holder = await self._holder()
        if holder is not None and not self._check.may_take(holder):
            return False
        rows = await self._database.fetch(
            f"SELECT {self.schema}.take_lease($1, $2, $3) AS epoch",
            self.shard,
            self.slot,
            self._ttl,
        )
        self.epoch = rows[0]["epoch"] or 0
        return self.epoch > 0

    async def _holder(self) -> SlotHolder | None:
        rows = await self._database.fetch(
            "SELECT holder AS slot, process,"
            " ($2 - extract(epoch FROM expires_at - clock_timestamp()))::float8 AS silent_seconds"
            f" FROM {self.schema}.lease WHERE shard = $1 AND expires_at > now()",
            self.shard,
            self._ttl,
        )
        return SlotHolder(**rows[0]) if rows else None

    async def renew(self) -> int:
        """Keep it for another time to live; the database's Unix time in ms.

        Raises:
            LeaseLost: The epoch has moved on.
        """
        rows = await self._database.fetch(
            f"UPDATE {self.schema}.lease SET expires_at = now() + make_interval(secs => $3),"
            " process = $4"
            " WHERE shard = $1 AND epoch = $2"
            " RETURNING (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now_ms",
            self.shard,
            self.epoch,
            self._ttl,
            self._check.process,
        )
        if not rows:
            raise LeaseLost(f"{self.schema}/{self.shard}: epoch {self.epoch} is over")
        now_ms: int = rows[0]["now_ms"]
        return now_ms

    async def release(self) -> None:
        """Let another slot take it at once."""
        await self._database.fetch(
            f"UPDATE {self.schema}.lease SET expires_at = now() WHERE shard = $1 AND epoch = $2",
            self.shard,
            self.epoch,
        )
