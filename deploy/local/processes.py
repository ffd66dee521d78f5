"""Child processes: start one, wait for it, end it, and find those that a dead parent left behind.

A child is marked in its environment (`MUSTER_SYSTEM`), so that a later run can tell its own
orphans from everybody else's processes; `/proc` is the only source asked. The mark is no setting:
whoever exported it in a shell would have that shell ended.
"""

import contextlib
import os
import pwd
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MARK = "MUSTER_SYSTEM"
POLL_SECONDS = 0.05
PORTS = range(20_000, 32_000)  # below the range from which the kernel takes outgoing ports


class LocalError(Exception):
    """Something this machine lacks or refuses; the message says what to do."""


@dataclass(kw_only=True)
class Program:
    """One child process with its log file; can be started again after it ended."""

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    user: str | None = None
    stop_by: signal.Signals = signal.SIGTERM
    stop_seconds: float = 10
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; its output is appended to the log file."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                cwd=self.folder,
                start_new_session=True,
                user=self.user,
                group=_group(self.user),
                extra_groups=[] if self.user else None,
            )

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self.alive() else None

    @property
    def exit_code(self) -> int | None:
        """How it ended (negative: by that signal); None while it runs or before its start."""
        return self._process.poll() if self._process else None

    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal; none is sent to a process that has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self) -> None:
        """Return when it has ended."""
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        """Ask it to end, then end it by force when that takes too long."""
        process = self._process  # a keeper may start another one meanwhile
        if process is None:
            return
        process.send_signal(self.stop_by)
        try:
            process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it and all its descendants with SIGKILL, and wait until they are gone."""
        process = self._process  # a keeper may start another one meanwhile
        if process is None:
            return
        family = [process.pid, *descendants(process.pid)]
        kill_all(family)
        process.wait()
        wait_until(lambda: not any(map(running, family)), seconds=10, what=f"{self.name} to die")

    def last_lines(self, count: int = 15) -> str:
        """The end of the log, for an error message."""
        with contextlib.suppress(OSError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])
        return ""


def run_as(
    user: str | None, command: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as another user where one is named."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        user=user,
        group=_group(user),
        extra_groups=[] if user else None,
    )


def free_port() -> int:
    """A TCP port of 127.0.0.1 on which nothing listens now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many different TCP ports of 127.0.0.1 on which nothing listens now.

    Raises:
        LocalError: too few were free in 200 tries.
    """
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.SystemRandom().sample(PORTS, 200 + count):
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
            if len(ports) == count:
                return ports
    raise LocalError(f"no free TCP port between {PORTS.start} and {PORTS.stop}: what uses them?")


def wait_until(
    check: Callable[[], bool],
    *,
    seconds: float,
    what: str,
    busy: Callable[[], bool] = lambda: False,
) -> None:
    """Poll until `check` holds; as long as `busy` holds then, for another `seconds`.

    Raises:
        LocalError: it did not within `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline and busy():
            deadline = time.monotonic() + seconds
        elif time.monotonic() > deadline:
            message = f"waited {seconds:.0f} s for {what}"
            raise LocalError(message)
        time.sleep(POLL_SECONDS)


def wait_ready(
    program: Program,
    check: Callable[[], bool],
    *,
    seconds: float,
    busy: Callable[[], bool] = lambda: False,
) -> None:
    """Poll until a program answers; `busy`: it says that it will, and is waited for.

    Raises:
        LocalError: it ended or did not answer in time and was ended; with the end of its log.
    """
    with_log = f"\n{program.log} ends with:\n"
    try:
        wait_until(
            lambda: check() or not program.alive(),
            seconds=seconds,
            what=f"{program.name} to start",
            busy=lambda: program.alive() and busy(),
        )
    except LocalError as error:
        program.kill()
        raise LocalError(f"{error}{with_log}{program.last_lines()}") from error
    if not program.alive():
        code = program.exit_code
        raise LocalError(f"{program.name} ended ({code}){with_log}{program.last_lines()}")


def identity(pid: int) -> str | None:
    """What tells this process from a later one with the same id; None when it does not run."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state in "ZX" else f"{pid}:{rest[18]}"


def running(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    return identity(pid) is not None


def descendants(pid: int) -> list[int]:
    """All children of a process, and theirs."""
    parents = {child: _parent(child) for child in _pids()}
    found, edge = [], {pid}
    while edge:
        edge = {child for child, parent in parents.items() if parent in edge}
        found += sorted(edge)
    return found


def marked(variable: str) -> Iterator[tuple[int, str]]:
    """Every running process that carries the environment variable, with its value."""
    prefix = f"{variable}=".encode()
    for pid in _pids():
        with contextlib.suppress(OSError):
            for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if entry.startswith(prefix) and running(pid):
                    yield pid, entry[len(prefix) :].decode(errors="replace")


def end_orphans(home: Path) -> list[int]:
    """End, by force, what an earlier run in this folder left; returns their ids."""
    mine = [pid for pid, value in marked(MARK) if value == str(home) and pid != os.getpid()]
    orphans = [*mine, *(child for pid in mine for child in descendants(pid))]
    kill_all(orphans)
    wait_until(lambda: not any(map(running, orphans)), seconds=10, what="orphans to end")
    return sorted(set(orphans))


def kill_all(pids: Sequence[int]) -> None:
    """SIGKILL to each that still runs."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _group(user: str | None) -> int | None:
    return pwd.getpwnam(user).pw_gid if user else None


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _parent(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None
