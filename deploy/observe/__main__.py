"""`python -m deploy.observe`: Prometheus beside the local system, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final

from deploy.local import state, supervisor
from deploy.local.cache import CHECKOUT
from deploy.local.processes import LocalError
from deploy.observe import programs
from deploy.observe.servers import Observing

NOT_UP: Final = 3
GRAFANA: Final = (
    "Grafana       is not started: give it deploy/grafana/provisioning, deploy/grafana/dashboards"
    " and this Prometheus (docs/dashboards.md)"
)


def main() -> int:
    """Start it, print what to open, stop it; the exit code."""
    arguments = _parser().parse_args()
    folder: Path = arguments.folder.resolve()
    found = state.read(folder) if supervisor.is_up(folder) else None
    if found is None:
        print("nothing is up: make up, or make demo in another terminal", file=sys.stderr)
        return NOT_UP
    try:
        return observe(folder / "observe", found.addresses, arguments.agent)
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def observe(folder: Path, services: dict[str, str], agents: list[str]) -> int:
    """Until Ctrl-C or SIGTERM."""
    observing = Observing(folder, services, agents=agents)
    observing.start()
    try:
        print("\n".join(told(observing)), flush=True)
        _wait()
    finally:
        observing.stop()
    print("stopped")
    return 0


def told(observing: Observing) -> list[str]:
    """What runs, and what to open."""
    lines = [
        f"Prometheus    {observing.url}",
        f"  alerts      {observing.url}/api/v1/alerts",
        f"  a question  {observing.url}/api/v1/query?query=sum+by+(state)+(muster_gpu_state)",
    ]
    if observing.tells:
        lines.append(f"Alertmanager  {observing.alerts_url}/api/v2/alerts")
    else:
        lines.append(f"Alertmanager  is missing: apt-get install {programs.ALERTMANAGER}")
    lines.append(GRAFANA)
    return [*lines, "Ctrl-C stops both."]


class _AskedToStop(BaseException):
    """SIGTERM or SIGINT came."""


def _wait() -> None:
    def stop(number: int, _: FrameType | None) -> None:
        raise _AskedToStop(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with contextlib.suppress(_AskedToStop):
        while True:
            signal.pause()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.observe", description=__doc__)
    parser.add_argument("--folder", type=Path, default=CHECKOUT / ".muster")
    parser.add_argument(
        "--agent", action="append", default=[], help="host:port of a node agent; again for more"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
