"""A real PostgreSQL server on this machine, in a folder of its own, durable (fsync on).

The superuser is `muster`, over TCP of 127.0.0.1 and over a Unix socket, with a password made at
`initdb`. Every service gets a role of its own with the time-outs of docs/adr (unit of work).
"""

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from typing_extensions import override

from deploy.local.database_server import OPTIONS, DatabaseServer
from deploy.local.postgres_backup import (
    MAKE_SLOT,
    RECEIVER,
    SLOT,
    Backup,
    WalReceiver,
    base_backup,
)
from deploy.local.postgres_binaries import (
    fallback_folder,
    find_binaries,
    reachable,
    server_user,
)
from deploy.local.processes import LocalError, Program, free_port, run_as, running, wait_ready
from deploy.local.roles import OWNER
from deploy.local.server import Server

START_SECONDS = 60
"""Without an answer; a server that recovers is waited for, however long."""
REJECTS = 1
"""Exit code of pg_isready where a server runs and takes no connections."""
STOP_SECONDS = 20
SOCKET_PATH_BYTES_MAX = 90  # the kernel allows 107, the file's name takes 15
SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{socket}'
max_connections = 200
shared_buffers = 512MB
max_wal_size = 2GB
min_wal_size = 512MB
checkpoint_timeout = 15min
checkpoint_completion_target = 0.9
wal_compression = off
wal_init_zero = off
fsync = on
synchronous_commit = on
full_page_writes = on
autovacuum = on
jit = off
log_destination = 'stderr'
log_min_messages = warning
log_min_error_statement = error
log_checkpoints = off
"""


class LocalPostgres(Server, DatabaseServer):
    """One database server; every method returns when it is done."""

    name = "postgres"

    def __init__(
        self, folder: Path, port: int = 0, environment: Mapping[str, str] | None = None
    ) -> None:
        self.port = port or free_port()
        self._environment = dict(environment or {})
        self._user = server_user()
        self.folder = _place(folder.resolve(), self._user)
        self._socket = _socket_folder(self.folder)
        self.backup = Backup(self.folder / "backup", self.folder / "data")

    @cached_property
    def _binaries(self) -> Path:
        return find_binaries(self._user)

    def start(self) -> None:
        """Start on the data that is there; a new folder is initialised first.

        Raises:
            LocalError: no programs, no unprivileged user, or the server does not start.
        """
        if not (self.folder / "data" / "PG_VERSION").exists():
            self._initialise()
        self._forget_dead()
        replays = self.backup.replays
        if self.backup.follows and not replays:
            self.backup.count_up(self._user)
        self._configure()
        self._program = Program(
            name="postgres",
            command=[str(self._binaries / "postgres"), "-D", str(self.folder / "data")],
            log=self.folder / "postgres.log",
            environment=self._environment,
            folder=self.folder,
            user=self._user,
            stop_by=signal.SIGINT,
            stop_seconds=STOP_SECONDS,
        )
        self._program.start()
        wait_ready(self._program, self.answers, seconds=START_SECONDS, busy=self.recovers)
        if replays:
            self.backup.begin_anew(self._user)
            self._program.stop()
            self.start()

    def recovers(self) -> bool:
        """Whether it runs and takes no connections yet: ending it would begin recovery anew."""
        command = [str(self._binaries / "pg_isready"), "-h", "127.0.0.1", "-p", str(self.port)]
        return (
            subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == REJECTS
        )

    def stop(self) -> None:
        """End it in order, without waiting for clients (fast shutdown)."""
        if self._program:
            self._program.stop()
            self._remove_far_socket()

    def keep_backup(self) -> None:
        """Before a start: keep every commit in the folder of the backup, too."""
        self._own()
        self.backup.keep(self._user)

    def take_backup(self) -> None:
        """Take a base backup of the running server; raises LocalError."""
        base_backup(self._binaries, self.backup, self.port, self._password(OWNER), self._user)

    def restore(self) -> None:
        """Of a stopped server: the base backup, and at the next start every commit since.

        Raises:
            LocalError: there is no backup.
        """
        self.backup.restore(self._user)

    def receiver(self) -> WalReceiver:
        """What keeps the commits of the running server."""
        self.execute(MAKE_SLOT)
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", OWNER]
        how = ["--no-loop", "--no-password", "--synchronous", "-S", SLOT]
        program = [str(self._binaries / "pg_receivewal"), "-D", str(self.backup.wal)]
        return WalReceiver(
            [*program, *address, *how],
            self.folder / f"{RECEIVER}.log",
            self._password(OWNER),
            self._user,
            self._environment,
        )

    def remove(self) -> None:
        """Delete all data of a stopped server."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._remove_far_socket()

    @override
    def _psql(self, *statements: str, database: str) -> subprocess.CompletedProcess[str]:
        target = ["-p", str(self.port), "-U", OWNER, "-d", database]
        return subprocess.run(
            [str(self._binaries / "psql"), *OPTIONS, *target],
            input=";\n".join([*statements, ""]),
            env={**os.environ, "PGPASSWORD": self._password(OWNER), "PGCONNECT_TIMEOUT": "5"},
            capture_output=True,
            text=True,
            check=False,
        )

    def _initialise(self) -> None:
        self._own_folder()
        password = self.folder / "password"
        partial = self.folder / "data.partial"
        shutil.rmtree(partial, ignore_errors=True)
        data = ["-D", str(partial), "--pwfile", str(password), "-U", OWNER]
        how = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        command = [str(self._binaries / "initdb"), *data, *how]
        done = run_as(self._user, command, self.folder)
        if done.returncode != 0:
            raise LocalError(f"initdb failed:\n{done.stdout}{done.stderr}")
        partial.rename(self.folder / "data")

    def _own_folder(self) -> None:
        """Make the folder and the secret in it, belonging to the server's user."""
        self._own()
        password = self.folder / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_hex(16))
        if self._user:
            shutil.chown(password, self._user)

    def _own(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._user:
            shutil.chown(self.folder, self._user)

    def _forget_dead(self) -> None:
        """Drop the lock file of a killed postmaster that nobody reaped: a server believes it."""
        lock = self.folder / "data" / "postmaster.pid"
        if lock.exists() and not running(int(lock.read_text().split()[0])):
            lock.unlink()

    def _remove_far_socket(self) -> None:
        if not self._socket.is_relative_to(self.folder):
            shutil.rmtree(self._socket, ignore_errors=True)

    def _configure(self) -> None:
        self._socket.mkdir(parents=True, exist_ok=True)
        if self._user:
            shutil.chown(self._socket, self._user)
        settings = SETTINGS.format(port=self.port, socket=self._socket)
        text = settings + self.backup.settings()
        (self.folder / "data" / "postgresql.auto.conf").write_text(text)


def _place(folder: Path, user: str | None) -> Path:
    """The folder itself, or one below /var/tmp when the server's user cannot reach it."""
    folder.mkdir(parents=True, exist_ok=True)
    record = folder.with_name(f"{folder.name}.location")
    if reachable(folder.parent, user):
        return folder
    place = fallback_folder(folder)
    place.mkdir(exist_ok=True)
    record.write_text(f"{place}\n")
    return place


def _socket_folder(folder: Path) -> Path:
    place = folder / "socket"
    if len(str(place).encode()) <= SOCKET_PATH_BYTES_MAX:
        return place
    return fallback_folder(place)
