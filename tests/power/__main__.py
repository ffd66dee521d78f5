"""`python -m tests.power [NAME ...]`: applies each patch to a copy and demands a red simulation.

A patch that no longer applies fails: it must be written anew for the code of today.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PATCHES: Final = ROOT / "tests" / "power" / "patches"
COPIED: Final = ("shared", "services", "operations", "tests", "deploy", "migrations")
SEEDS: Final = 1_000
SECONDS_MAX: Final = 900


def found(patch: Path, seeds: int, workers: int) -> str:
    """The line that names the first red seed; "" when nothing was red.

    Raises:
        ValueError: the patch does not apply.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name in COPIED:
            ignored = shutil.ignore_patterns("__pycache__", "patches", "benchmarks", "golden")
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=ignored)
        applied = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", str(patch)],
            cwd=folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if applied.returncode:
            raise ValueError(f"{patch.name} no longer applies: {applied.stderr.strip()}")
        command = [sys.executable, "-m", "tests.simulation", "--until-red"]
        told, problem = _ended(
            [*command, "--seeds", str(seeds), "--workers", str(workers)],
            folder,
            os.environ | {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        lines = [one for one in told.splitlines() if "red:" in one]
        if not lines and "0 red" not in told:
            raise ValueError(f"{patch.name}: the simulation did not run: {problem[-400:]}")
        return lines[0] if lines else ""


def _ended(command: list[str], folder: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """What it wrote; after `SECONDS_MAX` its workers are ended with it."""
    with subprocess.Popen(
        command, cwd=folder, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            return process.communicate(timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return "", f"not over after {SECONDS_MAX} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="at most, for each")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    missed = 0
    for patch in sorted(PATCHES.glob("*.patch")):
        if options.names and patch.stem not in options.names:
            continue
        try:
            line = found(patch, options.seeds, options.workers)
        except ValueError as error:
            line = ""
            print(error)
        missed += not line
        print(f"{patch.stem}: {line or 'NOT FOUND'}", flush=True)
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
