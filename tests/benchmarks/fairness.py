"""Does everybody get what he owns at once, and what is lent by weight?

    python -m tests.benchmarks fairness --seeds 1-3 --json FILE

A week of Philly in a tree of three levels, 20 teams (tests/benchmarks/fairness_world.py), by the
real core in virtual time beside two orders without quota of one's own: first come first served
over the cohort, and dominant resource fairness of the moment.
- owed: work that fits within the nominal quota of its team when it is first tried. `owed_wait` is
  from then until its pods run: at most one decision, the grace and the minimum run time that the
  victims have left. `shortfall` is the integral of what waits and would be within nominal.
- ideal: at every moment what all teams could use, by what each has and asks for then, is poured
  over departments and teams by weight until it is used up (weighted max-min on two levels, without
  fragmentation, delays or losses). `jain` is Jain's index of what each team used above its nominal
  quota, as a part of what it would ideally have, over teams to whom the ideal gives at least 1 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.fairness_run import EPOCH_MS, GRACE_MS, MIN_RUNTIME_MS, POLICIES, Run, Tally
from tests.benchmarks.fairness_world import (
    GPUS,
    World,
    load_machines,
    load_rows,
    make,
)
from tests.benchmarks.options import data_folder, machine, numbers

LOOKED_AT: Final = 200
"""Waiting jobs of a team, the first ones, that the shortfall looks at."""


def watch(run: Run, interval_ms: int) -> None:
    """Count an interval in which nothing changes."""
    if interval_ms <= 0:
        return
    tally, wants = run.tally, {}
    for team in run.world.teams:
        name, used = team.name, run.running[team.name]
        waits = run.waiting[name].values()
        wants[name] = used + sum(one.job.gpus for one in waits)
        owed, room = 0, team.nominal - used
        for number, one in enumerate(waits):
            if room <= 0 or number == LOOKED_AT:
                break
            if one.job.gpus <= room:
                owed, room = owed + one.job.gpus, room - one.job.gpus
        tally.short += owed * interval_ms
        tally.entitled += (min(used, team.nominal) + owed) * interval_ms
        tally.used[name] = tally.used.get(name, 0) + used * interval_ms
        surplus = max(0, used - team.nominal)
        tally.surplus[name] = tally.surplus.get(name, 0) + surplus * interval_ms
    for name, gpus in ideal_surplus(run.world, wants).items():
        tally.ideal[name] = tally.ideal.get(name, 0.0) + gpus * interval_ms


def ideal_surplus(world: World, wants: Mapping[str, int]) -> dict[str, float]:
    """What each team would have above its nominal quota."""
    owned = dict.fromkeys(world.departments, 0)
    asked = dict.fromkeys(world.departments, 0)
    for team in world.teams:
        owned[team.department] += team.nominal
        asked[team.department] += wants[team.name]
    base = {name: min(owned[name], asked[name]) for name in owned}
    more = {name: asked[name] - base[name] for name in owned}
    spare = world.nodes * GPUS - sum(base.values())
    extra = pour(spare, more, world.departments)
    found: dict[str, float] = {}
    for name in owned:
        teams = [one for one in world.teams if one.department == name]
        own = {one.name: min(one.nominal, wants[one.name]) for one in teams}
        left = base[name] + extra[name] - sum(own.values())
        beyond = {one.name: wants[one.name] - own[one.name] for one in teams}
        found |= pour(left, beyond, {one.name: one.weight for one in teams})
    return found


def pour(amount: float, wants: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, float]:
    """`amount` by weight, nobody more than he wants."""
    got, weight_left = {}, sum(weights[name] for name in wants)
    for name in sorted(wants, key=lambda one: wants[one] / weights[one]):
        got[name] = min(float(wants[name]), amount * weights[name] / weight_left)
        amount, weight_left = amount - got[name], weight_left - weights[name]
    return got


def figures(tally: Tally, world: World, days: float) -> dict[str, float]:
    """What is told of one run."""
    hour = 3_600_000
    whole = sum(tally.ideal.values())
    parts = [
        tally.surplus[name] / ideal for name, ideal in tally.ideal.items() if ideal > 0.01 * whole
    ]
    owed = sorted(tally.owed_waits) or [0]
    bound = (GRACE_MS + MIN_RUNTIME_MS) / 1000
    return {
        "jain": sum(parts) ** 2 / (len(parts) * sum(part * part for part in parts)),
        "teams_compared": len(parts),
        "shortfall_gpu_hours": tally.short / hour,
        "shortfall_percent": 100 * tally.short / max(tally.entitled, 1),
        "owed_wait_p99_s": owed[int(0.99 * (len(owed) - 1))] / 1000,
        "owed_wait_max_s": owed[-1] / 1000,
        "owed_beyond_bound": sum(one > 1000 * bound for one in owed),
        "owed": len(owed),
        "wait_mean_s": statistics.fmean(tally.waits) / 1000,
        "used_percent": 100 * sum(tally.used.values()) / (world.nodes * GPUS * days * 86_400_000),
        "evictions": tally.evictions,
        "lost_percent": 100 * tally.lost / max(sum(tally.used.values()), 1),
    }


def measure(worlds: Sequence[World], policy: str, days: float) -> dict[str, Any]:
    """One policy over all worlds: means and deviations."""
    begin = time.process_time()
    rows = []
    for seed, world in enumerate(worlds):
        run = Run(world, POLICIES[policy], seed)
        rows.append(figures(run.play(EPOCH_MS + int(days * 86_400_000), watch), world, days))
    return {
        "mean": {name: round(statistics.fmean(row[name] for row in rows), 4) for name in rows[0]},
        "sd": {name: round(statistics.pstdev(row[name] for row in rows), 4) for name in rows[0]},
        "each": rows,
        "cpu_seconds": round(time.process_time() - begin, 1),
    }


def main() -> None:
    """Measure, print, write JSON."""
    options = _options()
    rows, machines = load_rows(options.jobs), load_machines(options.clusters)
    worlds = [make(rows, machines, seed, load=options.load) for seed in options.seeds]
    bound = (GRACE_MS + MIN_RUNTIME_MS) / 1000
    result: dict[str, Any] = {
        "policies": {},
        "seeds": options.seeds,
        "days": options.days,
        "load": options.load,
        "gpus": [world.nodes * GPUS for world in worlds],
        "bound": {"jain": 1.0, "owed_wait_s": bound},
        **machine(),
    }
    for policy in options.policies.split(","):
        found = result["policies"][policy] = measure(worlds, policy, options.days)
        print(f"{policy}: {json.dumps(found['mean'])}, {found['cpu_seconds']} s", flush=True)
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
    parser.add_argument("--seeds", default="1-3", help="such as 1-3, or 1,5,9")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--short", action="store_true", help="one seed, two days, two policies")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.seeds, options.days, options.policies = "1", 2.0, "muster,fifo"
    options.seeds = numbers(options.seeds)
    return options


if __name__ == "__main__":
    main()
