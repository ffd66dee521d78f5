"""How the cost of a decision of the placement core grows with the fleet.

    python -m tests.benchmarks growth --nodes 500,2000,10000 --seeds 1000-1002 --json FILE

Streams and churn are those of `throughput`. The cost is the mean CPU time of a decision, over the
seeds; `slope` is that of a straight line through cost against ln(nodes), in microseconds. All
sizes of one seed are measured one after another, and what counts is the median of their ratios: a
machine that changes its speed from minute to minute changes all of them. "No faster than log"
means that cost over cost at the smallest fleet stays below the ratio of the logarithms, which is
printed beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np

from tests.benchmarks.openb import load_nodes, load_pods
from tests.benchmarks.options import data_folder, machine, numbers
from tests.benchmarks.throughput import STREAMS, filled, measure
from tests.support.churn import Churn, fleet_of


def costs_of(options: argparse.Namespace, name: str, seed: int) -> dict[int, tuple[float, float]]:
    """(mean, p99) of a decision in microseconds by size of the fleet."""
    pods, machines = load_pods(options.pods), load_nodes(options.machines)
    found = {}
    for nodes in sorted(options.nodes):
        churn = filled(Churn(fleet_of(machines, nodes, seed), Random(seed)), pods, name)
        row = measure(churn, pods, name, options.decisions)
        found[nodes] = (1e6 / row["per_second"], row["p99_us"])
    return found


def measure_stream(options: argparse.Namespace, name: str) -> dict[str, object]:
    """All sizes of fleet for one stream."""
    sizes, seeds = options.nodes, options.seeds
    found = {seed: costs_of(options, name, seed) for seed in seeds}
    costs = {n: [found[seed][n][0] for seed in seeds] for n in sizes}
    p99 = {n: max(found[seed][n][1] for seed in seeds) for n in sizes}
    means = {nodes: statistics.fmean(each) for nodes, each in costs.items()}
    ratios, allowed = ratio_by_seed(costs), ratio({n: math.log(n) for n in means})
    for nodes, mean in means.items():
        print(
            f"{name:<8} {nodes:>6} nodes  {mean:7.1f} us  p99 {p99[nodes]:7.1f} us  "
            f"{ratios[nodes]:.2f} x the smallest, log would be {allowed[nodes]:.2f} x",
            flush=True,
        )
    print(f"{name:<8} slope {slope(means):.2f} us for each factor e")
    return {
        "mean_us": rounded(means, 2),
        "sd_us": rounded({n: statistics.pstdev(each) for n, each in costs.items()}, 2),
        "p99_us": rounded(p99, 1),
        "ratio": rounded(ratios, 3),
        "ratio_of_logs": rounded(allowed, 3),
        "slope_us": round(slope(means), 3),
    }


def ratio_by_seed(costs: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """Each over the smallest fleet's of the same seed; the median over the seeds."""
    smallest = costs[min(costs)]
    return {
        nodes: statistics.median(one / base for one, base in zip(each, smallest, strict=True))
        for nodes, each in costs.items()
    }


def ratio(values: Mapping[int, float]) -> dict[int, float]:
    """Each over that of the smallest fleet."""
    smallest = values[min(values)]
    return {nodes: each / smallest for nodes, each in values.items()}


def slope(means: Mapping[int, float]) -> float:
    """Of a straight line through cost against ln(nodes)."""
    if len(means) < 2:
        return 0.0
    logs = [math.log(nodes) for nodes in means]
    return float(np.polyfit(logs, list(means.values()), 1)[0])


def rounded(values: Mapping[int, float], digits: int) -> dict[str, float]:
    """As JSON has it."""
    return {str(nodes): round(each, digits) for nodes, each in values.items()}


def main() -> None:
    """Run the streams, print a line for each size."""
    options = _options()
    result = {
        "streams": {name: measure_stream(options, name) for name in options.streams.split(",")},
        "seeds": options.seeds,
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _options() -> argparse.Namespace:
    data = data_folder() / "openb"
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks growth --streams singles --short",
    )
    parser.add_argument("--machines", type=Path, default=data / "openb_node_list_gpu_node.csv.gz")
    parser.add_argument("--pods", type=Path, default=data / "openb_pod_list_default.csv.gz")
    parser.add_argument("--nodes", default="500,2000,10000", help="sizes, by comma")
    parser.add_argument("--seeds", default="1000-1002", help="such as 42-51, or 1,5,9")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--decisions", type=int, default=5_000)
    parser.add_argument("--short", action="store_true", help="one seed, 500 and 2,000 nodes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.seeds, options.nodes = numbers(options.seeds), numbers(options.nodes)
    if options.short:
        options.seeds, options.decisions = options.seeds[:1], 2_000
        options.nodes = [500, 2_000]
    return options


if __name__ == "__main__":
    main()
