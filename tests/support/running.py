"""One handler at work as in its process: the real loop on the real broker and database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from shared.adapters.clock import SystemClock
from shared.runtime.handler import Handler
from shared.runtime.main import connect, loop_of
from shared.runtime.settings import Settings
from shared.runtime.watchdog import Watchdog


@contextlib.asynccontextmanager
async def running_handler(settings: Settings, handler: Handler) -> AsyncIterator[None]:
    """Runs until the block ends, then stops in order."""
    parts = connect(settings, handler.name, "cell-0")
    loop, _ = loop_of(parts, handler, Watchdog(SystemClock(), 60))
    task = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        loop.stop()
        await task
        await parts.close()
