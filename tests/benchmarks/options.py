"""What the benchmarks share: where the data is, lists of seeds, and the machine's name."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def data_folder() -> Path:
    """The folder of the traces, which are not shipped (`MUSTER_DATA`)."""
    return Path(os.environ.get("MUSTER_DATA", "../shared/data"))


def numbers(text: str) -> list[int]:
    """`42-44,50` as numbers."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def machine() -> dict[str, str]:
    """What a figure was measured on."""
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
    }
