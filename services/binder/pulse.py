"""Notices that the process stood still, and keeps it quiet for a while.

A process that was stopped may have lost its lease without knowing; a lease is renewed, or found
lost, within `QUIET_SECONDS`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

PULSE_SECONDS: Final = 0.5
PAUSE_SECONDS_MAX: Final = 2.5
"""Standing still for longer, the process may have lost its lease without knowing (5 s)."""
QUIET_SECONDS: Final = 3.0

log = structlog.get_logger("binder")


class Pulse:
    """When the process was last seen to run."""

    def __init__(self) -> None:
        self.last = 0.0
        self._quiet_until = 0.0

    def begin(self) -> None:
        """The process runs now."""
        self.last = asyncio.get_running_loop().time()

    async def beat(self) -> None:
        """Notice when the process did not run for a while; never ends."""
        while True:
            await asyncio.sleep(PULSE_SECONDS)
            now = asyncio.get_running_loop().time()
            if now - self.last > PAUSE_SECONDS_MAX:
                self._quiet_until = now + QUIET_SECONDS
            self.last = now

    async def stay_quiet_after_a_pause(self) -> None:
        """Wait until the loop of the service knows whether it still has its lease."""
        now = asyncio.get_running_loop().time()
        if now - self.last > PAUSE_SECONDS_MAX or now < self._quiet_until:
            log.warning("stood still", seconds=round(now - self.last, 1))
            await asyncio.sleep(QUIET_SECONDS)
