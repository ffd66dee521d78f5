"""`python -m deploy.kube`: up, down, status, build."""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Final

from deploy.kube import state
from deploy.kube.control_plane import NODES_DEFAULT, ControlPlane
from deploy.kube.programs import HELM, programs
from deploy.local.cache import CHECKOUT, locked
from deploy.local.processes import MARK, LocalError, end_orphans, running, wait_until

NOT_UP: Final = 3
STOP_SECONDS: Final = 20
NODES_MAX: Final = 5_000


def main() -> int:
    """Run one command; its exit code."""
    arguments = _parser().parse_args()
    folder: Path = arguments.folder.resolve()
    try:
        if arguments.command == "build":
            print(programs())
            print(programs(HELM))
            return 0
        if arguments.command == "status":
            return status(folder)
        with locked(folder.parent / f"{folder.name}.lock"):
            return up(folder) if arguments.command == "up" else down(folder)
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def up(folder: Path) -> int:
    """Start a cluster with nothing in it, or say that it is up."""
    if _running(folder):
        print("up already")
        return status(folder)
    nodes = _asked_nodes()
    end_orphans(folder)
    shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()
    cluster = ControlPlane(folder, nodes=nodes, environment={MARK: str(folder)})
    cluster.start()
    print(f"up in {time.monotonic() - started:.1f} s, {nodes} nodes")
    return status(folder)


def down(folder: Path) -> int:
    """Stop the cluster and forget what it held."""
    found = _running(folder)
    for pid in reversed(found.values()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        _wait_for_end(pid)
    orphans = end_orphans(folder)
    shutil.rmtree(folder, ignore_errors=True)
    print("down" if found or orphans else "nothing was up")
    return 0


def status(folder: Path) -> int:
    """Print what runs and where."""
    found, noted = _running(folder), state.read(folder)
    if not found or noted is None:
        print("nothing is up (make kube-up)")
        return NOT_UP
    for name, pid in found.items():
        print(f"{name:24} {pid:>8}")
    print(f"\nAPI server  {noted.server}")
    for path in sorted(folder.glob("*.kubeconfig")):
        print(f"{path.stem:11} {path}")
    print(f"kubectl     {programs()}/kubectl --kubeconfig {folder}/admin.kubeconfig")
    return 0


def _asked_nodes() -> int:
    text = os.environ.get("KUBE_NODES") or str(NODES_DEFAULT)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= NODES_MAX:
        raise LocalError(f"KUBE_NODES is {text!r}: a number from 1 to {NODES_MAX} is needed")
    return int(text)


def _running(folder: Path) -> dict[str, int]:
    """The process ids of those that still run, in the order of their start."""
    found = state.read(folder)
    return found.running() if found else {}


def _wait_for_end(pid: int) -> None:
    with contextlib.suppress(LocalError):
        wait_until(lambda: not running(pid), seconds=STOP_SECONDS, what="it to end")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.kube", description=__doc__)
    parser.add_argument("--folder", type=Path, default=CHECKOUT / ".kube")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("up", "down", "status", "build"):
        commands.add_parser(name)
    return parser


if __name__ == "__main__":
    sys.exit(main())
