"""How many MIG instances find a place while they come and go.

    python -m tests.benchmarks mig --cells uniform:1.0,bimodal:1.0 --policies muster,fgd,mfi \
        --seeds 42-44 --requests 60000 --json FILE

Requests arrive as a Poisson process, run for exponential times, and are lost if they find no
place. Every policy sees the same requests, on GPUs that all begin idle. `fgd` is told the shares
of the profiles; Muster learns them. `unfragmented` is what one large GPU would accept that had the
slices of all and knew no positions (Kaufman, Roberts 1981): no bound in the strict sense, as a
policy may take small instances for large ones, but what is lost for want of slices alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from tests.benchmarks.baselines.mig_muster import MigMuster
from tests.benchmarks.baselines.mig_policies import (
    SIZES,
    SLICES,
    TablePolicy,
    best_fit_high,
    best_fit_low,
    first_fit,
    fragmentation_gradient,
    minimum_fragmentation,
    worst_fit,
)
from tests.benchmarks.options import machine, numbers

MIXES: Final = {
    "uniform": (1 / 6,) * 6,
    "small": (0.35, 0.20, 0.20, 0.12, 0.08, 0.05),
    "big": (0.05, 0.08, 0.12, 0.20, 0.20, 0.35),
    "bimodal": (0.30, 0.15, 0.05, 0.05, 0.15, 0.30),
}
"""Shares of 1g, 1g with double memory, 2g, 3g, 4g, 7g."""
COLUMNS: Final = ("ff", "rr", "bf-low", "bf-high", "wf", "mfi", "fgd")
EXPECTED: Final = {
    ("uniform", 0.85): "97.95/96.20 93.86/86.75 98.01/96.25 99.18/98.32 83.56/66.28 99.06/98.10 "
    "99.30/98.59",
    ("uniform", 1.0): "93.05/86.97 89.43/77.58 93.04/86.75 95.14/90.14 80.85/61.70 94.77/89.45 "
    "95.47/90.82",
    ("small", 1.0): "95.92/89.37 92.17/78.88 95.33/87.94 96.22/89.93 87.37/70.04 95.62/88.70 "
    "96.43/88.55",
    ("big", 1.0): "91.21/87.24 88.26/81.35 91.00/86.95 93.67/90.32 77.19/64.98 93.55/90.14 "
    "93.76/90.50",
    ("bimodal", 1.0): "91.61/85.06 86.86/74.19 93.30/87.43 94.31/88.88 70.36/47.16 94.10/88.54 "
    "94.70/89.62",
}
"""Acceptance / slice-weighted acceptance by column, of three other seeds."""


class Given(Protocol):
    """An instance that a policy gave."""

    @property
    def gpu(self) -> int:
        """Which GPU."""

    @property
    def mask(self) -> int:
        """Its slices."""


class Policy(Protocol):
    """A policy at work."""

    def place(self, profile: int) -> Given | None:
        """Take a position; None if there is none."""

    def release(self, given: Any) -> None:
        """Give it back."""


Make = Callable[[Sequence[float], int, int], Policy]
POLICIES: Final[dict[str, Make]] = {
    "muster": lambda _, gpus, seed: MigMuster(gpus, seed),
    "ff": lambda _, gpus, __: TablePolicy(first_fit, gpus),
    "rr": lambda _, gpus, __: TablePolicy(first_fit, gpus, round_robin=True),
    "bf-low": lambda _, gpus, __: TablePolicy(best_fit_low, gpus),
    "bf-high": lambda _, gpus, __: TablePolicy(best_fit_high, gpus),
    "wf": lambda _, gpus, __: TablePolicy(worst_fit, gpus),
    "mfi": lambda _, gpus, __: TablePolicy(minimum_fragmentation, gpus),
    "fgd": lambda shares, gpus, _: TablePolicy(fragmentation_gradient(shares), gpus),
}


class Request(NamedTuple):
    """One arrival; times in mean service times."""

    at: float
    profile: int
    until: float


class Cell(NamedTuple):
    """A mix of profiles at a load: slices asked for at a time, by the slices there are."""

    mix: str
    load: float


def requests_of(cell: Cell, gpus: int, count: int, seed: int) -> list[Request]:
    """The arrivals of one run."""
    draw = np.random.default_rng(seed)
    shares = np.array(MIXES[cell.mix])
    rate = cell.load * gpus * SLICES / float(shares @ np.array(SIZES))
    at = np.cumsum(draw.exponential(1 / rate, count))
    profiles = draw.choice(len(SIZES), count, p=shares)
    until = at + draw.exponential(1.0, count)
    return list(map(Request, at.tolist(), profiles.tolist(), until.tolist()))


def run(policy: str, cell: Cell, gpus: int, count: int, seed: int) -> tuple[float, float]:
    """(percent of requests accepted, percent of slices)."""
    asked = accepted = slices = 0
    for request, given in _played(policy, cell, gpus, count, seed):
        size = SIZES[request.profile]
        asked += size
        if given:
            accepted += 1
            slices += size
    return 100 * accepted / count, 100 * slices / asked


def _played(
    policy: str, cell: Cell, gpus: int, count: int, seed: int
) -> Iterator[tuple[Request, bool]]:
    """Each request, and whether it was given a place; a policy that cheats is found out."""
    placer = POLICIES[policy](MIXES[cell.mix], gpus, seed)
    busy = [0] * gpus
    running: list[tuple[float, int, Given]] = []
    for number, request in enumerate(requests_of(cell, gpus, count, seed)):
        while running and running[0][0] <= request.at:
            _, _, gone = heappop(running)
            placer.release(gone)
            busy[gone.gpu] ^= gone.mask
        given = placer.place(request.profile)
        if given is not None:
            assert given.mask.bit_count() == SIZES[request.profile]
            assert not busy[given.gpu] & given.mask
            busy[given.gpu] |= given.mask
            heappush(running, (request.until, number, given))
        yield request, given is not None


def unfragmented(cell: Cell, gpus: int) -> tuple[float, float]:
    """The two percentages on one pool of slices without positions."""
    slices = gpus * SLICES
    shares = MIXES[cell.mix]
    mean = sum(share * size for share, size in zip(shares, SIZES, strict=True))
    erlang = [cell.load * slices * share / mean for share in shares]
    chance = [1.0]
    for used in range(1, slices + 1):
        terms = zip(erlang, SIZES, strict=True)
        chance.append(
            sum(a * size * chance[used - size] for a, size in terms if size <= used) / used
        )
    total = sum(chance)
    taken = [1 - sum(chance[slices - size + 1 :]) / total for size in SIZES]
    by_count = sum(share * each for share, each in zip(shares, taken, strict=True))
    parts = zip(shares, SIZES, taken, strict=True)
    return 100 * by_count, 100 * sum(share * size * each for share, size, each in parts) / mean


def expected(cell: Cell) -> dict[str, tuple[float, float]]:
    """The row of the table for `cell`, by column; empty where it has none."""
    row = EXPECTED.get(cell)
    if row is None:
        return {}
    pairs = [tuple(map(float, pair.split("/"))) for pair in row.split()]
    return {name: (pair[0], pair[1]) for name, pair in zip(COLUMNS, pairs, strict=True)}


# ── the command ──────────────────────────────────────────────────────────────


def main() -> None:
    """Run the cells and policies asked for, print a line for each."""
    options = _options()
    seeds = numbers(options.seeds)
    cells = {}
    for cell in options.cells:
        print(f"{cell.mix} at load {cell.load}: acceptance % (slice-weighted %), sd", flush=True)
        rows = {name: _measure(name, cell, options, seeds) for name in options.policies}
        cells[f"{cell.mix}:{cell.load}"] = _judged(cell, rows, options.gpus)
    result = {
        "cells": cells,
        "passed": all(cell["passed"] for cell in cells.values()),
        "least_to_table": _least(cells, "muster_to_table"),
        "least_to_mfi": _least(cells, "muster_to_mfi"),
        "seeds": seeds,
        "gpus": options.gpus,
        "requests": options.requests,
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _options() -> argparse.Namespace:
    every = ",".join(f"{mix}:{load}" for load in (0.85, 1.0) for mix in MIXES)
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks mig --cells uniform:1.0 --json mig.json",
    )
    parser.add_argument("--cells", help=f"MIX:LOAD,...; all of {every}")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--seeds", help="such as 42-44, or 1,5,9; 42-44 unless told")
    parser.add_argument("--requests", type=int, help="of each run; 60,000 unless told")
    parser.add_argument("--gpus", type=int, default=100)
    parser.add_argument(
        "--short", action="store_true", help="the cells of the table, one seed, 20,000 requests"
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = ",".join(f"{mix}:{load}" for mix, load in EXPECTED)
    options.cells = _cells(options.cells or (table if options.short else every))
    options.policies = options.policies.split(",")
    options.seeds = options.seeds or ("42" if options.short else "42-44")
    options.requests = options.requests or (20_000 if options.short else 60_000)
    return options


def _cells(text: str) -> list[Cell]:
    pairs = (part.partition(":") for part in text.split(","))
    return [Cell(mix, float(load)) for mix, _, load in pairs]


def _measure(
    name: str, cell: Cell, options: argparse.Namespace, seeds: Sequence[int]
) -> dict[str, float]:
    start = time.process_time()
    runs = [run(name, cell, options.gpus, options.requests, seed) for seed in seeds]
    seconds = time.process_time() - start
    counts, slices = zip(*runs, strict=True)
    row = {
        "acceptance_percent": round(statistics.fmean(counts), 3),
        "slice_acceptance_percent": round(statistics.fmean(slices), 3),
        "sd": round(statistics.stdev(counts), 3) if seeds[1:] else 0.0,
        "slice_sd": round(statistics.stdev(slices), 3) if seeds[1:] else 0.0,
        "microseconds_per_request": round(1e6 * seconds / len(seeds) / options.requests, 1),
    }
    known = expected(cell).get(name)
    print(
        f"  {name:<8} {row['acceptance_percent']:6.2f} ({row['slice_acceptance_percent']:.2f})"
        f"  sd {row['sd']:.2f} ({row['slice_sd']:.2f})  {row['microseconds_per_request']} us"
        + (f"  table {known[0]} ({known[1]})" if known else ""),
        flush=True,
    )
    return row


def _judged(cell: Cell, rows: dict[str, dict[str, float]], gpus: int) -> dict[str, Any]:
    """The rows of a cell with the table, and how Muster stands to both."""
    table = expected(cell)
    whole = unfragmented(cell, gpus)
    best = [max((row[at] for row in table.values()), default=0.0) for at in (0, 1)]
    muster, mfi = _pair(rows.get("muster")), _pair(rows.get("mfi"))
    to_table = [round(mine - other, 3) for mine, other in zip(muster, best, strict=True)]
    to_mfi = [round(mine - other, 3) for mine, other in zip(muster, mfi, strict=True)]
    passed = all(each > 0 for each in to_mfi) and (not table or min(to_table) >= -0.1)
    print(
        f"  unfragmented {whole[0]:.2f} ({whole[1]:.2f});  muster to the table's best "
        f"{to_table if table else '-'}, to mfi {to_mfi}: {'passed' if passed else 'missed'}"
    )
    return {
        "policies": rows,
        "table": {name: list(pair) for name, pair in table.items()},
        "unfragmented_percent": [round(each, 3) for each in whole],
        "muster_to_table": to_table if table else None,
        "muster_to_mfi": to_mfi,
        "passed": passed,
    }


def _least(cells: dict[str, dict[str, Any]], name: str) -> float | None:
    """The smallest difference over all cells and both percentages."""
    return min((each for cell in cells.values() for each in cell[name] or ()), default=None)


def _pair(row: dict[str, float] | None) -> tuple[float, float]:
    if row is None:
        return 0.0, 0.0
    return row["acceptance_percent"], row["slice_acceptance_percent"]


if __name__ == "__main__":
    main()
