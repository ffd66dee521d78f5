"""A real Apache Kafka broker of one node (KRaft) on this machine, in a folder of its own.

Ends and starts again on the same data and port, also after SIGKILL; then it needs about nine
seconds more, because the controller lets the old registration time out first.
"""

import base64
import contextlib
import hashlib
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import SecretStr

from deploy.local.cache import locked
from deploy.local.kafka_jars import fetched_jars
from deploy.local.kafka_properties import ADMIN, Listener, broker_properties, first_user
from deploy.local.processes import LocalError, Program, free_ports, wait_ready
from deploy.local.server import Server
from shared.adapters.kafka.administration import broker_count
from shared.events.grants import principal_of
from shared.ports.kafka_access import KafkaAccess, SecurityProtocol

START_SECONDS = 90
STOP_SECONDS = 30
ANSWER_SECONDS = 2.0
JVM = (
    "-Xms64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dfile.encoding=UTF-8",
)


class LocalKafka(Server):
    """One broker; every method returns when it is done.

    Args:
        folder: everything of it.
        port: where clients find it; a free one by default.
        environment: variables of the process.
        secured: every client needs a user, and may do what a rule allows it; otherwise everybody
            may do everything.
    """

    name = "kafka"

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        environment: Mapping[str, str] | None = None,
        *,
        secured: bool = False,
    ) -> None:
        self._secured = secured
        self.folder = folder.resolve()
        ports = free_ports(2)
        self.port, self._controller_port = port or ports[0], ports[1]
        self._environment = dict(environment or {})

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def administrator(self) -> KafkaAccess:
        """The login of the super user."""
        return self._access(ADMIN)

    def access(self, role: str) -> KafkaAccess:
        """The login of a service, or of another who has a row in the table of grants."""
        return self._access(principal_of(role))

    def passwords(self, roles: Iterable[str]) -> dict[str, SecretStr]:
        """What each of these logs in with."""
        return {role: self._password(principal_of(role)) for role in roles}

    def start(self) -> None:
        """Start on the data that is there; a new folder is formatted first.

        Raises:
            LocalError: Java, Maven or a port is missing, or Kafka does not start.
        """
        jars = fetched_jars()
        _train(jars, self._environment)
        self._run(jars, [f"-XX:SharedArchiveFile={jars / 'kafka.jsa'}", "-Xlog:cds=off"])

    def stop(self) -> None:
        """End it in order."""
        if self._program:
            self._program.stop()

    def _run(self, jars: Path, options: list[str]) -> None:
        properties = self._configure()
        java = ["java", *JVM, f"-Dlog4j2.configurationFile={jars / 'log4j2.properties'}"]
        command = [*java, *options, "-cp", f"{jars / 'lib'}/*"]
        if not (self.folder / "data" / "meta.properties").exists():
            _format(command, properties, self.folder, self._first_users())
        self._program = Program(
            name="kafka",
            command=[*command, "kafka.Kafka", str(properties)],
            log=self.folder / "kafka.log",
            environment=self._environment,
            stop_seconds=STOP_SECONDS,
        )
        self._program.start()
        wait_ready(self._program, self.answers, seconds=START_SECONDS)

    def _configure(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._secured:
            self._make_secret()
        text = broker_properties(
            listeners=[Listener(listen="127.0.0.1", port=self.port, advertised=self.bootstrap)],
            controller=self._controller_port,
            data=str(self.folder / "data"),
            password=self._password(ADMIN).get_secret_value() if self._secured else "",
        )
        path = self.folder / "server.properties"
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    def answers(self) -> bool:
        """Whether the broker is registered."""
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return broker_count(self.administrator, ANSWER_SECONDS) > 0
        return False

    def _access(self, user: str) -> KafkaAccess:
        if not self._secured:
            return KafkaAccess(bootstrap=self.bootstrap)
        return KafkaAccess(
            bootstrap=self.bootstrap,
            protocol=SecurityProtocol.SASL_PLAINTEXT,
            user=user,
            password=self._password(user),
        )

    def _make_secret(self) -> None:
        """The one secret, from which every password follows; made with the broker's data."""
        secret = self.folder / "password"
        if secret.exists():
            return
        if (self.folder / "data" / "meta.properties").exists():
            raise LocalError(f"the broker in {self.folder} has no users: begin anew (make purge)")
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(16))

    def _password(self, user: str) -> SecretStr:
        secret = (self.folder / "password").read_text()
        return SecretStr(hashlib.sha256(f"{secret}:{user}".encode()).hexdigest()[:32])

    def _first_users(self) -> list[str]:
        if not self._secured:
            return []
        return ["--add-scram", first_user(self._password(ADMIN).get_secret_value())]


def _format(command: list[str], properties: Path, folder: Path, users: list[str]) -> None:
    identity = hashlib.sha256(str(folder).encode()).digest()[:16]
    cluster = base64.urlsafe_b64encode(identity).decode().rstrip("=").replace("-", "_")
    tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties), *users]
    done = subprocess.run([*command, *tool], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LocalError(f"Kafka's storage could not be formatted:\n{done.stdout}{done.stderr}")


def _train(jars: Path, environment: Mapping[str, str]) -> None:
    """Write the class archive (AppCDS) once, by running a broker that ends at once."""
    archive = jars / "kafka.jsa"
    with locked(jars / "train.lock"):
        if archive.exists():
            return
        with tempfile.TemporaryDirectory(prefix="muster-kafka-") as folder:
            partial = jars / "kafka.jsa.partial"
            broker = LocalKafka(Path(folder), environment=environment)
            broker._run(jars, [f"-XX:ArchiveClassesAtExit={partial}", "-Xlog:cds=off"])  # noqa: SLF001  # itself
            broker.stop()
            partial.rename(archive)
