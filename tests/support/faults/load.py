"""A load by HTTP that can rest: what a restored store would lose is not accepted at all."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.support.recovering import ENDED, HttpLoad
from tests.support.system import Stage

MORE_SECONDS_MAX: Final = 60.0
ENDED_OF_THESE: Final = f"{ENDED} AND id = ANY($1)"


class RestingLoad:
    """Goes on from its making until it rests; `accepted` is what has a 202."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.accepted: list[str] = []
        self._spells = 0
        self.go_on()

    def go_on(self) -> None:
        """Begin a new spell, with keys of its own."""
        self._spells += 1
        self._load = HttpLoad(self._stage, f"spell-{self._spells}")
        self._running = asyncio.create_task(self._load.run())

    async def rest(self) -> None:
        """Send no more; returns when all that is under way has its answer."""
        self._load.stop()
        await self._running
        self.accepted += self._load.accepted

    async def more(self, count: int) -> None:
        """Begin a new spell, and wait until so many workloads of it have ended well.

        What was accepted before may have ended already where the projection is behind.

        Raises:
            TimeoutError: they have not.
        """
        await self.rest()
        self.go_on()
        async with asyncio.timeout(MORE_SECONDS_MAX):
            while await self._stage.rows.fetchval(ENDED_OF_THESE, self._load.accepted) < count:
                await asyncio.sleep(0.1)
