"""Ends a process that is stuck, so that the supervisor can start it again (exit code 70).

A thread, because a blocked event loop cannot watch itself. aiokafka is known to stop delivering
without any sign (issues 847, 1037): a consumer that is behind and gets nothing counts as stuck.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

from shared.ports.clock import Clock

STUCK_EXIT_CODE: Final = 70


class Watchdog:
    """Exits the process when `beat` was not called for `stuck_seconds`."""

    def __init__(self, clock: Clock, stuck_seconds: float) -> None:
        self._clock = clock
        self._stuck_seconds = stuck_seconds
        self._last = clock.monotonic_seconds()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self.beat()
        self._thread.start()

    def beat(self) -> None:
        """Say that the loop turns."""
        self._last = self._clock.monotonic_seconds()

    def stop(self) -> None:
        """End the watch."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            silent = self._clock.monotonic_seconds() - self._last
            if silent > self._stuck_seconds:
                sys.stderr.write(f"watchdog: no progress for {silent:.1f} s, exit\n")
                sys.stderr.flush()
                os._exit(STUCK_EXIT_CODE)
