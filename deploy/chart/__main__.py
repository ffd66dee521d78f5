"""`python -m deploy.chart --write | --check`: deploy/chart/muster/files, from their one source.

A chart reads nothing outside its own folder. So processes, rights, rules and dashboards are copied
into it here, and `make check` fails while a copy is stale.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from deploy.generated import run
from deploy.kube.control_plane import MANIFESTS
from deploy.local.cache import CHECKOUT
from deploy.local.kafka_properties import ADMIN, Listener, broker_properties
from deploy.local.services import (
    KAFKA_ROLES,
    KUBECONFIGS,
    ROLES,
    Service,
    services_on,
)
from deploy.observe.dashboards.__main__ import FOLDER as DASHBOARDS
from shared.events.grants import FLEET, TEAMS, principal_of

FILES: Final = CHECKOUT / "deploy" / "chart" / "muster" / "files"
RULES: Final = CHECKOUT / "deploy" / "prometheus" / "rules"
POLICIES: Final = CHECKOUT / "deploy" / "kube" / "policies"
KAFKA_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
HOST, PASSWORD = "@HOST@", "@PASSWORD@"  # places that the chart fills in


def files() -> dict[str, str]:
    """The text of each file by its path in `FILES`."""
    copies = {f"rules/{path.name}": path.read_text() for path in sorted(RULES.glob("*.yml"))}
    copies |= {f"dashboards/{one.name}": one.read_text() for one in DASHBOARDS.glob("*.json")}
    copies |= {
        f"policies/{one.relative_to(POLICIES).as_posix()}": one.read_text()
        for one in POLICIES.rglob("*.yaml")
    }
    return copies | {
        "services.json": _json([_process(one) for one in services_on("kubernetes")]),
        "principals.json": _json(_principals()),
        "identities.yaml": (MANIFESTS / "identities.yaml").read_text(),
        "kafka.properties": _kafka(),
    }


def _process(service: Service) -> dict[str, Any]:
    """A process as the chart's templates read it; settings with secrets are the templates' own."""
    return {
        "name": service.name,
        "module": service.module,
        "principal": principal_of(service.role),
        "probe": service.probe,
        "account": KUBECONFIGS.get(service.name, ""),
        "environment": {
            name: text for name, text in service.environment.items() if "{" not in text
        },
        "teams": "{kafka_admin_user}" in service.environment.values(),
    }


def _principals() -> dict[str, Any]:
    """Who logs in where, by the names under which their passwords stand in the Secret."""
    return {
        "admin": ADMIN,
        "teams": principal_of(TEAMS),
        "agent": principal_of(FLEET),
        "database": [principal_of(role) for role in ROLES],
        "kafka": {role: principal_of(role) for role in KAFKA_ROLES},
    }


def _kafka() -> str:
    """The broker of `values-try.yaml`: one node, secured as that of the local system is."""
    everywhere = "0.0.0.0"  # noqa: S104  # inside a container
    listener = Listener(listen=everywhere, port=KAFKA_PORT, advertised=f"{HOST}:{KAFKA_PORT}")
    return broker_properties(
        listeners=[listener],
        controller=CONTROLLER_PORT,
        data="/var/lib/kafka/data",
        password=PASSWORD,
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


def main(arguments: list[str] | None = None, folder: Path = FILES) -> int:
    """Write the files, or say which are stale; the exit code."""
    return run("deploy.chart", arguments, folder, files(), "make generated")


if __name__ == "__main__":
    sys.exit(main())
