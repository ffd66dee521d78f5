"""The daemon that keeps a system running, and how others start, find and stop it.

It holds a file lock for its whole life: whoever cannot take the lock knows that a system is up,
and a supervisor that was killed holds nothing. What it left running is found by its mark in the
environment and ended by the next start.
"""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from deploy.local import state
from deploy.local.cache import CHECKOUT
from deploy.local.health import wait_all_ready
from deploy.local.processes import LocalError, end_orphans, running, wait_until
from deploy.local.services import SERVICES, Service
from deploy.local.system import LocalSystem, print_line

UP_SECONDS = 300  # a cold start fetches Kafka first
READY_SECONDS = 60
DOWN_SECONDS = 60
LOCK = "supervisor.lock"


class _AskedToStop(BaseException):
    """SIGTERM or SIGINT came."""


def run(
    folder: Path,
    services: Sequence[Service] = SERVICES,
    overrides: Mapping[str, Mapping[str, str]] | None = None,
    *,
    backup: bool = False,
) -> None:
    """Be the supervisor until SIGTERM; `overrides` are settings by service.

    `backup`: keep every commit of the database beside it, too.

    Raises:
        LocalError: one runs already, or the system does not start.
    """
    os.umask(0o077)
    with _owned(folder):
        _make_private(folder)
        state.remove(folder)
        system = LocalSystem(folder, services=services, overrides=overrides, backup=backup)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _stop)
        with suppress(_AskedToStop):
            system.start()
            print_line("up")
            while True:
                signal.pause()
        print_line("stopping")
        system.stop()
        print_line("stopped")


def up(folder: Path) -> bool:
    """Start a supervisor in the background; False when one runs already.

    Raises:
        LocalError: the system does not start, or a service does not become ready.
    """
    if is_up(folder):
        return False
    state.remove(folder)
    log = folder / "logs" / "supervisor.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    daemon = _daemon(folder, log)
    wait_until(
        lambda: _started(folder) or daemon.poll() is not None,
        seconds=UP_SECONDS,
        what=f"the system to start, see {log}",
    )
    if daemon.poll() is not None:
        raise LocalError(log.read_text(errors="replace")[-3000:])
    found = state.read(folder)
    wait_all_ready(found.probes if found else {}, READY_SECONDS)
    return True


def down(folder: Path) -> bool:
    """Stop everything that runs in the folder; False when nothing did."""
    was_up = is_up(folder)
    if was_up:
        supervisor = int((folder / LOCK).read_text())
        with suppress(ProcessLookupError):
            os.kill(supervisor, signal.SIGTERM)
        wait_until(
            lambda: not running(supervisor), seconds=DOWN_SECONDS, what="the supervisor to end"
        )
    orphans = end_orphans(folder)
    state.remove(folder)
    return was_up or bool(orphans)


def is_up(folder: Path) -> bool:
    """Whether a supervisor holds the folder's lock."""
    try:
        with _locked(folder):
            return False
    except LocalError:
        return True


def _make_private(folder: Path) -> None:
    """Nobody else lists it; where the database has a user of its own, it passes to its data."""
    folder.chmod(0o700 if os.geteuid() else 0o711)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    for other in (signal.SIGTERM, signal.SIGINT):
        signal.signal(other, signal.SIG_IGN)
    raise _AskedToStop(number)


def _started(folder: Path) -> bool:
    found = state.read(folder)
    return found is not None and found.started


def _daemon(folder: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "deploy.local", "--folder", str(folder), "supervise"],
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    with _locked(folder):
        (folder / LOCK).write_text(str(os.getpid()))
        yield


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LocalError(f"a system is up in {folder} already") from error
        yield
