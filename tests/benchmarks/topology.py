"""How compact gangs lie on a real fabric, and what that costs in accepted work.

    python -m tests.benchmarks topology --loads 0.80,0.95 --seeds 1-10 --json FILE

Every policy sees the same jobs on the same hosts (tests/benchmarks/clos.py). A job that finds no
place is refused and gone. Figures are means over seeds, after a warm-up:
- leaf span: leaves that a gang of two hosts or more touches, over the fewest that an empty fabric
  would need; mean over gangs;
- one pod: gangs within one PSW pod, percent of those placed (each fits an empty pod); beside it
  those for which one pod had enough whole hosts when they came: no choice for that gang does
  better, only what was placed before it;
- acceptance: GPU time placed, percent of GPU time asked for;
- spread (gangs with a shape: tensor parallel in the host, pipelines of consecutive ranks): most
  leaves that one pipeline, or one data-parallel group, of a gang spans; mean over gangs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Protocol

from tests.benchmarks.baselines.fabric import (
    Arrays,
    any_whole,
    best_fit,
    hierarchical,
    random_rules,
)
from tests.benchmarks.baselines.muster_fabric import MusterFabric
from tests.benchmarks.clos import (
    GPUS,
    Host,
    Job,
    LeavesNeeded,
    arrivals,
    load_gangs,
    load_hosts,
    load_small,
    spread,
)
from tests.benchmarks.options import data_folder, machine, numbers

DAY = 86_400
FIGURES = (
    "leaf_span_over_minimum",
    "one_pod_percent",
    "one_pod_had_room_percent",
    "acceptance_percent",
    "gang_acceptance_percent",
    "pipeline_spread",
    "data_spread",
)


class Placer(Protocol):
    """A policy at work."""

    def place(self, job: Job) -> Sequence[int] | None:
        """The host of each pod by rank, charged already; or None, and nothing changed."""

    def release(self, job: Job, held: Sequence[int]) -> None:
        """Give back what `place` gave."""


Make = Callable[[Sequence[Host], int], Placer]

POLICIES: dict[str, Make] = {
    "muster": MusterFabric,
    "muster-shaped": partial(MusterFabric, shaped=True),
    "hierarchical": lambda hosts, seed: Arrays(hosts, seed, best_fit, hierarchical),
    "blind": lambda hosts, seed: Arrays(hosts, seed, best_fit, any_whole),
    "random": lambda hosts, seed: Arrays(hosts, seed, *random_rules(seed)),
}


@dataclass
class Tally:
    """What one run saw after its warm-up."""

    hosts: Sequence[Host]
    needed: LeavesNeeded
    asked: float = 0
    placed: float = 0
    gangs_asked: float = 0
    gangs_placed: float = 0
    spans: list[float] = field(default_factory=list)
    one_pod: list[bool] = field(default_factory=list)
    had_room: list[bool] = field(default_factory=list)
    pipelines: list[int] = field(default_factory=list)
    replicas: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing runs."""
        self._gpus_used = [0] * len(self.hosts)

    def hold(self, held: Sequence[int], gpus: int) -> None:
        """Count `gpus` of each of these hosts as used; below 0, as given back."""
        for at in held:
            self._gpus_used[at] += gpus

    def room_in_one_pod(self, job: Job) -> bool:
        """Whether some pod has as many whole hosts as the gang needs."""
        used = zip(self.hosts, self._gpus_used, strict=True)
        return (
            max(Counter(host.pod for host, gpus in used if not gpus).values(), default=0)
            >= job.hosts
        )

    def note(self, job: Job, held: Sequence[int] | None, *, had_room: bool) -> None:
        """Count one decision."""
        work = job.all_gpus * job.seconds
        self.asked += work
        self.gangs_asked += work * (job.hosts > 1)
        if held is None:
            return
        self.placed += work
        if job.hosts > 1:
            self.gangs_placed += work
            self.had_room.append(had_room)
            self._note_gang(job, [self.hosts[at] for at in held])

    def _note_gang(self, job: Job, held: Sequence[Host]) -> None:
        leaves = [host.leaf for host in held]
        self.spans.append(len(set(leaves)) / self.needed(job.hosts))
        self.one_pod.append(len({host.pod for host in held}) == 1)
        pipeline, data = spread(leaves, job.stages)
        self.pipelines.append(pipeline)
        self.replicas.append(data)

    def figures(self) -> dict[str, float]:
        """By the names of `FIGURES`."""
        values = (
            statistics.fmean(self.spans),
            100 * statistics.fmean(self.one_pod),
            100 * statistics.fmean(self.had_room),
            100 * self.placed / self.asked,
            100 * self.gangs_placed / self.gangs_asked,
            statistics.fmean(self.pipelines),
            statistics.fmean(self.replicas),
        )
        return dict(zip(FIGURES, values, strict=True))


def run(placer: Placer, jobs: Sequence[Job], tally: Tally, warm_up: float) -> None:
    """Let `jobs` arrive and end."""
    ends: list[tuple[float, int]] = []
    held: dict[int, Sequence[int]] = {}
    for number, job in enumerate(jobs):
        while ends and ends[0][0] <= job.arrives:
            ended = heappop(ends)[1]
            tally.hold(held[ended], -jobs[ended].gpus)
            placer.release(jobs[ended], held.pop(ended))
        had_room = job.hosts > 1 and tally.room_in_one_pod(job)
        found = placer.place(job)
        if found is not None:
            tally.hold(found, job.gpus)
            held[number] = found
            heappush(ends, (job.arrives + job.seconds, number))
        if job.arrives >= warm_up:
            tally.note(job, found, had_room=had_room)


def measure(policy: str, options: argparse.Namespace, load: float) -> dict[str, object]:
    """Means and standard deviations over the seeds."""
    hosts = load_hosts(options.fabric)
    small, gangs = load_small(options.small), load_gangs(options.gangs)
    start, runs = time.process_time(), []
    for seed in numbers(options.seeds):
        offered = load * GPUS * len(hosts)
        jobs = arrivals(small, gangs, offered, options.days * DAY, seed)
        tally = Tally(hosts, LeavesNeeded(hosts))
        run(POLICIES[policy](hosts, seed), jobs, tally, options.warm_up_days * DAY)
        runs.append(tally.figures() | {"jobs": len(jobs), "gangs": len(tally.spans)})
    return {
        "load": load,
        "mean": {name: round(statistics.fmean(one[name] for one in runs), 3) for name in runs[0]},
        "sd": {
            name: round(statistics.stdev([one[name] for one in runs]), 3) if runs[1:] else 0.0
            for name in runs[0]
        },
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def main() -> None:
    """Run the policies asked for, print a line for each load and policy."""
    options = _options()
    rows: dict[str, dict[str, dict[str, object]]] = {}
    print(f"{'load policy':<20} {' '.join(f'{name:>24}' for name in FIGURES)}")
    for load in map(float, options.loads.split(",")):
        for name in options.policies.split(","):
            row = measure(name, options, load)
            rows.setdefault(name, {})[f"{load:.2f}"] = row
            _print(f"{load:.2f} {name}", row)
    result = {
        "policies": rows,
        "seeds": numbers(options.seeds),
        "bound": {"leaf_span_over_minimum": 1.0, "one_pod_percent": 100.0},
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _options() -> argparse.Namespace:
    data = data_folder()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fabric", type=Path, default=data / "alibaba-lingjun-2023/topo.csv")
    parser.add_argument("--small", type=Path, default=data / "philly/sia_philly.csv.gz")
    parser.add_argument("--gangs", type=Path, default=data / "acme/converted_kalos_trace.csv")
    parser.add_argument("--loads", default="0.80,0.95", help="GPU time offered over capacity")
    parser.add_argument("--seeds", default="1-10", help="such as 1-10, or 1,5,9")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--warm-up-days", type=float, default=5.0)
    parser.add_argument("--short", action="store_true", help="one seed, 6 days, load 0.80")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.loads, options.seeds, options.days, options.warm_up_days = "0.80", "1", 6.0, 2.0
    return options


def _print(label: str, row: dict[str, object]) -> None:
    mean, deviation = row["mean"], row["sd"]
    assert isinstance(mean, dict)
    assert isinstance(deviation, dict)
    figures = " ".join(f"{mean[name]:>15.3f} ({deviation[name]:>6.3f})" for name in FIGURES)
    print(f"{label:<20} {figures}  {mean['gangs']:.0f} gangs, {row['cpu_seconds']} s", flush=True)


if __name__ == "__main__":
    main()
