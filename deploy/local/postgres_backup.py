"""Backups of a local PostgreSQL: a base backup, and every commit since (ADR 98).

A receiver streams the write-ahead log to a folder beside the data, and a commit waits for it
(`synchronous_standby_names`): what is acknowledged is in both places. A restore begins with the
base backup and replays that log to its end.
Source: PostgreSQL 15, "Continuous Archiving and Point-in-Time Recovery", pg_receivewal.
"""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from deploy.local.processes import LocalError, Program, run_as
from deploy.local.server import Server

RECEIVER = "wal-receiver"
STOP_SECONDS = 10
SLOT = "backup"
NUMBER = "muster-backup-number"
SYNCHRONOUS = "synchronous_standby_names = 'pg_receivewal'\n"
MAKE_SLOT = (
    f"SELECT pg_create_physical_replication_slot('{SLOT}', true)"  # noqa: S608  # a name of ours
    f" WHERE NOT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = '{SLOT}')"
)


class Backup:
    """What is kept beside the data of one server: `base`, and `wal` where it is wanted."""

    def __init__(self, folder: Path, data: Path) -> None:
        self._folder = folder
        self._data = data
        self.base = folder / "base"
        self.wal = folder / "wal"

    @property
    def is_kept(self) -> bool:
        """Whether every commit goes to the folder, too."""
        return self.wal.is_dir()

    @property
    def follows(self) -> bool:
        """Whether the log that is kept is that of these data, and not of newer ones.

        Data that were put back without a replay would write over the only way forward. So each
        start and each base backup counts a number up, in the data and beside them.
        """
        return self.is_kept and _number(self._data) >= _number(self._folder)

    def count_up(self, user: str | None) -> None:
        """The data first: a crash in between looks like newer data, which are followed."""
        number = _number(self._folder) + 1
        for folder in (self._data, self._folder):
            path = folder / NUMBER
            path.write_text(str(number))
            if user:
                shutil.chown(path, user)

    @property
    def replays(self) -> bool:
        """Whether the next start replays the log that was kept."""
        return (self._data / "recovery.signal").exists()

    def keep(self, user: str | None) -> None:
        """From the next start on, keep every commit."""
        for folder in (self._folder, self.wal):
            folder.mkdir(mode=0o700, exist_ok=True)
            if user:
                shutil.chown(folder, user)

    def settings(self) -> str:
        """Lines for the server's configuration."""
        if self.replays:
            wal = self.wal
            command = f'cp "{wal}/%f" "%p" || cp "{wal}/%f.partial" "%p"'
            return f"hot_standby = off\nrestore_command = '{command}'\n"
        return SYNCHRONOUS if self.follows else ""

    def restore(self, user: str | None) -> None:
        """Put the base backup in the place of the data, which is kept as `data.before-TIME`.

        Raises:
            LocalError: there is no base backup, or no log to replay.
        """
        if not self.base.is_dir():
            raise LocalError(f"there is no base backup in {self._folder} (make backup)")
        if not self.is_kept:
            raise LocalError(f"{self.wal} has no log to replay: the base backup alone is old")
        if self._data.exists():
            self._data.rename(self._data.with_name(f"data.before-{time.time_ns()}"))
        copied = run_as(user, ["cp", "-a", str(self.base), str(self._data)], self._folder.parent)
        if copied.returncode != 0:
            raise LocalError(f"the base backup could not be copied: {copied.stderr}")
        signal = self._data / "recovery.signal"
        signal.touch(mode=0o600)
        if user:
            shutil.chown(signal, user)

    def begin_anew(self, user: str | None) -> None:
        """After a replay the log goes on in another time line: the old one is set aside."""
        self.wal.rename(self.wal.with_name(f"wal.before-{time.time_ns()}"))
        self.keep(user)
        self.count_up(user)


def _number(folder: Path) -> int:
    path = folder / NUMBER
    return int(path.read_text()) if path.exists() else 0


class WalReceiver(Server):
    """pg_receivewal; ends when the server does, and is started again with it."""

    name = RECEIVER

    def __init__(
        self,
        command: list[str],
        log: Path,
        password: str,
        user: str | None,
        environment: Mapping[str, str],
    ) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self._password = password
        self._user = user

    def start(self) -> None:
        """Start it; it connects by itself."""
        self._program = Program(
            name=self.name,
            command=self._command,
            log=self._log,
            environment={**self._environment, "PGPASSWORD": self._password},
            folder=self._log.parent,
            user=self._user,
            stop_seconds=STOP_SECONDS,
        )
        self._program.start()

    def stop(self) -> None:
        """End it."""
        if self._program:
            self._program.stop()


def base_backup(
    binaries: Path, backup: Backup, port: int, password: str, user: str | None
) -> None:
    """Take a base backup of a running server; the one before is replaced when it is whole.

    Raises:
        LocalError: commits are not kept, or the server refuses.
    """
    if not backup.follows:
        raise LocalError("no commit is kept: make down, then make up BACKUP=1")
    partial = backup.base.with_name("base.partial")
    shutil.rmtree(partial, ignore_errors=True)
    address = ["-h", "127.0.0.1", "-p", str(port), "-U", "muster"]
    how = ["-X", "stream", "--checkpoint=fast", "--no-sync"]
    program = [str(binaries / "pg_basebackup"), "-D", str(partial), *address, *how]
    command = ["env", f"PGPASSFILE={_password_file(backup, port, password, user)}", *program]
    done = run_as(user, command, backup.base.parent)
    if done.returncode != 0:
        raise LocalError(f"pg_basebackup failed: {done.stderr}")
    shutil.rmtree(backup.base, ignore_errors=True)
    partial.rename(backup.base)
    backup.count_up(user)


def _password_file(backup: Backup, port: int, password: str, user: str | None) -> Path:
    """As every user of a machine can read the arguments of its processes."""
    path = backup.base.with_name("pgpass")
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(f"127.0.0.1:{port}:*:muster:{password}\n")
    if user:
        shutil.chown(path, user)
    return path
