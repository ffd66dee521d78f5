"""Event streams: one poller for the process, a bounded queue for each listener.

The projection numbers events densely in commit order, so `seq > last` never passes over one. The
poller only asks the database while there are listeners. A listener that reads too slowly loses its
queue and is told to `resync`; memory stays bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import structlog

from shared.ports.errors import MusterError
from shared.ports.reader import Reader

POLL_SECONDS: Final = 0.05
ROWS_MAX: Final = 2_000
QUEUE_EVENTS_MAX: Final = 5_000
EVENT_COLUMNS: Final = (
    "seq, workload_id, team, type, version, at_ms, state, reason, message, detail, pod_reason"
)
Row = Mapping[str, Any]


class Listener:
    """One open stream: events of a team or of a workload, or all."""

    def __init__(self, team: str | None, workload_id: str | None) -> None:
        self.overflowed = False
        self._team = team
        self._workload_id = workload_id
        self._rows: deque[Row] = deque()
        self._filled = asyncio.Event()

    def offer(self, row: Row) -> None:
        """Queue one event if it is wanted; a full queue is dropped whole."""
        if self._team is not None and row["team"] != self._team:
            return
        if self._workload_id is not None and row["workload_id"] != self._workload_id:
            return
        if len(self._rows) >= QUEUE_EVENTS_MAX:
            self._rows.clear()
            self.overflowed = True
        self._rows.append(row)
        self._filled.set()

    async def take(self, wait_seconds: float) -> Sequence[Row]:
        """What has come, at the latest after `wait_seconds`; possibly nothing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                await self._filled.wait()
        self._filled.clear()
        rows = list(self._rows)
        self._rows.clear()
        return rows

    def wake(self) -> None:
        """Let `take` return: the process is closing."""
        self._filled.set()


class EventHub:
    """See the module."""

    def __init__(self, reader: Reader, log: structlog.stdlib.BoundLogger) -> None:
        self._reader = reader
        self._log = log
        self._listeners: set[Listener] = set()
        self._wanted = asyncio.Event()
        self._last_seq = 0

    @contextlib.contextmanager
    def listening(self, listener: Listener) -> Iterator[int]:
        """Feed `listener` while the block runs with all events after the number that it gives.

        That may be newer than `newest()` was: others have been fed since.
        """
        self._listeners.add(listener)
        self._wanted.set()
        try:
            yield self._last_seq
        finally:
            self._listeners.discard(listener)

    async def newest(self) -> int:
        """Number of the last event; the poller goes on from there if it was idle."""
        rows = await self._reader.fetch("SELECT coalesce(max(seq), 0) AS seq FROM gateway.event")
        newest: int = rows[0]["seq"]
        if not self._listeners:
            self._last_seq = max(self._last_seq, newest)
        return newest

    def close(self) -> None:
        """Wake every listener, so that its stream can end."""
        for listener in self._listeners:
            listener.wake()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            if not self._listeners:
                self._wanted.clear()
                await self._wanted.wait()
            try:
                full = await self._poll()
            except MusterError as error:
                self._log.warning("events not read", error=str(error))
                full = False
            await asyncio.sleep(0 if full else POLL_SECONDS)

    async def _poll(self) -> bool:
        """Hand out what is new; whether there may be more at once."""
        rows = await self._reader.fetch(
            f"SELECT {EVENT_COLUMNS} FROM gateway.event"  # noqa: S608  # a constant
            " WHERE seq > $1 ORDER BY seq LIMIT $2",
            self._last_seq,
            ROWS_MAX,
        )
        for row in rows:
            for listener in self._listeners:
                listener.offer(row)
        if rows:
            self._last_seq = rows[-1]["seq"]
        return len(rows) == ROWS_MAX
