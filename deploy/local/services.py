"""The one table of Muster's processes: the local runner and docker-compose.yml both follow it.

A new process is a new row. Every process gets the same few settings (`environment`); what only
one needs stands in its row.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from shared.events.grants import OPERATOR, READER, TEAMS
from shared.ports.kafka_access import KafkaAccess

KAFKA = "kafka"
POSTGRES = "postgres"
CLUSTER = "simulated-cluster"
GATEWAY = "gateway"
TOPIC_PREFIX = "muster"
PLACED_AT_ONCE = "1000"
"""A message costs placement three times what it costs others, and a unit places no more."""
VIEWS_NICENESS = "8"
"""A sixth of the weight of those who decide: what people see may lag behind a burst."""
CARRIES_OUT_NICENESS = "4"
"""So does what is done about decisions, ..."""
PLACES_NICENESS = "2"
"""... and of decisions who may run comes before where: a burst is answered first, then started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process. `role` is its service, whose database role it takes.

    A value of `environment` may name a field of `Addresses` in braces.
    """

    name: str
    role: str
    module: str
    needs: tuple[str, ...] = (KAFKA, POSTGRES)
    environment: Mapping[str, str] = field(default_factory=dict)
    probe: str = "/readyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """What a process must know of the others, and its own place."""

    kafka: KafkaAccess
    database: str
    cluster: str
    http_host: str
    http_port: int
    data_folder: str
    admin_key_file: str
    kafka_admin_user: str
    kafka_admin_password: str


def _service(name: str, **others: str) -> Service:
    return Service(name=name, role=name, module=f"services.{name}", environment=others)


SERVICES = (
    Service(
        name=CLUSTER,
        role=CLUSTER,
        module="shared.simulator.cluster",
        needs=(),
        environment={
            "MUSTER_CLUSTER_HOST": "{http_host}",
            "MUSTER_CLUSTER_PORT": "{http_port}",
            "MUSTER_CLUSTER_STATE": "{data_folder}",
        },
        probe="/healthz",
    ),
    _service("admission"),
    _service("quota"),
    _service(
        "placement", MUSTER_BATCH_MESSAGES_MAX=PLACED_AT_ONCE, MUSTER_NICENESS=PLACES_NICENESS
    ),
    Service(
        name="binder",
        role="binder",
        module="services.binder",
        needs=(KAFKA, POSTGRES, CLUSTER),
        environment={"MUSTER_NICENESS": CARRIES_OUT_NICENESS},
    ),
    _service("preemption", MUSTER_NICENESS=CARRIES_OUT_NICENESS),
    _service("monitoring", MUSTER_NICENESS=VIEWS_NICENESS),
    _service(
        "notifications",
        MUSTER_NICENESS=VIEWS_NICENESS,
        MUSTER_NOTIFICATION_SECRETS="{data_folder}/notification-secrets",
    ),
    _service(
        GATEWAY,
        MUSTER_GATEWAY_ROLES="http",
        MUSTER_KAFKA_ADMIN_USER="{kafka_admin_user}",
        MUSTER_KAFKA_ADMIN_PASSWORD="{kafka_admin_password}",  # noqa: S106  # a place to fill in
    ),
    Service(
        name="gateway-projection",
        role=GATEWAY,
        module="services.gateway",
        environment={"MUSTER_GATEWAY_ROLES": "projection", "MUSTER_NICENESS": VIEWS_NICENESS},
    ),
    Service(name="fleet", role="fleet", module="shared.simulator.fleet", needs=(KAFKA, CLUSTER)),
)
SIMULATED = (CLUSTER, "fleet")
"""Processes that are not there where pods run on Kubernetes ..."""
WATCHER = Service(
    name="cluster-watcher", role="cluster-watcher", module="services.cluster_watcher"
)
"""... and the one that reports its nodes in their place."""
NATIVE = _service("native")
"""Makes workloads of pods that name Muster as their scheduler."""
ON_KUBERNETES = (WATCHER, NATIVE)
KUBECONFIGS: Final = {
    "binder": "binder",
    GATEWAY: "gateway",
    WATCHER.name: "watcher",
    NATIVE.name: "native",
}
"""Who each service is on the test cluster of `deploy.kube`: its kubeconfig file there."""
ROLES = (*dict.fromkeys(service.role for service in (*SERVICES, *ON_KUBERNETES)), READER)
"""Users of the database."""
KAFKA_ROLES = (
    *dict.fromkeys(
        service.role for service in (*SERVICES, *ON_KUBERNETES) if KAFKA in service.needs
    ),
    READER,
    OPERATOR,
    TEAMS,
)
"""Users of the broker; a simulated cluster has no business there."""


def services_on(cluster: str) -> tuple[Service, ...]:
    """The processes for `MUSTER_CLUSTER`: `simulated` (or nothing said), or `kubernetes`."""
    if cluster != "kubernetes":
        return SERVICES
    return (*(row for row in SERVICES if row.name not in SIMULATED), *ON_KUBERNETES)


def on_test_cluster(folder: str) -> dict[str, dict[str, str]]:
    """Settings by service for the test cluster in `folder`; none where none is named."""
    if not folder:
        return {}
    return {
        name: {"MUSTER_KUBE_CONFIG": f"{folder}/{identity}.kubeconfig"}
        for name, identity in KUBECONFIGS.items()
    }


def environment(service: Service, addresses: Addresses) -> dict[str, str]:
    """The settings a process is started with."""
    own = {name: text.format_map(asdict(addresses)) for name, text in service.environment.items()}
    return {
        **(addresses.kafka.variables() if KAFKA in service.needs else {}),
        "MUSTER_DATABASE_URL": addresses.database,
        "MUSTER_CLUSTER_URL": addresses.cluster,
        "MUSTER_TOPIC_PREFIX": TOPIC_PREFIX,
        "MUSTER_SLOT": service.name,
        "MUSTER_HTTP_HOST": addresses.http_host,
        "MUSTER_HTTP_PORT": str(addresses.http_port),
        "MUSTER_DATA_FOLDER": addresses.data_folder,
        "MUSTER_ADMIN_KEY_FILE": addresses.admin_key_file,
        **own,
    }
