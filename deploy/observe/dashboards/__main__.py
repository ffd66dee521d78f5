"""`python -m deploy.observe.dashboards --write | --check`: deploy/grafana/dashboards/*.json."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from deploy.generated import run
from deploy.local.cache import CHECKOUT
from deploy.observe.dashboards import (
    cost,
    fleet,
    grafana,
    health,
    itself,
    memory,
    node,
    queues,
    teams,
)

FOLDER: Final = CHECKOUT / "deploy" / "grafana" / "dashboards"
DASHBOARDS: Final = (
    fleet.FLEET,
    teams.TEAMS,
    queues.QUEUES,
    health.HEALTH,
    memory.MEMORY,
    cost.COST,
    itself.ITSELF,
    node.NODE,
)


def files() -> dict[str, str]:
    """The text of each file by its name."""
    return {f"{one.uid}.json": grafana.rendered(one) for one in DASHBOARDS}


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the files, or say which are stale; the exit code."""
    return run("deploy.observe.dashboards", arguments, folder, files(), "make dashboards")


if __name__ == "__main__":
    sys.exit(main())
