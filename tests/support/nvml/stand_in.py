"""The library is compiled once; a test changes what it answers by writing a file."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
SOURCES: Final = ("state.c", "devices.c", "topology.c")
LIBRARY: Final = "libnvidia-ml.so.1"
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror")

State = dict[str, object]
"""What is answered, by the keys that the C sources name."""


def build() -> Path:
    """The folder of the library, compiled if its sources are new; safe side by side."""
    texts = b"".join((HERE / name).read_bytes() for name in (*SOURCES, "stand_in.h"))
    name = f"muster-nvml-{hashlib.sha256(texts).hexdigest()[:16]}"
    folder = Path(tempfile.gettempdir()) / name
    if not (folder / LIBRARY).exists():
        folder.mkdir(exist_ok=True)
        made = folder / f"{LIBRARY}.{os.getpid()}"
        files = [str(HERE / source) for source in SOURCES]
        options = ["-shared", "-fPIC", "-fvisibility=hidden", "-pthread", *WARNINGS]
        subprocess.run(["cc", *options, "-o", str(made), *files], check=True)
        made.rename(folder / LIBRARY)
    return folder


class StandIn:
    """One machine with the boards of `state`; a test changes it while processes read it."""

    def __init__(self, folder: Path, state: Mapping[str, object]) -> None:
        self.state: State = {**state, "mig_file": folder / "mig"}
        self.path = folder / "nvml.txt"
        self.environment = {
            "LD_LIBRARY_PATH": str(build()),
            "MUSTER_NVML_STAND_IN": str(self.path),
        }
        """What a process that shall see it has in its environment."""
        self._events = 0
        self.write()

    def write(self, **changes: object) -> None:
        """Answer otherwise from now on; `__` stands for a dot, None takes a key away."""
        for name, value in changes.items():
            key = name.replace("__", ".")
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        text = "".join(f"{key} = {value}\n" for key, value in self.state.items())
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        fresh.rename(self.path)

    def happen(self, gpu: int, kind: int, data: int, instance: int = -1) -> None:
        """An event of the driver: `kind` is a bit of NVML's types."""
        self.state[f"event.{self._events}"] = f"{gpu} {kind} {data} {instance}"
        self._events += 1
        self.write()
