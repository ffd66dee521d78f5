"""Keep one process running: when it dies, start it again, sooner or later.

The first restart comes after 0.1 s, each next one twice as late, 5 s at most; ten seconds of
life forgive everything.
"""

import threading
import time
from collections.abc import Callable
from typing import Protocol

from deploy.local.processes import LocalError

DELAY_SECONDS_MIN = 0.1
DELAY_SECONDS_MAX = 5.0
FORGIVEN_AFTER_SECONDS = 10.0


class Keepable(Protocol):
    """A process that can be started again and again."""

    name: str

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""

    @property
    def exit_code(self) -> int | None:
        """How it ended."""

    def start(self) -> None:
        """Start it, and return when it is of use."""

    def wait(self) -> None:
        """Return when it has ended."""

    def stop(self) -> None:
        """End it in order."""

    def kill(self) -> None:
        """End it as a crash would."""


class Keeper:
    """A thread around one process. `tell` gets one sentence for every start and end."""

    def __init__(self, process: Keepable, tell: Callable[[str], None]) -> None:
        self.process = process
        self.restarts = 0
        self._tell = tell
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=process.name, daemon=True)

    def start(self) -> None:
        """Start the process, here and now, and from then on keep it running.

        Raises:
            LocalError: the first start failed.
        """
        self.process.start()
        self._tell(f"{self.process.name} started, process {self.process.pid}")
        self._thread.start()

    def stop(self) -> None:
        """End the process in order and for good."""
        self._stopping.set()
        self.process.stop()
        if self._thread.is_alive():
            self._thread.join()

    def crash(self) -> None:
        """End the process as a crash would, for good."""
        self._stopping.set()
        self.process.kill()
        if self._thread.is_alive():
            self._thread.join()

    def _keep(self) -> None:
        delay_seconds = DELAY_SECONDS_MIN
        since = time.monotonic()
        while True:
            self.process.wait()
            if self._stopping.is_set():
                return
            if time.monotonic() - since > FORGIVEN_AFTER_SECONDS:
                delay_seconds = DELAY_SECONDS_MIN
            code = self.process.exit_code
            self._tell(f"{self.process.name} ended ({code}), again in {delay_seconds} s")
            if self._stopping.wait(delay_seconds):
                return
            delay_seconds = min(2 * delay_seconds, DELAY_SECONDS_MAX)
            since = time.monotonic()
            self._start_again()

    def _start_again(self) -> None:
        self.restarts += 1
        try:
            self.process.start()
        except (LocalError, OSError) as error:  # a server may find no room for its configuration
            self._tell(f"{self.process.name} did not start: {error}")
            return
        self._tell(f"{self.process.name} started again, process {self.process.pid}")
        if self._stopping.is_set():
            self.process.stop()
