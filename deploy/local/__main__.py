"""`python -m deploy.local`: up, down, status, logs, demo, backup, restore, compose."""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from sqlalchemy.engine import make_url

from deploy.local import compose, state, supervisor
from deploy.local.cache import CHECKOUT
from deploy.local.health import is_ready
from deploy.local.processes import LocalError
from deploy.local.services import on_test_cluster, services_on
from deploy.local.system import LocalSystem

NOT_UP = 3
TAIL_LINES = 40


def main() -> int:
    """Run one command; its exit code."""
    arguments = _parser().parse_args()
    folder: Path = arguments.folder.resolve()
    commands = {
        "up": lambda: up(folder),
        "down": lambda: down(folder, purge=getattr(arguments, "purge", False)),
        "status": lambda: status(folder),
        "logs": lambda: logs(folder, getattr(arguments, "process", "")),
        "demo": lambda: demo(folder, quick=getattr(arguments, "quick", False)),
        "backup": lambda: backup(folder),
        "restore": lambda: restore(folder),
        "supervise": lambda: supervise(folder),
        "compose": lambda: compose.main(write=getattr(arguments, "write", False)),
    }
    try:
        return commands[arguments.command]()
    except LocalError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def up(folder: Path) -> int:
    """Start the system, or say that it is up."""
    print("up already" if not supervisor.up(folder) else "up")
    return status(folder)


def down(folder: Path, *, purge: bool) -> int:
    """Stop the system; with `purge`, also forget its data."""
    print("down" if supervisor.down(folder) else "nothing was up")
    if purge:
        for location in folder.glob("*.location"):
            shutil.rmtree(location.read_text().strip(), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def status(folder: Path) -> int:
    """Print what runs and where."""
    found = state.read(folder) if supervisor.is_up(folder) else None
    if found is None:
        print("nothing is up (make up)")
        return NOT_UP
    for name in {**found.processes, **found.addresses}:
        print(f"{name:20} {_line(found, name)}")
    print(f"\nAPI         {found.gateway}\nAPI key     {found.admin_key_file}")
    print(f"Kafka       {found.kafka}\nPostgreSQL  {make_url(found.database)!r}")
    return 0


def _line(found: state.State, name: str) -> str:
    pid, url = found.processes.get(name, "-"), found.addresses.get(name, "")
    word = "ready" if not url or is_ready(found.probes[name]) else "NOT READY"
    return f"{pid:>8}  {word:10} {url}"


def logs(folder: Path, name: str) -> int:
    """Follow the log of one process, or of all."""
    known = {path.stem: path for path in sorted((folder / "logs").glob("*.log"))}
    known |= {server: folder / server / f"{server}.log" for server in ("kafka", "postgres")}
    if name and name not in known:
        raise LocalError(f"no log of {name}; there are: {', '.join(known)}")
    paths = [str(path) for path in ([known[name]] if name else known.values())]
    with contextlib.suppress(KeyboardInterrupt):
        subprocess.run(["tail", "-n", str(TAIL_LINES), "-F", *paths], check=False)
    return 0


def demo(folder: Path, *, quick: bool) -> int:
    """Start the system and run the demo on it."""
    up(folder)
    command = [sys.executable, "-m", "operations.demo", *(["--quick"] if quick else [])]
    variables = {**os.environ, "MUSTER_HOME": str(folder)}
    return subprocess.run(command, cwd=CHECKOUT, env=variables, check=False).returncode


def backup(folder: Path) -> int:
    """Take a base backup of the database of a system that is up."""
    if not supervisor.is_up(folder):
        print("nothing is up (make up BACKUP=1)", file=sys.stderr)
        return NOT_UP
    server = LocalSystem(folder).postgres
    server.take_backup()
    print(f"base backup in {server.backup.base}, every commit since in {server.backup.wal}")
    return 0


def restore(folder: Path) -> int:
    """Put the database of a stopped system back to its last commit, from the backup.

    Raises:
        LocalError: the system is up, or there is no backup.
    """
    if supervisor.is_up(folder):
        raise LocalError("the system is up: make down")
    LocalSystem(folder).postgres.restore()
    print("restored; make up replays every commit since")
    return 0


def supervise(folder: Path) -> int:
    """Be the daemon; `up` starts it."""
    services = services_on(os.environ.get("MUSTER_CLUSTER", ""))
    supervisor.run(
        folder,
        services,
        on_test_cluster(os.environ.get("MUSTER_KUBE_FOLDER", "")),
        backup=bool(os.environ.get("MUSTER_KEEP_COMMITS")),
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    parser.add_argument("--folder", type=Path, default=CHECKOUT / ".muster")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("up", "status", "backup", "restore", "supervise"):
        commands.add_parser(name)
    commands.add_parser("demo").add_argument("--quick", action="store_true")
    commands.add_parser("down").add_argument("--purge", action="store_true")
    commands.add_parser("logs").add_argument("process", nargs="?", default="")
    choice = commands.add_parser("compose").add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true")
    choice.add_argument("--check", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
