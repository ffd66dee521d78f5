"""How much of a cluster is allocated while more and more is asked for (the FGD paper's figure 7).

    python -m tests.benchmarks packing --nodes N.csv.gz --pods P.csv.gz --seeds 42-51 \
        --policies muster,fgd,bestfit --json FILE

Every policy sees the same pods in the same order on the same nodes (tests/benchmarks/openb.py).
The figure at x % is the mean over the arrivals at which what was asked for so far rounds to x % of
the capacity. FGD alone knows the frequencies of the full trace, as in its paper; Muster learns.
The bound (tests/benchmarks/bound.py) is of a scheduler that knows the future and may refuse.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Protocol

import numpy as np

from tests.benchmarks.baselines.fgd import Fgd, Fragmentation
from tests.benchmarks.baselines.fleet import Fleet, Scan
from tests.benchmarks.baselines.gpu_packing import GpuClustering, GpuPacking
from tests.benchmarks.baselines.kubernetes import (
    BestFit,
    DotProd,
    LeastAllocated,
    MostAllocated,
    RandomFit,
)
from tests.benchmarks.baselines.muster import Muster
from tests.benchmarks.bound import NoBound, allocation_bound_percent
from tests.benchmarks.openb import (
    GPU_MILLI,
    TraceNode,
    TracePod,
    arrivals,
    load_nodes,
    load_pods,
    permuted,
    published,
)
from tests.benchmarks.options import data_folder, machine, numbers

POINTS = (80, 90, 95, 100, 110, 130)
PUBLISHED = {
    "random": "Random",
    "dotprod": "DotProd",
    "clustering": "GpuClustering",
    "packing": "GpuPacking",
    "bestfit": "BestFit",
    "fgd": "FGD",
}
"""Names in the published table."""


class Placer(Protocol):
    """A policy at work."""

    def place(self, pod: TracePod) -> tuple[int, Sequence[int]] | None:
        """(node, GPUs), charged already; or None, and nothing changed."""


Make = Callable[[Fleet, Sequence[TraceNode], Sequence[TracePod], int], Placer]

POLICIES: dict[str, Make] = {
    "muster": lambda fleet, nodes, _, seed: Muster(fleet, nodes, seed),
    "fgd": lambda fleet, _, pods, __: Scan(fleet, Fgd(fleet, Fragmentation(fleet, pods))),
    "bestfit": lambda fleet, _, __, ___: Scan(fleet, BestFit(fleet)),
    "dotprod": lambda fleet, _, __, ___: Scan(fleet, DotProd(fleet)),
    "packing": lambda fleet, _, __, ___: Scan(fleet, GpuPacking(fleet)),
    "clustering": lambda fleet, _, __, ___: Scan(fleet, GpuClustering(fleet)),
    "leastalloc": lambda fleet, _, __, ___: Scan(fleet, LeastAllocated(fleet)),
    "mostalloc": lambda fleet, _, __, ___: Scan(fleet, MostAllocated(fleet)),
    "random": lambda fleet, _, __, seed: RandomFit(fleet, seed),
}


def run(
    policy: str, nodes: Sequence[TraceNode], pods: list[TracePod], seed: int
) -> tuple[dict[int, float], float]:
    """(allocated percent at each of `POINTS`, fragmented percent of capacity at 100 %)."""
    order = permuted(list(nodes), seed)
    fleet = Fleet(order)
    placer = POLICIES[policy](fleet, order, pods, seed)
    fragmentation = Fragmentation(fleet, pods)
    found: dict[int, list[float]] = {point: [] for point in POINTS}
    asked = allocated = 0
    fragmented = -1.0
    for pod in arrivals(pods, fleet.capacity_milli, seed):
        asked += pod.gpu_milli
        if placer.place(pod) is not None:
            allocated += pod.gpu_milli
        point = round(100 * asked / fleet.capacity_milli)
        if point in found:
            found[point].append(100 * allocated / fleet.capacity_milli)
        if point == 100 and fragmented < 0:
            every = fragmentation.of(fleet.model, fleet.cpu_left, fleet.gpu_left)
            fragmented = 100 * float(np.sum(every)) / fleet.capacity_milli
    return {point: statistics.fmean(values) for point, values in found.items()}, fragmented


def measure(
    policy: str, nodes: Sequence[TraceNode], pods: list[TracePod], seeds: Sequence[int]
) -> dict[str, object]:
    """Means and standard deviations over `seeds`."""
    start = time.process_time()
    runs = [run(policy, nodes, pods, seed) for seed in seeds]
    curves = [curve for curve, _ in runs]
    return {
        "allocation_percent": {
            str(point): round(statistics.fmean(curve[point] for curve in curves), 3)
            for point in POINTS
        },
        "sd": {
            str(point): round(statistics.stdev([c[point] for c in curves]), 3) if runs[1:] else 0.0
            for point in POINTS
        },
        "fragmented_percent_at_100": round(statistics.fmean(amount for _, amount in runs), 3),
        "cpu_seconds": round(time.process_time() - start, 1),
    }


def bound(
    nodes: Sequence[TraceNode], pods: list[TracePod], seeds: Sequence[int]
) -> dict[str, float | None]:
    """What a scheduler that knew all arrivals could allocate at most, at each point.

    None where the bound of one of the seeds cannot be had.
    """
    return {str(point): _mean_bound(nodes, pods, seeds, point) for point in POINTS}


def _mean_bound(
    nodes: Sequence[TraceNode], pods: list[TracePod], seeds: Sequence[int], point: int
) -> float | None:
    try:
        return round(statistics.fmean(_bound(nodes, pods, seed, point) for seed in seeds), 3)
    except NoBound:
        return None


def bound_line(bounds: Mapping[str, float | None]) -> str:
    """A line of the table; the columns are those of the policies."""
    texts = ("no bound" if each is None else f"{each:6.2f}" for each in bounds.values())
    return f"bound       {'  '.join(f'{text:13}' for text in texts)}".rstrip()


def _bound(nodes: Sequence[TraceNode], pods: list[TracePod], seed: int, point: int) -> float:
    capacity_milli = GPU_MILLI * sum(node.gpus for node in nodes)
    order = arrivals(pods, capacity_milli, seed)
    asked_milli = accumulate(pod.gpu_milli for pod in order)
    there = [
        (asked, arrived)
        for arrived, asked in enumerate(asked_milli, 1)
        if round(100 * asked / capacity_milli) == point
    ]
    mean = statistics.fmean(asked for asked, _ in there)
    until = min(arrived for asked, arrived in there if asked >= mean)
    return allocation_bound_percent(nodes, order[:until])


def main() -> None:
    """Run the policies asked for, print a line for each."""
    options = _options()
    seeds = numbers(options.seeds)
    nodes, pods = load_nodes(options.nodes), load_pods(options.pods)
    policies: dict[str, dict[str, object]] = {}
    workload = options.pods.name.partition(".")[0]
    print(f"{workload}, seeds {options.seeds}, arrived % {POINTS}")
    for name in options.policies.split(","):
        policies[name] = measure(name, nodes, pods, seeds)
        _print(name, policies[name], _published(options.published, workload, name))
    bounds = bound(nodes, pods, seeds) if options.bound else None
    if bounds:
        print(bound_line(bounds))
    result = {
        "workload": workload,
        "seeds": seeds,
        "policies": policies,
        "bound": bounds,
        "published": {
            name: _published(options.published, workload, name)
            for name in options.policies.split(",")
        },
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _options() -> argparse.Namespace:
    data = data_folder() / "openb"
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=Path, default=data / "openb_node_list_gpu_node.csv.gz")
    parser.add_argument("--pods", type=Path, default=data / "openb_pod_list_default.csv.gz")
    parser.add_argument("--seeds", default="42-51", help="such as 42-51, or 1,5,9")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument(
        "--published", type=Path, default=data / "fgd_expected_analysis_allo_discrete.csv.gz"
    )
    parser.add_argument(
        "--bound", action=argparse.BooleanOptionalAction, default=True, help="by ortools"
    )
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _published(path: Path, workload: str, policy: str) -> dict[str, float] | None:
    """Means of the published runs; None for what the table does not know."""
    if policy not in PUBLISHED or not path.exists():
        return None
    table = published(path, workload, PUBLISHED[policy])
    found = {str(point): round(statistics.fmean(table[point]), 3) for point in POINTS if table}
    return found or None


def _print(name: str, row: dict[str, object], known: dict[str, float] | None) -> None:
    allocation, deviation = row["allocation_percent"], row["sd"]
    assert isinstance(allocation, dict)
    assert isinstance(deviation, dict)
    figures = "  ".join(f"{allocation[str(x)]:6.2f} ({deviation[str(x)]:.2f})" for x in POINTS)
    print(
        f"{name:<11} {figures}  fragmented {row['fragmented_percent_at_100']}  "
        f"{row['cpu_seconds']} s",
        flush=True,
    )
    if known:
        print(f"  published {'  '.join(f'{known[str(x)]:6.2f}       ' for x in POINTS)}")


if __name__ == "__main__":
    main()
