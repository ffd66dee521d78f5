"""A real Apache Kafka broker of one node (KRaft) on this machine, in a folder of its own.

Ends and starts again on the same data and port, also after SIGKILL; then it needs about nine
seconds more, because the controller lets the old registration time out first.
"""

import base64
import contextlib
import hashlib
import socket
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from deploy.local.cache import locked
from deploy.local.kafka_jars import fetched_jars
from deploy.local.processes import LocalError, Program, free_ports, wait_ready

START_SECONDS = 90
STOP_SECONDS = 30
JVM = (
    "-Xms64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dfile.encoding=UTF-8",
)
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
min.insync.replicas=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.segment.bytes=67108864
log.cleaner.dedupe.buffer.size=16777216
message.max.bytes=2097152
broker.session.timeout.ms=9000
"""


class LocalKafka:
    """One broker; every method returns when it is done."""

    name = "kafka"

    def __init__(
        self, folder: Path, port: int = 0, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder.resolve()
        ports = free_ports(2)
        self.port, self._controller_port = port or ports[0], ports[1]
        self._environment = dict(environment or {})
        self._program: Program | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._program.pid if self._program else None

    @property
    def exit_code(self) -> int | None:
        """How the process ended."""
        return self._program.exit_code if self._program else None

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._program is not None and self._program.alive()

    def start(self) -> None:
        """Start on the data that is there; a new folder is formatted first.

        Raises:
            LocalError: Java, Maven or a port is missing, or Kafka does not start.
        """
        jars = fetched_jars()
        _train(jars, self._environment)
        self._run(jars, [f"-XX:SharedArchiveFile={jars / 'kafka.jsa'}", "-Xlog:cds=off"])

    def wait(self) -> None:
        """Return when the process has ended."""
        if self._program:
            self._program.wait()

    def stop(self) -> None:
        """End it in order."""
        if self._program:
            self._program.stop()

    def kill(self) -> None:
        """End it as a crash would."""
        if self._program:
            self._program.kill()

    def _run(self, jars: Path, options: list[str]) -> None:
        properties = self._configure()
        java = ["java", *JVM, f"-Dlog4j2.configurationFile={jars / 'log4j2.properties'}"]
        command = [*java, *options, "-cp", f"{jars / 'lib'}/*"]
        if not (self.folder / "data" / "meta.properties").exists():
            _format(command, properties, self.folder)
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
        path = self.folder / "server.properties"
        path.write_text(
            PROPERTIES.format(
                port=self.port, controller=self._controller_port, data=self.folder / "data"
            )
        )
        return path

    def answers(self) -> bool:
        """Whether the broker is registered: it names itself in an answer to Metadata (v1)."""
        request = struct.pack(">hhih6si", 3, 1, 7, 6, b"muster", 0)
        with contextlib.suppress(OSError, struct.error):
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(struct.pack(">i", len(request)) + request)
                _, correlation, brokers = struct.unpack(">iii", connection.recv(12))
            return bool(correlation == 7 and brokers > 0)  # noqa: PLR2004  # as sent above
        return False


def _format(command: list[str], properties: Path, folder: Path) -> None:
    identity = hashlib.sha256(str(folder).encode()).digest()[:16]
    cluster = base64.urlsafe_b64encode(identity).decode().rstrip("=").replace("-", "_")
    tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
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
