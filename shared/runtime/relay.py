"""Publishes committed outbox rows in order, from memory, and knows what was acknowledged.

A batch is not sent before the one before it is acknowledged, so the order on each partition is
commit order. The watermark (`acked_seq`) is written with the next transaction; a restart
publishes everything above it first, and consumers drop what they have seen (ADR 3).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence
from typing import Final

from shared.ports.errors import Transient
from shared.ports.publisher import Publisher
from shared.ports.store import OutboxRow
from shared.runtime.failpoints import Failpoints

BATCH_ROWS_MAX: Final = 2_000
QUEUED_BYTES_MAX: Final = 32 << 20
BACKOFF_SECONDS_MAX: Final = 1.0


class Relay:
    """A FIFO with a byte bound, and the task that empties it."""

    def __init__(self, publisher: Publisher, failpoints: Failpoints, acked_seq: int) -> None:
        self.acked_seq = acked_seq
        self.failures = 0
        self._publisher = publisher
        self._failpoints = failpoints
        self._rows: deque[OutboxRow] = deque()
        self._bytes = 0
        self._units: deque[tuple[int, float]] = deque()
        """Of each unit that waits: number of its last row, and when it was taken."""
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def waiting(self) -> int:
        """Rows that are committed and not yet acknowledged."""
        return len(self._rows)

    def oldest_seconds(self, now_seconds: float) -> float:
        """For how long the oldest row waits; 0 where none does. Safe from any thread."""
        with contextlib.suppress(IndexError):
            return max(now_seconds - self._units[0][1], 0.0)
        return 0.0

    def put(self, rows: Sequence[OutboxRow], at_seconds: float = 0.0) -> None:
        """Take committed rows, in order of `seq`; `at_seconds` by a clock that never falls."""
        if not rows:
            return
        self._rows.extend(rows)
        self._units.append((rows[-1].seq, at_seconds))
        self._bytes += sum(len(row.value) for row in rows)
        self._filled.set()
        self._idle.clear()
        if self._bytes >= QUEUED_BYTES_MAX:
            self._emptied.clear()

    async def room(self) -> None:
        """Return when the FIFO is below its bound; until then nothing more is consumed."""
        await self._emptied.wait()

    async def run(self) -> None:
        """Publish until cancelled; a broker that is away is tried again and again."""
        while True:
            await self._filled.wait()
            await self._publish_once()

    async def _publish_once(self) -> None:
        rows = [self._rows[index] for index in range(min(len(self._rows), BATCH_ROWS_MAX))]
        try:
            await self._failpoints.reach("relay.before_publish")
            await self._publisher.publish(rows)
        except Transient:
            self.failures += 1
            await asyncio.sleep(min(0.05 * 2 ** min(self.failures, 6), BACKOFF_SECONDS_MAX))
            return
        await self._failpoints.reach("relay.published_not_marked")
        self.failures = 0
        self._forget(rows)

    def _forget(self, rows: Sequence[OutboxRow]) -> None:
        for row in rows:
            self._rows.popleft()
            self._bytes -= len(row.value)
        self.acked_seq = rows[-1].seq
        while self._units and self._units[0][0] <= self.acked_seq:
            self._units.popleft()
        if not self._rows:
            self._filled.clear()
            self._idle.set()
        if self._bytes < QUEUED_BYTES_MAX:
            self._emptied.set()

    async def drained(self, wait_seconds: float) -> bool:
        """Wait until everything is acknowledged; false if that takes too long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await self._idle.wait()
        return not self._rows
