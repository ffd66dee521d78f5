"""A handler on a real database, without a broker: each decision is one transaction."""

from collections.abc import Sequence

from shared.adapters.postgres.lease import PostgresLease
from shared.adapters.postgres.pool import Database as Pool
from shared.adapters.postgres.store import PostgresStore
from shared.events.envelope import Received
from shared.runtime.assemble import Counters, assemble
from shared.runtime.handler import Handler, Outcome


class Bench:
    """One handler under its own role, lease and store."""

    def __init__(self, handler: Handler, url: str) -> None:
        self.handler = handler
        self.pool = Pool(url)
        lease = PostgresLease(self.pool, handler.name, "cell-0", "test")
        self.lease = lease
        self.store = PostgresStore(self.pool, lease)
        self.counters = Counters(next_seq=1, next_unit=1, next_audit=1, last_digest=b"")

    async def open(self) -> None:
        assert await self.lease.try_acquire()
        restored = await self.store.restore()
        self.counters = Counters(
            next_seq=restored.next_seq,
            next_unit=restored.next_unit,
            next_audit=restored.next_audit,
            last_digest=restored.last_digest,
        )
        await self.handler.load(self.pool)

    async def decide(self, messages: Sequence[Received], now_ms: int) -> Outcome:
        await self.handler.prepare(messages, self.pool)
        outcome = self.handler.decide(messages, now_ms)
        unit = assemble(
            self.handler.name,
            self.counters,
            outcome,
            consumed=messages,
            dead=(),
            now_ms=now_ms,
        )
        await self.store.commit(unit)
        self.counters = self.counters.after(unit)
        return outcome

    async def close(self) -> None:
        await self.pool.close()
