"""The broker and the database of docker-compose.yml, and what every container of it has.

Health checks look at what clients look at, and cost next to nothing: the broker's is an open port
(its tools each start a Java machine), the database's asks by TCP, because the server of the first
initialisation answers on the Unix socket before there is a database to speak of.
"""

from typing import Any

from deploy.containers.names import KAFKA_IMAGE, POSTGRES_IMAGE
from deploy.local.kafka_properties import Listener, broker_properties, first_user
from deploy.local.roles import OWNER, role_name, role_sql
from deploy.local.services import KAFKA, POSTGRES, ROLES

PASSWORD = "local"  # noqa: S105  # says the file's first lines
LOOPBACK = "127.0.0.1"
KAFKA_PORT = 9092
CONTROLLER_PORT = 9093
OUTSIDE_PORT = 9094
"""Inside the container: the listener for clients on the host, published there as `KAFKA_PORT`."""
CLUSTER_ID = "bXVzdGVyLWNvbXBvc2UtMQ"
HEAP = "-Xms64m -Xmx512m"
CHECK_SECONDS = 5
MEMORY_LIMIT = "1g"
Document = dict[str, Any]


def kafka() -> Document:
    """The broker: formatted at its first start, secured, with a second listener for the host."""
    tools, settings = "/opt/kafka/bin", "/run/server.properties"
    format_once = (
        f"{tools}/kafka-storage.sh format --ignore-formatted -t {CLUSTER_ID} -c {settings}"
        f" --add-scram '{first_user(PASSWORD)}'"
    )
    start = f"exec {tools}/kafka-server-start.sh {settings}"
    return {
        "image": KAFKA_IMAGE,
        "command": ["sh", "-c", f"{format_once} && {start}"],
        **kept_up(),
        "environment": {"KAFKA_HEAP_OPTS": HEAP},
        "configs": [{"source": "kafka", "target": settings}],
        "volumes": [f"{KAFKA}:/var/lib/kafka/data"],
        "ports": [f"{LOOPBACK}:{KAFKA_PORT}:{OUTSIDE_PORT}"],
        "healthcheck": check("bash", "-c", f"</dev/tcp/{LOOPBACK}/{KAFKA_PORT}"),
    }


def kafka_properties() -> str:
    """The broker's own file."""
    everywhere = "0.0.0.0"  # noqa: S104  # inside a container
    inside = Listener(listen=everywhere, port=KAFKA_PORT, advertised=f"{KAFKA}:{KAFKA_PORT}")
    outside = Listener(
        name="OUTSIDE",
        listen=everywhere,
        port=OUTSIDE_PORT,
        advertised=f"{LOOPBACK}:{KAFKA_PORT}",
    )
    return broker_properties(
        listeners=[inside, outside],
        controller=CONTROLLER_PORT,
        data="/var/lib/kafka/data",
        password=PASSWORD,
    )


def postgres() -> Document:
    """The database, with a role for each service from its first start on."""
    return {
        "image": POSTGRES_IMAGE,
        "command": ["postgres", "-c", "max_connections=200", "-c", "max_wal_size=2GB"],
        **kept_up(),
        "stop_signal": "SIGINT",  # do not wait for clients
        "shm_size": "256m",
        "environment": {
            "POSTGRES_USER": OWNER,
            "POSTGRES_PASSWORD": PASSWORD,
            "POSTGRES_DB": OWNER,
        },
        "configs": [{"source": "roles", "target": "/docker-entrypoint-initdb.d/roles.sql"}],
        "volumes": [f"{POSTGRES}:/var/lib/postgresql/data"],
        "healthcheck": check("pg_isready", "-h", LOOPBACK, "-U", OWNER, "-d", OWNER),
    }


def roles() -> str:
    """The database's roles in SQL."""
    lines = [line for role in ROLES for line in role_sql(role_name(role), PASSWORD)]
    # Compose reads a single dollar sign as the start of a variable.
    return ";\n".join([*lines, ""]).replace("$", "$$")


def kept_up() -> Document:
    """What everything that runs for ever has: it is started again, and bounded."""
    return {"restart": "always", "mem_limit": MEMORY_LIMIT, **bounded_log()}


def bounded_log() -> Document:
    """A log that is cut before it fills the disk."""
    return {"logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}}


def check(*command: str) -> Document:
    """A health check; for a minute after a start its failures do not count."""
    return {
        "test": ["CMD", *command],
        "interval": f"{CHECK_SECONDS}s",
        "timeout": f"{CHECK_SECONDS}s",
        "retries": 6,
        "start_period": "60s",
    }
