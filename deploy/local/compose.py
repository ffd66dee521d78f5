"""docker-compose.yml, generated from the same table of processes as the local runner.

Written by `make generated`; `make check` fails while the file is stale. There is no container
engine where this is tested: what is checked is that the file is complete and well formed.
"""

import sys
from typing import Any

import yaml
from pydantic import SecretStr

from deploy.local.cache import CHECKOUT
from deploy.local.kafka_jars import VERSION
from deploy.local.kafka_properties import (
    ADMIN,
    broker_properties,
    client_properties,
    first_user,
)
from deploy.local.roles import OWNER, role_name, role_sql
from deploy.local.services import (
    CLUSTER,
    GATEWAY,
    KAFKA,
    KAFKA_ROLES,
    POSTGRES,
    ROLES,
    SERVICES,
    TOPIC_PREFIX,
    Addresses,
    Service,
    environment,
)
from shared.events.grants import TEAMS, principal_of
from shared.ports.kafka_access import KafkaAccess, SecurityProtocol

FILE = CHECKOUT / "docker-compose.yml"
HEADER = """\
# Generated from deploy/local/services.py by `make generated`: change that table, not this file.
# For trying Muster on one machine; the passwords in it are no secrets.
"""
PASSWORD = "local"  # noqa: S105  # says the header
HTTP_PORT = 8080
CLUSTER_ID = "bXVzdGVyLWNvbXBvc2UtMQ"
KAFKA_PORT = 9092
Document = dict[str, Any]


def main(*, write: bool) -> int:
    """Write the file, or say whether it is fresh; the exit code."""
    if write:
        FILE.write_text(rendered())
    elif not FILE.exists() or FILE.read_text() != rendered():
        print(f"{FILE.name} is stale: run `make generated`", file=sys.stderr)
        return 1
    return 0


def rendered() -> str:
    """The text of the file."""
    services = {KAFKA: _kafka(), POSTGRES: _postgres(), "prepare": _prepare()}
    services |= {service.name: _process(service) for service in SERVICES}
    document = {
        "name": "muster",
        "services": services,
        "configs": {name: {"content": text} for name, text in _contents().items()},
        "volumes": {name: {} for name in (KAFKA, POSTGRES, "data")},
    }
    return HEADER + yaml.safe_dump(document, sort_keys=False, width=99)


def _process(service: Service) -> Document:
    addresses = Addresses(
        kafka=_access(principal_of(service.role)),
        database=_database_url(role_name(service.role)),
        cluster=f"http://{CLUSTER}:{HTTP_PORT}",
        http_host="0.0.0.0",  # noqa: S104  # inside a container
        http_port=HTTP_PORT,
        data_folder="/data",
        admin_key_file="/run/admin.key",
        kafka_admin_user=principal_of(TEAMS),
        kafka_admin_password=PASSWORD,
    )
    waits = {need: {"condition": "service_started"} for need in service.needs}
    entry = _image() | {
        "command": ["python", "-m", service.module],
        "restart": "always",
        "environment": environment(service, addresses),
        "configs": [{"source": "key", "target": "/run/admin.key"}],
        "volumes": ["data:/data"],
        "depends_on": waits | {"prepare": {"condition": "service_completed_successfully"}},
    }
    return entry | ({"ports": [f"{HTTP_PORT}:{HTTP_PORT}"]} if service.name == GATEWAY else {})


def _kafka() -> Document:
    tools, settings = "/opt/kafka/bin", "/run/server.properties"
    format_once = (
        f"{tools}/kafka-storage.sh format --ignore-formatted -t {CLUSTER_ID} -c {settings}"
        f" --add-scram '{first_user(PASSWORD)}'"
    )
    asks = f"cluster-id -b {KAFKA}:{KAFKA_PORT} --config /run/admin.properties"
    return {
        "image": f"apache/kafka:{VERSION}",
        "command": ["sh", "-c", f"{format_once} && exec {tools}/kafka-server-start.sh {settings}"],
        "configs": [
            {"source": "kafka", "target": settings},
            {"source": "kafka-admin", "target": "/run/admin.properties"},
        ],
        "volumes": [f"{KAFKA}:/var/lib/kafka/data"],
        "healthcheck": _check(f"{tools}/kafka-cluster.sh {asks}"),
    }


def _contents() -> dict[str, str]:
    """Files that containers are given."""
    broker = broker_properties(
        host=KAFKA,
        listen="0.0.0.0",  # noqa: S104  # inside a container
        port=KAFKA_PORT,
        controller=KAFKA_PORT + 1,
        data="/var/lib/kafka/data",
        password=PASSWORD,
    )
    return {
        "roles": _roles(),
        "key": f"{PASSWORD}\n",
        "kafka": broker,
        "kafka-admin": client_properties(PASSWORD),
        "kafka-users": "".join(f"{role}={PASSWORD}\n" for role in KAFKA_ROLES),
    }


def _access(user: str) -> KafkaAccess:
    return KafkaAccess(
        bootstrap=f"{KAFKA}:{KAFKA_PORT}",
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        user=user,
        password=SecretStr(PASSWORD),
    )


def _postgres() -> Document:
    return {
        "image": "postgres:17",
        "command": ["postgres", "-c", "max_connections=200", "-c", "max_wal_size=2GB"],
        "environment": {
            "POSTGRES_USER": OWNER,
            "POSTGRES_PASSWORD": PASSWORD,
            "POSTGRES_DB": OWNER,
        },
        "configs": [{"source": "roles", "target": "/docker-entrypoint-initdb.d/roles.sql"}],
        "volumes": [f"{POSTGRES}:/var/lib/postgresql/data"],
        "healthcheck": _check(f"pg_isready -U {OWNER}"),
    }


def _prepare() -> Document:
    migrate = "python -m alembic -c migrations/alembic.ini upgrade head"
    topics = "python -m shared.adapters.kafka_topics create"
    admit = "python -m shared.adapters.kafka_administration apply < /run/kafka-users"
    return _image() | {
        "command": ["sh", "-c", f"{migrate} && {topics} && {admit}"],
        "configs": [{"source": "kafka-users", "target": "/run/kafka-users"}],
        "environment": {
            "MUSTER_DATABASE_URL": _database_url(OWNER),
            "MUSTER_TOPIC_PREFIX": TOPIC_PREFIX,
            **_access(ADMIN).variables(),
        },
        "depends_on": {name: {"condition": "service_healthy"} for name in (KAFKA, POSTGRES)},
    }


def _image() -> Document:
    return {"image": "muster-gpu", "build": {"context": ".", "dockerfile": "deploy/Dockerfile"}}


def _check(command: str) -> Document:
    return {"test": ["CMD-SHELL", command], "interval": "2s", "timeout": "10s", "retries": 30}


def _database_url(role: str) -> str:
    return f"postgresql://{role}:{PASSWORD}@{POSTGRES}:5432/{OWNER}"


def _roles() -> str:
    lines = [line for role in ROLES for line in role_sql(role_name(role), PASSWORD)]
    # Compose reads a single dollar sign as the start of a variable.
    return ";\n".join([*lines, ""]).replace("$", "$$")
