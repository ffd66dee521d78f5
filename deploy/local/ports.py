"""The ports of a local system stay the same over restarts, as long as nobody else took them.

Whoever noted an address, in a shell or a configuration, finds the system there again.
"""

import contextlib
import json
import socket
from collections.abc import Sequence
from pathlib import Path

from deploy.local.processes import free_ports

FILE = "ports.json"


def kept_ports(folder: Path, names: Sequence[str]) -> dict[str, int]:
    """A port for each name: the one of the run before if it is free, else another that is.

    The file in `folder` is written again with them; those of other names stay in it. A file that
    cannot be read is none.
    """
    known = _read(folder / FILE)
    ports = {name: known[name] for name in names if name in known and _is_free(known[name])}
    others = [name for name in names if name not in ports]
    ports |= dict(zip(others, _others(len(others), set(known.values())), strict=True))
    if others:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(json.dumps(known | ports, indent=2) + "\n")
    return {name: ports[name] for name in names}


def _others(count: int, taken: set[int]) -> list[int]:
    """Free ports that no other name of this system has."""
    return [port for port in free_ports(count + len(taken)) if port not in taken][:count]


def _read(path: Path) -> dict[str, int]:
    with contextlib.suppress(FileNotFoundError, ValueError):
        found = json.loads(path.read_text())
        if isinstance(found, dict):
            return {name: port for name, port in found.items() if isinstance(port, int)}
    return {}


def _is_free(port: int) -> bool:
    with contextlib.suppress(OSError, OverflowError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what ended just now is gone
        probe.bind(("127.0.0.1", port))
        return True
    return False
