"""`python -m deploy.observe.dashboards --write | --check`: deploy/grafana/dashboards/*.json."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

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


def stale(folder: Path, wanted: dict[str, str]) -> list[str]:
    """Files that are missing, out of date, or of a dashboard that is no more."""
    present = {path.name: path.read_text() for path in folder.glob("*.json")}
    names = {*wanted, *present}
    return sorted(name for name in names if wanted.get(name) != present.get(name))


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the files, or say which are stale; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.observe.dashboards")
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true")
    choice.add_argument("--check", action="store_true")
    write = parser.parse_args(arguments).write
    wanted = files()
    wrong = stale(folder, wanted)
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        for name in wrong:
            _put(folder / name, wanted.get(name))
        return 0
    for name in wrong:
        print(f"{name} is stale: run `make dashboards`", file=sys.stderr)
    return 1 if wrong else 0


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
