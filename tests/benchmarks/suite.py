"""`make bench`: the short form of every benchmark of the core, held against `ranges.toml`.

Each runs in a process of its own and writes its JSON into a folder; then every figure of
`ranges.toml` is looked up there. A figure outside its range, or missing, ends with exit code 1.
The ranges are those of the short form on any machine: what is decided, not how fast this one is.

    python -m tests.benchmarks suite --only packing,mig --into /tmp/figures
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

RANGES: Final = Path(__file__).with_name("ranges.toml")
SECONDS_MAX: Final = 300
"""Of one benchmark: all together should stay under ten minutes."""
SIDE_BY_SIDE: Final = ("fairness", "queueing", "robustness", "packing", "mig", "topology")
"""No clock decides what they print, so as many run at once as there are processors; the longest
come first. The others run alone, after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number in the JSON of a benchmark, and where it must lie in the short form."""

    benchmark: str
    path: str
    """Keys joined by "/": `policies/muster/allocation_percent/130`."""
    title: str
    wanted: str = ""
    """What the full form must reach, for the table of docs/benchmarks."""
    headline: bool = False
    """Whether the README shows it, too."""
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    beside: dict[str, str]
    """Baselines of the same run by name, as paths."""

    def holds(self, value: float | None) -> bool:
        """Whether the value is there and in range."""
        if value is None:
            return False
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    @property
    def range(self) -> str:
        """The range in words."""
        parts = [(self.at_least, ">="), (self.at_most, "<=")]
        return " ".join(f"{sign} {bound:g}" for bound, sign in parts if bound is not None)


def load_ranges(path: Path = RANGES) -> tuple[dict[str, list[str]], list[Figure]]:
    """Arguments of each benchmark's short form, and the figures to look at."""
    document = tomllib.loads(path.read_text())
    figures = [Figure(**{"beside": {}, **one}) for one in document["figure"]]
    return document["short"], figures


def load_full(path: Path = RANGES) -> list[Figure]:
    """Figures of full runs alone, which need more than the core: no short form is run of these."""
    found = tomllib.loads(path.read_text())["full"]
    return [Figure(**{"beside": {}, **one}) for one in found]


def look_up(document: Any, path: str) -> float | None:  # any JSON
    """The number at `path`; None if there is none."""
    for key in path.split("/"):
        if isinstance(document, list) and key.lstrip("-").isdigit():
            document = document[int(key)] if int(key) < len(document) else None
        else:
            document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, int | float) else None


def run_all(short: Mapping[str, Sequence[str]], into: Path) -> int:
    """Run these benchmarks with their arguments; how many failed."""
    together = [name for name in SIDE_BY_SIDE if name in short]
    alone = [name for name in short if name not in SIDE_BY_SIDE]
    with ThreadPoolExecutor(os.cpu_count()) as lanes:
        ended_well = list(lanes.map(lambda name: run(name, short[name], into), together))
    ended_well += [run(name, short[name], into) for name in alone]
    return ended_well.count(False)


def run(name: str, arguments: Sequence[str], into: Path) -> bool:
    """Run one benchmark; whether it ended well. Its last lines are shown if it failed."""
    (into / f"{name}.json").unlink(missing_ok=True)
    print(f"{name:<11} {' '.join(arguments)} ...", flush=True)
    begin = time.monotonic()
    command = [sys.executable, "-m", "tests.benchmarks", name, *arguments]
    done = subprocess.run(  # our own modules
        [*command, "--json", str(into / f"{name}.json")],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        print(f"{name} failed with exit code {done.returncode}:\n{done.stderr[-2000:]}")
    print(f"{name:<11} {time.monotonic() - begin:.0f} s", flush=True)
    return done.returncode == 0


def report(figures: Sequence[Figure], into: Path) -> int:
    """Print every figure beside its range; how many do not hold."""
    broken = 0
    for figure in figures:
        path = into / f"{figure.benchmark}.json"
        value = look_up(json.loads(path.read_text()), figure.path) if path.exists() else None
        holds = figure.holds(value)
        broken += not holds
        shown = "missing" if value is None else f"{value:g}"
        verdict = "ok" if holds else "OUT OF RANGE"
        where = f"{figure.benchmark:<11} {figure.title:<58}"
        print(f"{where} {shown:>10}  {figure.range:<12} {verdict}")
    return broken


def main() -> None:
    """Run what was asked for and compare."""
    short, figures = load_ranges()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(short), help="names, such as packing,mig")
    parser.add_argument("--into", type=Path, default=Path(".muster/benchmarks"))
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := [one for one in names if one not in short]:
        parser.error(f"--only: {', '.join(unknown)} is none of {', '.join(short)}")
    options.into.mkdir(parents=True, exist_ok=True)
    failed = run_all({name: short[name] for name in names}, options.into)
    broken = report([one for one in figures if one.benchmark in names], options.into)
    if failed or broken:
        sys.exit(f"{failed} benchmarks failed, {broken} figures are out of range")


if __name__ == "__main__":
    main()
