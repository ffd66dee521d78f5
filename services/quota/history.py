"""Use over time of every queue: a row for each, and what placement is told once a minute.

A row holds the sum of all changes ever (core/quota/usage_history.py); how much runs now follows
from the workloads that are placed. So a restart reads one row for each queue, however old the
cell. Rows come with the facts that change them, in one unit of work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from services.quota.untold import Untold
from shared.core.queueing.nomination import Pending, Phase
from shared.core.quota.usage_history import GPU_SECOND, Account, UsageHistory
from shared.events.quotas import QueueUsageTold
from shared.ports.reader import Reader
from shared.ports.store import Write

TELL_INTERVAL_MS: Final = 60_000
_UPSERT: Final = (
    "INSERT INTO quota.queue_usage (queue, half_life_ms, origin, weighted, changed_at_ms, epoch)"
    " SELECT q, {1}::bigint, o, w::numeric, {4}::bigint, {epoch} FROM unnest({0}::text[],"
    " {2}::bigint[], {3}::text[]) AS r(q, o, w) ON CONFLICT (queue) DO UPDATE SET"
    " half_life_ms = excluded.half_life_ms, origin = excluded.origin,"
    " weighted = excluded.weighted, changed_at_ms = excluded.changed_at_ms,"
    " epoch = excluded.epoch RETURNING 1"
)
_SELECT: Final = (
    "SELECT queue, half_life_ms, origin, weighted::text AS weighted, changed_at_ms"
    " FROM quota.queue_usage"
)


class History:
    """The accounts of one cell, what of them is unwritten, and what has to be told."""

    def __init__(self, half_life_ms: int) -> None:
        self._core = UsageHistory(half_life_ms)
        self._fresh: dict[str, None] = {}
        self._untold = Untold(TELL_INTERVAL_MS)
        self._changed_at_ms = 0

    async def load(self, reader: Reader, alive: Iterable[Pending]) -> None:
        """Rebuild from the rows and from what is placed; all are told again."""
        rates: dict[str, int] = {}
        placed = [one for one in alive if one.phase is Phase.PLACED]
        for one in placed:
            rates[one.queue] = rates.get(one.queue, 0) + one.charge[0]
        known = set()
        for row in await reader.fetch(_SELECT):
            known.add(row["queue"])
            self._restore(row, rates.get(row["queue"], 0))
        for one in placed:
            if one.queue not in known:
                self._core.change(one.queue, one.placed_at_ms, one.charge[0])
        self._untold.add(self._core.accounts)

    def _restore(self, row: Mapping[str, Any], gpu_milli: int) -> None:
        queue, at_ms = row["queue"], row["changed_at_ms"]
        account = Account(rate=gpu_milli, weighted=int(row["weighted"]), origin=row["origin"])
        if row["half_life_ms"] == self._core.half_life_ms:
            self._core.restore(queue, account)
            return
        before = UsageHistory(row["half_life_ms"])
        before.restore(queue, account)
        self._core.begin(queue, at_ms, before.at(queue, at_ms), gpu_milli)
        self._fresh[queue] = None
        self._changed_at_ms = max(self._changed_at_ms, at_ms)

    def change(self, queue: str, at_ms: int, gpu_milli: int) -> None:
        """From `at_ms` on the queue holds more (or less); work without a GPU is not counted."""
        if not gpu_milli:
            return
        self._core.change(queue, at_ms, gpu_milli)
        self._fresh[queue] = None
        self._untold.add((queue,))
        self._changed_at_ms = max(self._changed_at_ms, at_ms)

    def at(self, queue: str, at_ms: int) -> int:
        """What counts against the queue in the order, in GPU-seconds."""
        return self._core.at(queue, at_ms) // GPU_SECOND

    def due_ms(self) -> int | None:
        """When the next use is to be told."""
        return self._untold.due_ms()

    def tell(self, now_ms: int, cell: int) -> list[QueueUsageTold]:
        """The use of every queue that changed; one that holds devices changes all the time."""
        accounts, queues = self._core.accounts, self._untold.take(now_ms)
        self._untold.add(queue for queue in queues if accounts[queue].rate)
        return [
            QueueUsageTold(
                queue=queue,
                gpu_seconds=self.at(queue, now_ms),
                at_ms=now_ms,
                half_life_ms=self._core.half_life_ms,
                cell=cell,
            )
            for queue in queues
        ]

    def writes(self) -> Sequence[Write]:
        """Rows of the accounts that changed since the last call."""
        if not self._fresh:
            return ()
        queues, self._fresh = list(self._fresh), {}
        accounts = [self._core.accounts[queue] for queue in queues]
        columns = (
            queues,
            self._core.half_life_ms,
            [one.origin for one in accounts],
            [str(one.weighted) for one in accounts],
            self._changed_at_ms,
        )
        return (Write(_UPSERT, columns, len(queues)),)
