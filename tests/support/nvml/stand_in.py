"""The library is compiled once; a test changes what it answers by writing a file."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from deploy.local.cache import cache_folder

HERE: Final = Path(__file__).parent
LIBRARY: Final = "libnvidia-ml.so.1"
OPTIONS: Final = ("-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread")
WARNINGS: Final = ("-Wall", "-Wextra", "-Werror")

State = dict[str, object]
"""What is answered, by the keys that the C sources name."""


def build(folder: Path | None = None) -> Path:
    """The folder of the library, compiled if its sources are new; safe side by side.

    It is below `folder`, else below the cache of the checkout.
    """
    files = sorted((*HERE.glob("*.c"), *HERE.glob("*.h")))
    texts = b"".join(file.read_bytes() for file in files)
    digest = hashlib.sha256(texts + repr(OPTIONS).encode()).hexdigest()[:16]
    found = (folder or cache_folder()) / f"nvml-{digest}"
    if not (found / LIBRARY).exists():
        found.mkdir(parents=True, exist_ok=True)
        sources = [str(file) for file in files if file.suffix == ".c"]
        with tempfile.TemporaryDirectory(dir=found) as scratch:
            made = Path(scratch) / LIBRARY
            subprocess.run(["cc", *OPTIONS, *WARNINGS, "-o", str(made), *sources], check=True)
            made.rename(found / LIBRARY)
    return found


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
        self._written_ns = 0
        self.write()

    def write(self, **changes: object) -> None:
        """Answer otherwise from now on; `__` stands for a dot, None takes a key away."""
        self.set({name.replace("__", "."): value for name, value in changes.items()})

    def set(self, changes: Mapping[str, object]) -> None:
        """As `write`, by keys as they are in the file."""
        for key, value in changes.items():
            if key.endswith(".mig_mode"):
                self._mode_of(int(key.split(".")[1])).unlink(missing_ok=True)
            self.state[key] = value
        self.state = {key: value for key, value in self.state.items() if value is not None}
        fresh = self.path.with_suffix(".new")
        fresh.write_text("".join(f"{key} = {value}\n" for key, value in self.state.items()))
        self._written_ns = max(time.time_ns(), self._written_ns + 1)
        os.utime(fresh, ns=(self._written_ns, self._written_ns))  # clocks of files are coarse
        fresh.rename(self.path)

    def happen(self, gpu: int, kind: int, data: int, instance: int = -1) -> None:
        """An event of the driver: `kind` is a bit of NVML's types."""
        self.set({f"event.{self._events}": f"{gpu},{kind},{data},{instance}"})
        self._events += 1

    # ── faults; the same call with `on=False` ends them ──

    def lose(self, gpu: int, *, on: bool = True) -> None:
        """The GPU is no longer on its bus."""
        self.set({f"gpu.{gpu}.lost": 1 if on else None})

    def fail(self, call: str, code: int | None, *, gpu: int | None = None) -> None:
        """The call answers with an error, for one GPU or for all; None: no longer."""
        self.set({f"{_of(gpu)}error.{call}": code})

    def hang(self, call: str, *, gpu: int | None = None, on: bool = True) -> None:
        """The call does not return."""
        self.set({f"{_of(gpu)}hang.{call}": 1 if on else None})

    def slow(self, call: str, wait_ms: int, *, gpu: int | None = None) -> None:
        """The call takes longer by `wait_ms`; 0: no longer."""
        self.set({f"{_of(gpu)}slow_ms.{call}": wait_ms or None})

    def unload(self, *, on: bool = True) -> None:
        """The driver is gone; processes that were initialised must do it again afterwards."""
        self.set({"driver_gone": 1 if on else None})

    def reload(self, driver: str) -> None:
        """Another driver at once: a process that made no call meanwhile must notice, too."""
        epoch = int(str(self.state.get("driver_epoch", 0))) + 1
        self.set({"driver": driver, "driver_epoch": epoch, "driver_gone": None})

    def reset(self, gpu: int) -> None:
        """A reset of one GPU: it is found again, needs nothing, and a pending mode is in force."""
        told = self._mode_of(gpu)
        mode = told.read_text().split()[1] if told.exists() else None
        changes: State = {f"gpu.{gpu}.lost": None}
        if f"gpu.{gpu}.field.230" in self.state:
            changes[f"gpu.{gpu}.field.230"] = 0
        self.set(changes if mode is None else changes | {f"gpu.{gpu}.mig_mode": mode})

    def _mode_of(self, gpu: int) -> Path:
        """Where the library keeps a mode that was set."""
        return self.path.with_name(f"mig.{gpu}")


def _of(gpu: int | None) -> str:
    return "" if gpu is None else f"gpu.{gpu}."
