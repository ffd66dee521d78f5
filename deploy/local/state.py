"""`state.json`: where the running system is. Written whole or not at all, gone when it stops."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Process ids and addresses of a running system; `started` once every process is."""

    supervisor: int
    started: bool
    processes: dict[str, int]
    addresses: dict[str, str]
    gateway: str
    kafka: str
    database: str
    admin_key_file: str


def write(folder: Path, state: State) -> None:
    """Replace the file, readable by its owner alone: it holds a password."""
    partial = folder / f"{FILE}.partial"
    partial.touch(mode=0o600)
    partial.write_text(json.dumps(asdict(state), indent=2) + "\n")
    partial.rename(folder / FILE)


def read(folder: Path) -> State | None:
    """The state of a running system, None when none is noted."""
    try:
        return State(**json.loads((folder / FILE).read_text()))
    except FileNotFoundError:
        return None


def remove(folder: Path) -> None:
    """Say that nothing runs."""
    (folder / FILE).unlink(missing_ok=True)
    (folder / f"{FILE}.partial").unlink(missing_ok=True)
