"""`state.json`: which processes a test cluster has and where its API server is."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from deploy.local.processes import identity

FILE: Final = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """`processes`: by name, in the order of their start, what tells each from a later process."""

    server: str
    nodes: int
    processes: dict[str, str]

    def running(self) -> dict[str, int]:
        """The process ids of those that still run."""
        noted = {name: int(known.partition(":")[0]) for name, known in self.processes.items()}
        return {name: pid for name, pid in noted.items() if identity(pid) == self.processes[name]}


def write(folder: Path, state: State) -> None:
    """Replace the file whole."""
    partial = folder / f"{FILE}.partial"
    partial.write_text(json.dumps(asdict(state), indent=2) + "\n")
    partial.rename(folder / FILE)


def read(folder: Path) -> State | None:
    """The state that was noted; None when none was."""
    try:
        return State(**json.loads((folder / FILE).read_text()))
    except FileNotFoundError:
        return None
