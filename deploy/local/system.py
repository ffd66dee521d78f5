"""All of Muster as one object: broker, database, tables, topics and services, kept running.

Used by the supervisor (a daemon), by the kill test and by benchmarks (in their own process).
Everything lies in one folder: data, logs, the operator's key and `state.json`, by which the
command line finds the addresses.
"""

import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from deploy.local import state
from deploy.local.cache import CHECKOUT
from deploy.local.health import is_ready, wait_all_ready
from deploy.local.kafka import LocalKafka
from deploy.local.kafka_properties import ADMIN
from deploy.local.keeper import Keepable, Keeper
from deploy.local.ports import kept_ports
from deploy.local.postgres import LocalPostgres
from deploy.local.postgres_backup import RECEIVER
from deploy.local.prepare import admit, create_topics, migrate, recover
from deploy.local.processes import MARK, Program, end_orphans
from deploy.local.services import (
    CLUSTER,
    GATEWAY,
    KAFKA,
    KAFKA_ROLES,
    POSTGRES,
    ROLES,
    SERVICES,
    Addresses,
    Service,
    environment,
)
from shared.events.grants import READER, TEAMS

SERVICE_STOP_SECONDS = 10
DATABASE = "muster"


def print_line(line: str) -> None:
    """What happened, with the time, on standard output."""
    print(f"{time.strftime('%H:%M:%S')} {line}\n", end="", flush=True)  # one write: many threads


class LocalSystem:
    """The whole system in a folder.

    Args:
        folder: where everything is kept; data of an earlier run is used again.
        services: which processes to run, as rows of the table in `services`.
        overrides: settings for a process by its name, on top of what the table says; those
            under `*` go to every process.
        tell: gets one sentence for every start and end of a process.
        backup: keep every commit of the database beside it, from now on; where that was begun
            it goes on without being asked for.
    """

    def __init__(
        self,
        folder: Path,
        *,
        services: Sequence[Service] = SERVICES,
        overrides: Mapping[str, Mapping[str, str]] | None = None,
        tell: Callable[[str], None] = print_line,
        backup: bool = False,
    ) -> None:
        self.folder = folder.resolve()
        self._services = services
        self._overrides = overrides or {}
        self._tell = tell
        self._keepers: dict[str, Keeper] = {}
        self._ports: dict[str, int] = {}
        self._started = False
        self._writing = threading.Lock()
        marked = {MARK: str(self.folder)}
        ports = kept_ports(self.folder, (KAFKA, POSTGRES))
        self.kafka = LocalKafka(
            self.folder / KAFKA, port=ports[KAFKA], environment=marked, secured=True
        )
        self.postgres = LocalPostgres(
            self.folder / POSTGRES, port=ports[POSTGRES], environment=marked
        )
        if backup:
            self.postgres.keep_backup()

    def start(self) -> None:
        """Start everything in order; what an earlier run left behind is ended first.

        Raises:
            LocalError: something is missing or does not start; nothing is left running.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        for pid in end_orphans(self.folder):
            self._tell(f"ended process {pid} of an earlier run")
        try:
            self._start_servers()
            self._prepare()
            self._start_services()
            self._started = True
            self._note()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End everything in order: services together, then the broker and the database."""
        receiver = self._keepers.pop(RECEIVER, None)  # last, as the database waits for it
        servers = [self._keepers.pop(name) for name in (KAFKA, POSTGRES) if name in self._keepers]
        _together([keeper.stop for keeper in self._keepers.values()])
        _together([keeper.stop for keeper in servers])
        if receiver is not None:
            receiver.stop()
        self._keepers.clear()
        self._started = False
        state.remove(self.folder)

    def discard(self) -> None:
        """Stop, and delete the database, which may lie outside of the folder."""
        self.stop()
        self.postgres.remove()

    def kill(self, name: str) -> None:
        """End a process as a crash would; it is started again."""
        self._keepers[name].process.kill()

    def crash(self) -> None:
        """End everything as a machine that loses its power does; `start` begins again."""
        keepers = list(self._keepers.values())
        self._keepers = {}
        _together([keeper.crash for keeper in keepers])
        self._started = False
        state.remove(self.folder)

    def runs(self, name: str) -> bool:
        """Whether this process is one of the system's."""
        return name in self._keepers

    def pid(self, name: str) -> int | None:
        """The id of a process while it runs."""
        return self._keepers[name].process.pid

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal, SIGSTOP say, to a process that runs."""
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, number)

    def restarts(self, name: str) -> int:
        """How often a process was started again."""
        return self._keepers[name].restarts

    def url(self, name: str) -> str:
        """The HTTP address of a process; the gateway's is that of the API."""
        return f"http://127.0.0.1:{self._ports[name]}"

    def ready(self, name: str) -> bool:
        """Whether a service says that it is ready to work."""
        return is_ready(self._probes()[name])

    def wait_ready(self, seconds: float) -> None:
        """Return when every service is ready.

        Raises:
            LocalError: one was not in time; it is named.
        """
        wait_all_ready(self._probes(), seconds)

    def log(self, name: str) -> Path:
        """The log file of a service."""
        return self.folder / "logs" / f"{name}.log"

    def _start_servers(self) -> None:
        servers: list[Keepable] = [self.postgres, self.kafka]
        self._keepers = {server.name: Keeper(server, self._changed) for server in servers}
        _together([keeper.start for keeper in self._keepers.values()])
        if self.postgres.backup.is_kept and not self.postgres.backup.follows:
            self._tell(
                "the database is older than its backup: commits are not kept (make restore)"
            )
        elif self.postgres.backup.is_kept:
            keeper = Keeper(self.postgres.receiver(), self._changed)
            self._keepers[RECEIVER] = keeper
            keeper.start()

    def _prepare(self) -> None:
        self.postgres.create_roles(ROLES)
        known = self.postgres.has_database(DATABASE)
        if not known:
            self.postgres.create_database(DATABASE)
        url = self.postgres.url(database=DATABASE)
        migrate(url)
        if known:
            self._recover_kafka(url)
            return
        create_topics(self.kafka.administrator)
        admit(self.kafka.administrator, self.kafka.passwords(KAFKA_ROLES))

    def _recover_kafka(self, url: str) -> None:
        """Changes nothing where the broker has what it had."""
        told = recover(self.kafka.administrator, self.kafka.passwords(KAFKA_ROLES), url)
        if not told.startswith("topics made: 0\n"):
            self._tell(f"the broker had lost its data: {told}")

    def _start_services(self) -> None:
        key = self.folder / "admin.key"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_text(secrets.token_urlsafe(32))
        names = [service.name for service in self._services]
        self._ports = kept_ports(self.folder, names)
        for service in self._services:
            keeper = Keeper(self._program(service), self._changed)
            self._keepers[service.name] = keeper
            keeper.start()

    def _program(self, service: Service) -> Program:
        return Program(
            name=service.name,
            command=[sys.executable, "-m", service.module],
            log=self.log(service.name),
            environment=self._environment(service),
            folder=CHECKOUT,
            stop_seconds=SERVICE_STOP_SECONDS,
        )

    def _environment(self, service: Service) -> dict[str, str]:
        data = self.folder / "data" / service.name
        data.mkdir(parents=True, exist_ok=True)
        teams = self.kafka.access(TEAMS)
        addresses = Addresses(
            kafka=self.kafka.access(service.role),
            database=self.postgres.url(service.role, DATABASE),
            cluster=self.url(CLUSTER) if CLUSTER in self._ports else "",
            http_host="127.0.0.1",
            http_port=self._ports[service.name],
            data_folder=str(data),
            admin_key_file=str(self.folder / "admin.key"),
            kafka_admin_user=teams.user,
            kafka_admin_password=teams.password.get_secret_value(),
        )
        return {
            MARK: str(self.folder),
            "MUSTER_HOME": str(self.folder),
            **environment(service, addresses),
            **self._overrides.get("*", {}),
            **self._overrides.get(service.name, {}),
        }

    def _probes(self) -> dict[str, str]:
        return {row.name: f"{self.url(row.name)}{row.probe}" for row in self._services}

    def _changed(self, line: str) -> None:
        self._tell(line)
        self._note()

    def _note(self) -> None:
        with self._writing:
            state.write(self.folder, self._state())

    def _state(self) -> state.State:
        processes = {name: keeper.process.pid for name, keeper in list(self._keepers.items())}
        return state.State(
            supervisor=os.getpid(),
            started=self._started,
            processes={name: pid for name, pid in processes.items() if pid},
            addresses={name: self.url(name) for name in self._ports},
            probes=self._probes() if self._ports else {},
            gateway=self.url(GATEWAY) if GATEWAY in self._ports else "",
            kafka=self.kafka.bootstrap,
            kafka_logins=self._logins() if self._ports else {},
            database=self.postgres.url(READER, DATABASE),
            admin_key_file=str(self.folder / "admin.key"),
        )

    def _logins(self) -> dict[str, dict[str, str]]:
        """Only once the broker is up: before, a new one has no secret to make passwords from."""
        logins = {role: self.kafka.access(role) for role in KAFKA_ROLES}
        logins[ADMIN] = self.kafka.administrator
        return {role: access.variables() for role, access in logins.items()}


def _together(calls: Sequence[Callable[[], None]]) -> None:
    """Make all calls at the same time; the first failure is raised when all have ended."""
    with ThreadPoolExecutor(max_workers=max(1, len(calls))) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result()
