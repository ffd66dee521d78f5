"""`python -m deploy.kubelets`: up, down, status, build."""

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from deploy.kube import state
from deploy.kube.programs import programs
from deploy.kubelets.cluster import KubeletCluster, build
from deploy.kubelets.place import sweep
from deploy.local.cache import CHECKOUT, locked
from deploy.local.processes import LocalError, end_orphans

NOT_UP: Final = 3


def main() -> int:
    """Run one command; its exit code."""
    arguments = _parser().parse_args()
    folder: Path = arguments.folder.resolve()
    try:
        if arguments.command == "build":
            build()
            return 0
        if arguments.command == "status":
            return status(folder)
        with locked(folder.parent / f"{folder.name}.lock"):
            return up(folder) if arguments.command == "up" else down(folder)
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def up(folder: Path) -> int:
    """Start a cluster with nothing in it, or say that it is up; one that lacks a part is ended."""
    found = state.read(folder)
    running = found.running().keys() if found else set()
    ended = found.processes.keys() - running if found else set()
    if running and not ended:
        print("up already")
        return status(folder)
    if running:
        print(f"{', '.join(sorted(ended))} has ended: all is started anew")
    _clear(folder)
    started = time.monotonic()
    KubeletCluster(folder, home=str(folder)).start()
    print(f"up in {time.monotonic() - started:.1f} s")
    return status(folder)


def down(folder: Path) -> int:
    """End the cluster and forget what it held."""
    print("down" if _clear(folder) else "nothing was up")
    return 0


def _clear(folder: Path) -> bool:
    """Whether anything ran."""
    ended = end_orphans(folder)
    sweep()
    shutil.rmtree(folder, ignore_errors=True)
    return bool(ended)


def status(folder: Path) -> int:
    """Print what runs and where."""
    noted = state.read(folder)
    if noted is None or not noted.running():
        print("nothing is up (make kubelet-up)")
        return NOT_UP
    for name, pid in noted.running().items():
        print(f"{name:24} {pid:>8}")
    print(f"\nAPI server  {noted.server}")
    print(f"logs        {folder}/logs, {folder}/NODE/log")
    print(f"kubectl     {programs()}/kubectl --kubeconfig {folder}/admin.kubeconfig")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.kubelets", description=__doc__)
    parser.add_argument("--folder", type=Path, default=CHECKOUT / ".kubelets")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("up", "down", "status", "build"):
        commands.add_parser(name)
    return parser


if __name__ == "__main__":
    sys.exit(main())
