"""The local system with a standby, and with what can be done to its processes, disk and clocks."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from typing_extensions import override

from deploy.local.health import is_ready
from deploy.local.keeper import Keeper
from deploy.local.processes import LocalError, descendants
from deploy.local.services import CLUSTER, KAFKA, POSTGRES, SERVICES, Service
from deploy.local.system import LocalSystem
from tests.support.faults import clocks
from tests.support.faults.clocks import SetClock
from tests.support.faults.disk import SmallDisk

STOOD_BY: Final = "placement"
STANDBY: Final = Service(
    name=f"{STOOD_BY}-standby",
    role=STOOD_BY,
    module=f"services.{STOOD_BY}",
    probe="/healthz",
)
"""Ready only once it has taken over, so it is asked whether it lives."""
LEFT_OUT: Final = ("fleet", "notifications")
READY_SECONDS: Final = 90.0
STOOD_BY_WAITS_SECONDS: Final = 20.0


class BreakableSystem(LocalSystem):
    """Broker and database on a disk of their own where this user may mount one.

    `left_out` says of each means of breaking it that this machine lacks why it is lacking.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.left_out: dict[str, str] = {}
        self.disk = self._own_disk(folder)
        services = [*(one for one in SERVICES if one.name not in LEFT_OUT), STANDBY]
        self.clocks: dict[str, SetClock] = {}
        overrides = self._own_clocks(folder, [one.name for one in services])
        overrides[CLUSTER] = overrides.get(CLUSTER, {}) | {
            "MUSTER_CLUSTER_START_DELAY_SECONDS": "0.2"
        }
        self._told = (folder / "keeper.log").open("a", buffering=1)
        super().__init__(
            folder,
            services=services,
            overrides=overrides,
            tell=lambda line: print(line, file=self._told),
            backup=True,
        )

    def _own_disk(self, folder: Path) -> SmallDisk | None:
        try:
            disk = SmallDisk(folder / "disk")
        except LocalError as error:
            self.left_out["disk-full"] = str(error)
            return None
        for name in (KAFKA, POSTGRES):
            (disk.folder / name).mkdir()
            (folder / name).symlink_to(disk.folder / name)
        return disk

    def _own_clocks(self, folder: Path, names: Iterable[str]) -> dict[str, dict[str, str]]:
        try:
            library = clocks.library()
        except LocalError as error:
            self.left_out["clock-step"] = str(error)
            return {}
        self.clocks = {name: SetClock(folder / "clocks" / name) for name in names}
        return {name: clock.environment(library) for name, clock in self.clocks.items()}

    @contextmanager
    def away(self, name: str) -> Iterator[None]:
        """End a server in order, and start it again at the end."""
        keeper = self._keepers.pop(name)
        keeper.stop()
        try:
            yield
        finally:
            again = Keeper(keeper.process, self._changed)
            self._keepers[name] = again
            again.start()

    @contextmanager
    def frozen(self, names: Iterable[str]) -> Iterator[None]:
        """Let processes with all their children stand still, and go on at the end."""
        pids = [pid for name in names if (own := self.pid(name)) for pid in _family(own)]
        _send(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            _send(pids, signal.SIGCONT)

    @override
    def wait_ready(self, seconds: float) -> None:
        """A standby that was faster than the first process ends in order, and waits again."""
        if self._left_ready(STOOD_BY_WAITS_SECONDS):
            self.send(STANDBY.name, signal.SIGTERM)
        super().wait_ready(seconds)

    def _left_ready(self, seconds: float) -> bool:
        """Whether the standby decides, while the first process is not ready for so long."""
        deadline = time.monotonic() + seconds
        while not self.ready(STOOD_BY) and time.monotonic() < deadline:
            time.sleep(0.2)
        return not self.ready(STOOD_BY) and is_ready(f"{self.url(STANDBY.name)}/readyz")

    @override
    def discard(self) -> None:
        super().discard()
        self._told.close()
        if self.disk is not None:
            self.disk.discard()


def _family(pid: int) -> list[int]:
    return [pid, *descendants(pid)]


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
