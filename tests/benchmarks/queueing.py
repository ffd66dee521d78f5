"""How long gangs and small work wait for nodes that are nearly full.

    python -m tests.benchmarks queueing --seeds 1-8,1000-1015 --over-estimates 1,5 --json FILE

Every policy sees the same work (tests/benchmarks/queueing_world.py) and what its users expect of
it: the truth times a factor between 1 and each of `--over-estimates`. `muster` is the placement
service's own handler, driven in virtual time (tests/benchmarks/baselines/muster_queue.py).
Figures are means over seeds; ratios are of those means, to greedy skip of the same run. No rule
in force was chosen by seeds from 1000 on. A seed takes two minutes for each kind of estimates.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.baselines.muster_queue import MusterQueue
from tests.benchmarks.baselines.queueing import Easy, Fifo, GreedySkip
from tests.benchmarks.options import data_folder, machine, numbers
from tests.benchmarks.queueing_world import Recipe, Scheduler, World, make, run

POLICIES: dict[str, Callable[[World], Scheduler]] = {
    "fifo": Fifo,
    "greedy-skip": GreedySkip,
    "easy": Easy,
    "muster": MusterQueue,
}
BASE = "greedy-skip"
DRAWS = 10_000
Figures = Mapping[str, float]


def measure(policy: str, worlds: Sequence[World]) -> dict[str, Any]:
    """Means and standard deviations over the worlds, and each of them."""
    start = time.process_time()
    rows = [run(world, POLICIES[policy](world)).figures() for world in worlds]
    return {
        "mean": {name: round(statistics.fmean(row[name] for row in rows), 2) for name in rows[0]},
        "sd": {
            name: round(statistics.stdev([row[name] for row in rows]), 2) if rows[1:] else 0.0
            for name in rows[0]
        },
        "by_seed": [{name: round(value, 2) for name, value in row.items()} for row in rows],
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def compare(row: dict[str, Any], base_row: dict[str, Any]) -> dict[str, float]:
    """What is asked of a policy, against greedy skip, and how far chance of seeds may move it."""
    mean, base = row["mean"], base_row["mean"]
    low, high = _resampled(row["by_seed"], base_row["by_seed"])
    return {
        "big_wait_p99_ratio": round(mean["big_wait_p99_s"] / max(base["big_wait_p99_s"], 1), 3),
        "big_wait_p99_ratio_low": low,
        "big_wait_p99_ratio_high": high,
        "utilisation_points": round(mean["utilisation_percent"] - base["utilisation_percent"], 2),
    }


def _resampled(rows: Sequence[Figures], base_rows: Sequence[Figures]) -> tuple[float, float]:
    """Between what 95 % of the ratios lie if seeds are drawn again with replacement, in pairs."""
    own, base = [np.array([one["big_wait_p99_s"] for one in each]) for each in (rows, base_rows)]
    drawn = np.random.default_rng(0).integers(len(own), size=(DRAWS, len(own)))
    ratios = own[drawn].mean(axis=1) / np.maximum(base[drawn].mean(axis=1), 1)
    low, high = np.percentile(ratios, (2.5, 97.5))
    return round(float(low), 3), round(float(high), 3)


def main() -> None:
    """Run the policies asked for, print a line for each."""
    options = _options()
    seeds = numbers(options.seeds)
    recipe = Recipe(
        small=options.small,
        gangs=options.gangs,
        nodes=options.nodes,
        days=options.days,
        small_count=options.small_count,
        gang_count=options.gang_count,
        load=options.load,
    )
    estimates: dict[str, Any] = {}
    for over in options.over_estimates.split(","):
        worlds = [make(recipe, seed, float(over)) for seed in seeds]
        rows: dict[str, Any] = {}
        for name in options.policies.split(","):
            rows[name] = measure(name, worlds)
            rows[name]["against_greedy_skip"] = compare(rows[name], rows.get(BASE, rows[name]))
            _print(f"x1-{over} {name}", rows[name])
        estimates[over] = {"policies": rows}
    result = {
        "over_estimates": estimates,
        "seeds": seeds,
        "nodes": options.nodes,
        "days": options.days,
        "small_count": options.small_count,
        "gang_count": options.gang_count,
        "load": options.load,
        "bound": {"utilisation_percent": round(100 * options.load, 2), "small_wait_mean_s": 0},
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _options() -> argparse.Namespace:
    data = data_folder()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", type=Path, default=data / "philly/sia_philly.csv.gz")
    parser.add_argument("--gangs", type=Path, default=data / "acme/converted_kalos_trace.csv")
    parser.add_argument("--nodes", type=int, default=256, help="of 8 GPUs each")
    parser.add_argument("--days", type=float, default=14.0)
    parser.add_argument("--small-count", type=int, default=20_000)
    parser.add_argument("--gang-count", type=int, default=600)
    parser.add_argument("--load", type=float, default=0.95, help="GPU time offered over capacity")
    parser.add_argument("--seeds", default="1-8,1000-1015", help="such as 1-3, or 1,5,9")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--over-estimates", default="1,5", help="1 means that users are right")
    parser.add_argument("--short", action="store_true", help="seed 1, 4 days")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.seeds, options.days = "1", 4.0
        options.small_count, options.gang_count = 5_700, 170
    return options


def _print(label: str, row: dict[str, Any]) -> None:
    mean, ratio = row["mean"], row["against_greedy_skip"]
    figures = " ".join(f"{name} {value:.0f}" for name, value in mean.items())
    print(
        f"{label:<18} {figures}  p99 x{ratio['big_wait_p99_ratio']:.2f}"
        f" ({ratio['big_wait_p99_ratio_low']:.2f} to {ratio['big_wait_p99_ratio_high']:.2f})"
        f" {ratio['utilisation_points']:+.1f} points  {row['cpu_seconds']} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
