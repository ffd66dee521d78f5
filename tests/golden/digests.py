"""The file of digests, and how one is made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from structlog.testing import capture_logs

from tests.golden.histories import HISTORIES
from tests.golden.recorder import recording

SEEDS: Final = 200
FILE: Final = Path(__file__).with_name("digests.json")
Key = tuple[str, int]
"""Name of a history, and its seed."""


def digest(history: str, seed: int) -> str:
    """Play one history and digest its units."""
    with capture_logs(), recording() as recorder:
        HISTORIES[history](seed)
    return f"{recorder.hexdigest()} {recorder.units}"


def load() -> dict[Key, str]:
    """What is recorded; empty without a file."""
    if not FILE.exists():
        return {}
    recorded = json.loads(FILE.read_text())
    return {
        (name, seed): value
        for name, values in recorded.items()
        for seed, value in enumerate(values)
    }


def save(digests: Mapping[Key, str]) -> None:
    """Write the file: for each history a list by seed."""
    names = sorted({name for name, _ in digests})
    lists = {
        name: [value for (of, _), value in sorted(digests.items()) if of == name] for name in names
    }
    FILE.write_text(json.dumps(lists, indent=0) + "\n")


def differences(found: Mapping[Key, str], recorded: Mapping[Key, str]) -> list[str]:
    """A line for each digest that is not the recorded one."""
    return [
        f"{name} {seed}: {value}, recorded: {recorded.get((name, seed), 'nothing')}"
        for (name, seed), value in sorted(found.items())
        if recorded.get((name, seed)) != value
    ]
