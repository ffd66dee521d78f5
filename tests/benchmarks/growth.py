"""How the cost of a decision of the compiled kernels grows with the fleet.

    python -m tests.benchmarks growth --nodes 1000,3000,10000,30000 --seeds 1000-1004 --json FILE

Streams and churn are those of `throughput`. The cost is the mean CPU time of a decision, over the
seeds; `slope` is that of a straight line through cost against ln(nodes), in microseconds. All
sizes of one seed are measured one after another, and what counts is the median of their ratios: a
machine that changes its speed from minute to minute changes all of them. "No faster than log"
means that cost over cost at the smallest fleet stays below the ratio of the logarithms, which is
printed beside it.

Time grows by two things: what a decision does, and how far away its memory is. So the smallest
fleets are measured once more, as many of them in turns as take the memory of the large one (`in
turns`, 16 decisions each): what is looked at is that of a small fleet, and it lies where that of
the large one does. What a decision in the large fleet costs over that is what the algorithm grows
by. `read` is the time of one read that waits for the one before, at random in so much memory.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from shared.core.kernels import back_end
from shared.core.kernels.fleet import Fleet
from tests.benchmarks.growth_in_turns import bytes_of, in_turns_us
from tests.benchmarks.memory_latency import read_ns
from tests.benchmarks.openb import load_nodes, load_pods
from tests.benchmarks.options import data_folder, machine, numbers
from tests.benchmarks.throughput import STREAMS, filled, measure
from tests.support.kernel_churn import FLAVOR, Churn, fleet_of

OTHER_SEEDS: Final = 10_000
"""Between the seeds of small fleets that take turns."""


class Cost(NamedTuple):
    """Of a decision in one fleet, in microseconds."""

    mean: float
    """In batches."""
    p99: float
    """Of single calls."""
    in_turns: float
    """In batches of `TURN`, without the call itself."""
    small_in_turns: float
    """The same in the smallest fleets, as many in turns as take its memory."""
    size_bytes: int

    @property
    def over_small(self) -> float:
        """What is not memory's."""
        return self.in_turns / self.small_in_turns


def costs_of(options: argparse.Namespace, name: str, seed: int) -> dict[int, Cost]:
    """By size of the fleet; the smallest fleets of other seeds are filled as they are needed."""
    pods, machines = load_pods(options.pods), load_nodes(options.machines)

    def churn_of(nodes: int, seed: int) -> Churn:
        fleet = Fleet(fleet_of(machines, nodes, seed), FLAVOR)
        return filled(fleet, back_end(fleet), pods, name, seed)

    found: dict[int, Cost] = {}
    small: list[Churn] = []
    for nodes in sorted(options.nodes):
        churn = churn_of(nodes, seed)
        row = measure(churn, pods, name, options.decisions, 256)
        size_bytes = bytes_of(churn)
        while not small or sum(map(bytes_of, small)) < size_bytes:
            small.append(churn_of(min(options.nodes), seed + OTHER_SEEDS * len(small)))
        found[nodes] = Cost(
            1e6 / row["per_second"],
            row["p99_us"],
            in_turns_us([churn], pods, name, options.decisions),
            in_turns_us(small, pods, name, options.decisions),
            size_bytes,
        )
    return found


def measure_stream(options: argparse.Namespace, name: str) -> dict[str, object]:
    """All sizes of fleet for one stream."""
    sizes, seeds = options.nodes, options.seeds
    found = {seed: costs_of(options, name, seed) for seed in seeds}
    costs = {n: [found[seed][n].mean for seed in seeds] for n in sizes}
    p99 = {n: max(found[seed][n].p99 for seed in seeds) for n in sizes}
    size_bytes = {n: max(found[seed][n].size_bytes for seed in seeds) for n in sizes}
    over_small = {n: statistics.median(found[seed][n].over_small for seed in seeds) for n in sizes}
    small = {n: statistics.fmean(found[seed][n].small_in_turns for seed in seeds) for n in sizes}
    means = {nodes: statistics.fmean(each) for nodes, each in costs.items()}
    reads = {nodes: read_ns(each) for nodes, each in size_bytes.items()}
    ratios, read_ratios = ratio_by_seed(costs), ratio(reads)
    allowed = ratio({n: math.log(n) for n in means})
    for nodes, mean in means.items():
        print(
            f"{name:<8} {nodes:>6} nodes  {mean:6.2f} us  p99 {p99[nodes]:7.1f} us  "
            f"{ratios[nodes]:.2f} x the smallest, log would be {allowed[nodes]:.2f} x;  "
            f"{over_small[nodes]:.2f} x the smallest in as much memory ({small[nodes]:.2f} us);  "
            f"read {reads[nodes]:5.1f} ns in {size_bytes[nodes] >> 20} MiB, "
            f"{read_ratios[nodes]:.2f} x",
            flush=True,
        )
    slope_us = slope(means)
    print(f"{name:<8} slope {slope_us:.2f} us for each factor e")
    return {
        "mean_us": rounded(means, 2),
        "sd_us": rounded({n: statistics.pstdev(each) for n, each in costs.items()}, 2),
        "p99_us": rounded(p99, 1),
        "ratio": rounded(ratios, 3),
        "ratio_of_logs": rounded(allowed, 3),
        "ratio_in_equal_memory": rounded(over_small, 3),
        "small_in_turns_us": rounded(small, 2),
        "slope_us": round(slope_us, 3),
        "arrays_bytes": {str(n): each for n, each in size_bytes.items()},
        "read_ns": rounded(reads, 2),
        "ratio_of_reads": rounded(read_ratios, 3),
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
    parser.add_argument("--nodes", default="1000,3000,10000,30000", help="sizes, by comma")
    parser.add_argument("--seeds", default="1000-1004", help="such as 42-51, or 1,5,9")
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
