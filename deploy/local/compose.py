"""docker-compose.yml, generated from the same table of processes as the local runner.

Written by `make generated`; `make check` fails while the file is stale. There is no container
engine where this is tested: what is checked is that the file is complete and well formed.
"""

import sys
from typing import Any

import yaml

from deploy.local.cache import CHECKOUT
from deploy.local.kafka_jars import VERSION
from deploy.local.roles import OWNER, role_name, role_sql
from deploy.local.services import (
    CLUSTER,
    GATEWAY,
    KAFKA,
    POSTGRES,
    ROLES,
    SERVICES,
    Addresses,
    Service,
    environment,
)

FILE = CHECKOUT / "docker-compose.yml"
HEADER = """\
# Generated from deploy/local/services.py by `make generated`: change that table, not this file.
# For trying Muster on one machine; the passwords in it are no secrets.
"""
PASSWORD = "local"  # noqa: S105  # says the header
HTTP_PORT = 8080
BROKER = f"{KAFKA}:9092"
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
        "configs": {"roles": {"content": _roles()}, "key": {"content": f"{PASSWORD}\n"}},
        "volumes": {name: {} for name in (KAFKA, POSTGRES, "data")},
    }
    return HEADER + yaml.safe_dump(document, sort_keys=False, width=99)


def _process(service: Service) -> Document:
    addresses = Addresses(
        kafka=BROKER,
        database=_database_url(role_name(service.role)),
        cluster=f"http://{CLUSTER}:{HTTP_PORT}",
        http_host="0.0.0.0",  # noqa: S104  # inside a container
        http_port=HTTP_PORT,
        data_folder="/data",
        admin_key_file="/run/admin.key",
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
    listeners = "PLAINTEXT://:9092,CONTROLLER://:9093"
    return {
        "image": f"apache/kafka:{VERSION}",
        "environment": {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENERS": listeners,
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{BROKER}",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
            "KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
            "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
        },
        "volumes": [f"{KAFKA}:/var/lib/kafka/data"],
        "healthcheck": _check("/opt/kafka/bin/kafka-cluster.sh cluster-id -b localhost:9092"),
    }


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
    return _image() | {
        "command": ["sh", "-c", f"{migrate} && {topics}"],
        "environment": {
            "MUSTER_DATABASE_URL": _database_url(OWNER),
            "MUSTER_KAFKA_BOOTSTRAP": BROKER,
            "MUSTER_TOPIC_PREFIX": "muster",
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
