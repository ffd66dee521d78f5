"""Does everybody get what he owns at once, and what is lent by weight?

    python -m tests.benchmarks fairness --seeds 1-5 --json FILE

A week of Philly in a tree of three levels, 20 teams (tests/benchmarks/fairness_world.py), by the
real core in virtual time (fairness_run.py) beside other orders and rules: what is measured, by
which definitions and sources, tests/benchmarks/fairness_measure.py says. The window is one
half-life of the core's use over time, seven days: all of the run. The index hangs on teams just
above its threshold: `--ties 3` runs each seed with three orders of equal nodes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from shared.core.quota.usage_history import HALF_LIFE_MS
from tests.benchmarks.fairness_documents import MIN_RUNTIME_MS
from tests.benchmarks.fairness_measure import LEAST_PART, Measure, jain, parts_of
from tests.benchmarks.fairness_policies import POLICIES
from tests.benchmarks.fairness_run import EPOCH_MS, GRACE_MS, Run
from tests.benchmarks.fairness_world import (
    GPUS,
    World,
    load_machines,
    load_rows,
    make,
)
from tests.benchmarks.options import data_folder, machine, numbers

BOUND_MS: Final = GRACE_MS + MIN_RUNTIME_MS
"""Owed work waits no longer, beside the decision."""
DAY_MS: Final = 86_400_000
HOUR_MS: Final = 3_600_000


def figures(run: Run, found: Measure, days: float) -> dict[str, float]:
    """What is told of one run."""
    owed = sorted(ms for ms, _ in run.spells) or [0]
    used = sum(found.used.values())
    return {
        **fairness(run, found),
        "shortfall_gpu_hours": found.short / HOUR_MS,
        "shortfall_percent": 100 * found.short / max(found.entitled, 1),
        "fragmented_gpu_hours": found.fragmented / HOUR_MS,
        "owed_wait_p99_s": owed[int(0.99 * (len(owed) - 1))] / 1000,
        "owed_wait_max_s": owed[-1] / 1000,
        "owed_beyond_bound": sum(one > BOUND_MS for one in owed),
        "owed": len(owed),
        "wait_mean_s": statistics.fmean(run.waits_ms) / 1000,
        "used_percent": 100 * used / (run.world.nodes * GPUS * days * DAY_MS),
        "evictions": run.evictions,
        "moves": run.moves,
        "lost_percent": 100 * run.lost_gpu_ms / max(used, 1),
    }


def fairness(run: Run, found: Measure) -> dict[str, float]:
    """Jain's index over one half-life, and the same looked at in other ways."""
    half_life = [jain(parts_of(*one).values()) for one in found.windows(HALF_LIFE_MS)]
    by_day = [jain(parts_of(*one).values()) for one in found.windows(DAY_MS)]
    weights = {team.name: team.weight for team in run.world.teams}
    parts = parts_of(found.surplus, found.ideal)
    return {
        "jain": statistics.fmean(half_life),
        "jain_worst_window": min(half_life),
        "jain_all": jain(parts_of(found.surplus, found.ideal, LEAST_PART / 10).values()),
        "jain_contended": jain(parts_of(*found.contended).values()),
        "jain_plain": jain(found.surplus[one] / weights[one] for one in sorted(found.unmet)),
        "jain_day_mean": statistics.fmean(by_day),
        "jain_day_worst": min(by_day),
        "teams_compared": len(parts),
        "part_least": min(parts.values()),
        "part_most": max(parts.values()),
    }


def measure(worlds: Sequence[World], policy: str, days: float, ties: int) -> dict[str, Any]:
    """One policy over all worlds, each with so many orders of equal nodes: means, deviations."""
    begin = time.process_time()
    rows, late = [], Counter[str]()
    runs = [(world, first + tie) for first, world in enumerate(worlds) for tie in range(ties)]
    for world, tie in runs:
        run, found = Run(world, POLICIES[policy], tie), Measure()
        run.play(EPOCH_MS + int(days * DAY_MS), found.watch)
        rows.append(figures(run, found, days))
        late.update(why for ms, why in run.spells if ms > BOUND_MS)
    return {
        "mean": {name: round(statistics.fmean(row[name] for row in rows), 4) for name in rows[0]},
        "sd": {name: round(statistics.pstdev(row[name] for row in rows), 4) for name in rows[0]},
        "late_by_cause": dict(sorted(late.items())),
        "each": rows,
        "cpu_seconds": round(time.process_time() - begin, 1),
    }


def main() -> None:
    """Measure, print, write JSON."""
    options = _options()
    rows, machines = load_rows(options.jobs), load_machines(options.clusters)
    worlds = [make(rows, machines, seed, load=options.load) for seed in options.seeds]
    result: dict[str, Any] = {
        "policies": {},
        "seeds": options.seeds,
        "days": options.days,
        "load": options.load,
        "gpus": [world.nodes * GPUS for world in worlds],
        "bound": {"jain": 1.0, "owed_wait_s": BOUND_MS / 1000},
        **machine(),
    }
    if options.resume and options.json and options.json.exists():
        result["policies"] = json.loads(options.json.read_text())["policies"]
    for policy in options.policies.split(","):
        found = measure(worlds, policy, options.days, options.ties)
        result["policies"][policy] = found | {"seeds": options.seeds, "ties": options.ties}
        late = f"late by cause: {json.dumps(found['late_by_cause'])}"
        print(
            f"{policy}: {json.dumps(found['mean'])}, {late}, {found['cpu_seconds']} s", flush=True
        )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def _options() -> argparse.Namespace:
    data = data_folder() / "philly"
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks fairness --seeds 1 --days 2 --policies muster",
    )
    parser.add_argument("--jobs", type=Path, default=data / "sia_philly.csv.gz")
    parser.add_argument("--clusters", type=Path, default=data / "philly_vc.csv")
    parser.add_argument("--load", type=float, default=1.2, help="GPU time offered over capacity")
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--seeds", default="1-5", help="such as 1-3, or 1,5,9")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument(
        "--ties", type=int, default=1, help="runs of each seed, with other orders of equal nodes"
    )
    parser.add_argument(
        "--short", action="store_true", help="one seed, half of the week, two policies"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--resume", action="store_true", help="keep other policies of the JSON")
    options = parser.parse_args()
    if options.short:
        options.seeds, options.days, options.policies = "1", 3.5, "muster,fifo"
    options.seeds = numbers(options.seeds)
    return options


if __name__ == "__main__":
    main()
