"""Removes rows that are older than any reader may ask for, in small statements beside the work.

A trim walks its table by an index from the oldest row on, one page for a statement, and stops at
the first that is young. Each statement is a transaction of its own and takes a few milliseconds,
so that neither a unit of work nor the vacuum waits for it. Deleted rows are written no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import structlog

from shared.ports.clock import Clock
from shared.ports.errors import MusterError
from shared.ports.reader import Reader

PAGE_ROWS: Final = 500
PAUSE_SECONDS: Final = 0.1
INTERVAL_SECONDS: Final = 600.0
DAY_MS: Final = 86_400_000
RETENTION_DAYS_MIN: Final = 5
"""Longer than inbox rows are kept: nothing that could come again is trimmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trim:
    """One table and its statement.

    `sql` gets the time before which rows are old ($1, Unix milliseconds), the size of a page ($2)
    and the place behind the last page ($3 number, $4 text); it answers with one row: `seen` rows
    on the page, how many are `gone`, and the place of the last as `number` and `text`.
    """

    name: str
    sql: str
    keep_days: int


@runtime_checkable
class Trimmed(Protocol):
    """A handler with tables that are trimmed while it runs."""

    trims: Sequence[Trim]


async def trim(reader: Reader, one: Trim, now_ms: int) -> int:
    """Remove everything old; how many rows went.

    Raises:
        Transient: the database cannot be reached; what went is gone.
    """
    before_ms = now_ms - one.keep_days * DAY_MS
    number, text = -1, ""
    gone = 0
    while True:
        rows: Sequence[Any] = await reader.fetch(one.sql, before_ms, PAGE_ROWS, number, text)
        page = rows[0]
        gone += int(page["gone"])
        if page["seen"] < PAGE_ROWS:
            return gone
        number, text = page["number"], page["text"]
        await asyncio.sleep(PAUSE_SECONDS)


async def trim_forever(
    reader: Reader, trims: Sequence[Trim], clock: Clock, log: structlog.stdlib.BoundLogger
) -> None:
    """Trim every ten minutes until cancelled."""
    while True:
        for one in trims:
            try:
                gone = await trim(reader, one, clock.now_ms())
            except MusterError as error:
                log.warning("not trimmed", table=one.name, error=str(error))
                continue
            if gone:
                log.info("trimmed", table=one.name, rows=gone)
        await asyncio.sleep(INTERVAL_SECONDS)
