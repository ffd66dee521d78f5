"""What placement was told and what it told are read of one moment, while it goes on."""

from __future__ import annotations

import contextlib
import uuid

from typing_extensions import override

from services.placement.offline import replay
from shared.adapters.postgres.pool import Database

TOLD = (
    "INSERT INTO placement.outbox (shard, seq, event_id, topic, partition, key, headers, value,"
    " epoch) VALUES ('cell-0', {0}, '{1}', 'placement.workload', 0, 'w', '', 'fact', 1)"
)


class Busy:
    """A connection; after its first query a unit of placement is committed."""

    def __init__(self, connection, commit):
        self._connection, self._commit = connection, commit
        self.transaction = connection.transaction

    async def fetch(self, *query):
        rows = await self._connection.fetch(*query)
        self._commit()
        return rows


async def test_what_is_committed_between_two_queries_is_in_neither(database, monkeypatch):
    def tell(number):
        database.execute(TOLD.format(number, uuid.UUID(int=number)))

    tell(1)
    numbers = iter((2, 3))

    class Between(Database):
        @override
        @contextlib.asynccontextmanager
        async def connection(self):
            async with super().connection() as connection:
                yield Busy(connection, lambda: tell(next(numbers)))

    monkeypatch.setattr(replay, "Database", Between)
    inbox, outbox = await replay._recorded(database.url("operations"), "cell-0")

    assert ([], 1) == (inbox, len(outbox))
