"""`state.json`: where the running system is. Written whole or not at all, gone when it stops."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = "state.json"
CLIENT_FILE = "client.json"  # by which `muster` finds its address and key


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Process ids and addresses of a running system; `started` once every process is.

    `kafka_logins`: for each user of the broker the variables by which it logs in; `muster-ops`
    has its own there, and those that `muster-ops recover kafka` makes again.
    """

    supervisor: int
    started: bool
    processes: dict[str, int]
    addresses: dict[str, str]
    probes: dict[str, str]
    gateway: str
    kafka: str
    kafka_logins: dict[str, dict[str, str]]
    database: str
    admin_key_file: str


def write(folder: Path, state: State) -> None:
    """Replace the files, readable by their owner alone: they hold passwords and a key."""
    _replace(folder / FILE, asdict(state))
    key = Path(state.admin_key_file)
    if state.gateway and key.exists():
        _replace(folder / CLIENT_FILE, {"address": state.gateway, "key": key.read_text().strip()})


def read(folder: Path) -> State | None:
    """The state of a running system, None when none is noted."""
    try:
        return State(**json.loads((folder / FILE).read_text()))
    except FileNotFoundError:
        return None


def remove(folder: Path) -> None:
    """Say that nothing runs."""
    (folder / FILE).unlink(missing_ok=True)
    (folder / CLIENT_FILE).unlink(missing_ok=True)


def _replace(path: Path, document: dict[str, Any]) -> None:
    partial = path.with_suffix(".partial")
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(document, indent=2) + "\n")
    partial.rename(path)
