"""docker-compose.yml, generated from the same table of processes as the local runner.

Written by `make generated`; `make check` fails while the file is stale. `make compose-test` runs
the file as it is.
"""

import sys

import yaml
from pydantic import SecretStr

from deploy.containers.names import MUSTER_IMAGE
from deploy.local.cache import CHECKOUT
from deploy.local.compose_servers import (
    KAFKA_PORT,
    LOOPBACK,
    PASSWORD,
    Document,
    bounded_log,
    check,
    kafka,
    kafka_properties,
    kept_up,
    postgres,
    roles,
)
from deploy.local.kafka_properties import ADMIN
from deploy.local.roles import OWNER, role_name
from deploy.local.services import (
    CLUSTER,
    GATEWAY,
    KAFKA,
    KAFKA_ROLES,
    POSTGRES,
    SERVICES,
    TOPIC_PREFIX,
    Addresses,
    Service,
    environment,
)
from shared.events.grants import READER, TEAMS, principal_of
from shared.ports.kafka_access import KafkaAccess, SecurityProtocol

FILE = CHECKOUT / "docker-compose.yml"
HEADER = """\
# Generated from deploy/local/services.py by `make generated`: change that table, not this file.
# For trying Muster on one machine. The key and the passwords in it are no secrets: what is
# published is so on the loopback alone, and every container can read its `configs`.
"""
KEY = "a-key-for-trying-muster-on-one-machine-only"
HTTP_PORT = 8080
OPERATIONS = "operations"


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
    services = {KAFKA: kafka(), POSTGRES: postgres(), "prepare": _prepare()}
    services |= {service.name: _process(service) for service in SERVICES}
    services[OPERATIONS] = _operations()
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
    waits = {need: {"condition": "service_healthy"} for need in service.needs}
    entry = {
        **_image(),
        "command": ["python", "-m", service.module],
        **kept_up(),
        "environment": environment(service, addresses),
        "configs": [{"source": "key", "target": "/run/admin.key"}],
        "volumes": ["data:/data"],
        "depends_on": waits | {"prepare": {"condition": "service_completed_successfully"}},
        "healthcheck": check("healthy", str(HTTP_PORT), service.probe),
    }
    if service.name == GATEWAY:
        entry["environment"] |= {"MUSTER_ADDRESS": _gateway(LOOPBACK), "MUSTER_KEY": KEY}
        entry["ports"] = [f"{LOOPBACK}:{HTTP_PORT}:{HTTP_PORT}"]
    return entry


def _prepare() -> Document:
    migrate = "python -m alembic -c migrations/alembic.ini upgrade head"
    topics = "python -m shared.adapters.kafka.topics create"
    admit = "python -m shared.adapters.kafka.administration apply < /run/kafka-users"
    return {
        **_image(),
        # It alone builds: eleven services that build would make the same image eleven times.
        "build": {"context": ".", "dockerfile": "deploy/Dockerfile"},
        "command": ["sh", "-c", f"{migrate} && {topics} && {admit}"],
        "restart": "on-failure",  # a broker that has just started may be slow to answer
        **bounded_log(),
        "configs": [{"source": "kafka-users", "target": "/run/kafka-users"}],
        "environment": {
            "MUSTER_DATABASE_URL": _database_url(OWNER),
            "MUSTER_TOPIC_PREFIX": TOPIC_PREFIX,
            **_access(ADMIN).variables(),
        },
        "depends_on": {name: {"condition": "service_healthy"} for name in (KAFKA, POSTGRES)},
    }


def _operations() -> Document:
    """Both commands, for `docker compose run --rm operations COMMAND`; `up` leaves it out."""
    return {
        **_image(),
        "profiles": [OPERATIONS],
        "command": ["muster-ops", "check"],
        **bounded_log(),
        "environment": {
            "MUSTER_ADDRESS": _gateway(GATEWAY),
            "MUSTER_KEY": KEY,
            "MUSTER_DATABASE_URL": _database_url(role_name(READER)),
            "MUSTER_TOPIC_PREFIX": TOPIC_PREFIX,
            **_access(principal_of(READER)).variables(),
        },
    }


def _image() -> Document:
    """The image of every service; no registry has it."""
    return {"image": MUSTER_IMAGE, "pull_policy": "never"}


def _contents() -> dict[str, str]:
    """Files that containers are given."""
    return {
        "roles": roles(),
        "key": f"{KEY}\n",
        "kafka": kafka_properties(),
        "kafka-users": "".join(f"{role}={PASSWORD}\n" for role in KAFKA_ROLES),
    }


def _gateway(host: str) -> str:
    return f"http://{host}:{HTTP_PORT}"


def _access(user: str) -> KafkaAccess:
    return KafkaAccess(
        bootstrap=f"{KAFKA}:{KAFKA_PORT}",
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        user=user,
        password=SecretStr(PASSWORD),
    )


def _database_url(role: str) -> str:
    return f"postgresql://{role}:{PASSWORD}@{POSTGRES}:5432/{OWNER}"
