"""How the cost of a decision of the compiled kernels grows with the fleet.

    python -m tests.benchmarks growth --nodes 1000,3000,10000,30000 --seeds 1000-1002 --json FILE

Streams and churn are those of `throughput`. The cost is the mean CPU time of a decision, over the
seeds; `slope` is that of a straight line through cost against ln(nodes), in microseconds. "No
faster than log" means that cost over cost at the smallest fleet stays below the ratio of the
logarithms, which is printed beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from pathlib import Path

import numpy as np

from shared.core.kernels import back_end
from shared.core.kernels.fleet import Fleet
from tests.benchmarks.openb import load_nodes, load_pods
from tests.benchmarks.options import data_folder, machine, numbers
from tests.benchmarks.throughput import STREAMS, filled, measure
from tests.support.kernel_churn import FLAVOR, fleet_of


def cost_us(options: argparse.Namespace, name: str, nodes: int, seed: int) -> tuple[float, float]:
    """(mean cost in batches, p99 of single calls) in microseconds."""
    pods = load_pods(options.pods)
    fleet = Fleet(fleet_of(load_nodes(options.machines), nodes, seed), FLAVOR)
    churn = filled(fleet, back_end(fleet), pods, name, seed)
    row = measure(churn, pods, name, options.decisions, 256)
    return 1e6 / row["per_second"], row["p99_us"]


def measure_stream(options: argparse.Namespace, name: str) -> dict[str, object]:
    """All sizes of fleet for one stream."""
    costs: dict[int, list[float]] = {}
    p99: dict[int, float] = {}
    for nodes in options.nodes:
        found = [cost_us(options, name, nodes, seed) for seed in options.seeds]
        costs[nodes] = [cost for cost, _ in found]
        p99[nodes] = max(each for _, each in found)
    means = {nodes: statistics.fmean(each) for nodes, each in costs.items()}
    smallest = min(means)
    logs = [math.log(nodes) for nodes in means]
    slope = (
        float(np.polyfit(logs, list(means.values()), 1)[0]) if means.keys() - {smallest} else 0.0
    )
    ratios = {n: mean / means[smallest] for n, mean in means.items()}
    allowed = {n: math.log(n) / math.log(smallest) for n in means}
    for nodes, mean in means.items():
        print(
            f"{name:<8} {nodes:>6} nodes  {mean:6.2f} us  p99 {p99[nodes]:7.1f} us  "
            f"{ratios[nodes]:.2f} x the smallest, log would be {allowed[nodes]:.2f} x",
            flush=True,
        )
    print(f"{name:<8} slope {slope:.2f} us for each factor e")
    return {
        "mean_us": {str(n): round(mean, 2) for n, mean in means.items()},
        "sd_us": {str(n): round(statistics.pstdev(each), 2) for n, each in costs.items()},
        "p99_us": {str(n): each for n, each in p99.items()},
        "ratio": {str(n): round(each, 3) for n, each in ratios.items()},
        "ratio_of_logs": {str(n): round(each, 3) for n, each in allowed.items()},
        "slope_us": round(slope, 3),
    }


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
    parser.add_argument("--nodes", default="1000,3000,10000,30000", help="sizes, by comma")
    parser.add_argument("--seeds", default="1000-1002", help="such as 42-51, or 1,5,9")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--decisions", type=int, default=51_200)
    parser.add_argument("--short", action="store_true", help="one seed, 1,000 and 10,000 nodes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.seeds, options.nodes = numbers(options.seeds), numbers(options.nodes)
    if options.short:
        options.seeds, options.decisions = options.seeds[:1], 10_240
        options.nodes = [1000, 10_000]
    return options


if __name__ == "__main__":
    main()
