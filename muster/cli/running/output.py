"""What the work writes, on standard output as it comes; through outages of Muster, too."""

from __future__ import annotations

import asyncio
import math
import sys
import time
from typing import TYPE_CHECKING, Final

from muster.cli.output import note
from muster.errors import MusterError, ServerError, Unreachable

if TYPE_CHECKING:
    from muster.client import AsyncClient

LAST_SECONDS: Final = 6.0
"""The last lines may come so long after the end of the work is known."""
AGAIN_SECONDS: Final = 1.0


class RunOutput:
    """Follows rank 0, attempt after attempt; says once why nothing is shown."""

    def __init__(self, client: AsyncClient, workload_id: str) -> None:
        self.workload_id = workload_id
        self._client = client
        self._attempt: int | None = None
        self._told = ""
        self._task: asyncio.Task[None] | None = None

    def follow(self, attempt: int) -> None:
        """Show what this attempt writes, unless that is done already."""
        if attempt != self._attempt:
            self._attempt = attempt
            before, self._task = self._task, asyncio.create_task(self._show())
            if before is not None:
                before.cancel()

    async def end(self) -> None:
        """Show what is still to come, for a moment."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=LAST_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _show(self) -> None:
        """Until the container ends; a stream that is cut goes on about where it stopped."""
        heard_at: float | None = None
        while True:
            since = None if heard_at is None else math.ceil(time.monotonic() - heard_at)
            pieces = self._client.logs(self.workload_id, follow=True, since_seconds=since)
            try:
                async for piece in pieces:
                    heard_at = time.monotonic()
                    sys.stdout.buffer.write(piece)
                    sys.stdout.buffer.flush()
            except (Unreachable, ServerError):
                await asyncio.sleep(AGAIN_SECONDS)
            except MusterError as error:
                self._tell_once(str(error))
                return
            else:
                return

    def _tell_once(self, text: str) -> None:
        if text != self._told:
            note(f"No output is shown: {text}")
        self._told = text
