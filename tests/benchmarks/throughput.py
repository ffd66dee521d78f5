"""How many decisions a second the placement core makes on one core, and how long one takes.

    python -m tests.benchmarks throughput --nodes 10000 --seeds 1000-1002 --json FILE

What is measured is what the service calls: `shared.core.placement.place.place` on `Cluster`. The
fleet is churned at 85 % utilisation (tests/support/churn.py): single pods of the trace, gangs, and
nine in ten of the one and one in ten of the other. A decision is one pod or gang placed or
refused; the release before it, and the tables of the learned mix, are part of its cost. Times are
CPU time of the one thread; memory and readiness are those of fresh processes.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from shared.core.model.nouns import Workload
from tests.benchmarks.openb import TracePod, load_nodes, load_pods
from tests.benchmarks.options import data_folder, machine, numbers
from tests.support import placing
from tests.support.churn import FLAVOR, Churn, fleet_of, gang, single

STREAMS = {"singles": 1.0, "gangs": 0.0, "mixed": 0.9}
"""Share of single pods."""
PUBLISHED = {
    "KAI, 512 nodes": "2111 pods/s, 287 gangs/s",
    "KAI, 2048 nodes": "312 pods/s, 40 gangs/s",
    "Volcano": "702 pods/s, 94 gangs/s",
}
"""Published or measured earlier on such a machine, in memory; not run here."""
BOUNDS = {
    "decisions_per_second": 8_000,
    "gangs_per_second": 3_000,
    "p99_us": 1000,
    "memory_mib": 1024,
    "ready_seconds": 1.0,
}
READY = """
import time
start = time.perf_counter()
from tests.benchmarks.throughput import decide_one
decide_one()
print(time.perf_counter() - start)
"""
MEMORY = """
import sys
from tests.benchmarks.throughput import fill_once
print(fill_once(*sys.argv[1:]))
"""


def decide_one() -> None:
    """What a process does before it is ready: import the core and decide once."""
    churn = Churn(placing.cluster(placing.node("node", flavor=FLAVOR)), Random(0))
    assert churn.step(placing.workload(placing.pods(placing.whole(1))))


def ready_seconds() -> float:
    """Wall time from the first import to the first decision, in a fresh process."""
    return float(_output(READY))


def memory_mib(options: argparse.Namespace) -> int:
    """Most memory of a fresh process that builds the fleet, fills and churns it."""
    arguments = (str(options.machines), str(options.pods), str(options.nodes))
    return int(_output(MEMORY, *arguments))


def fill_once(machines: str, trace: str, nodes: str) -> int:
    """The same in this process: the most memory that it ever had, in MiB."""
    pods, cluster = load_pods(Path(trace)), fleet_of(load_nodes(Path(machines)), int(nodes), 0)
    filled(Churn(cluster, Random(0)), pods, "mixed")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _output(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def next_of(name: str, pods: Sequence[TracePod], draw: Random) -> Workload:
    """The next request of a stream."""
    return single(pods, draw) if draw.random() < STREAMS[name] else gang(draw)


def filled(churn: Churn, pods: Sequence[TracePod], name: str) -> Churn:
    """The fleet at its utilisation by the stream, and half of what it holds exchanged once."""
    while not churn.full():
        churn.step(next_of(name, pods, churn.draw))
    for _ in range(len(churn.live) // 2):
        churn.step(next_of(name, pods, churn.draw))
    return churn


def measure(churn: Churn, pods: Sequence[TracePod], name: str, decisions: int) -> dict[str, float]:
    """So many decisions on the full fleet."""
    asked = [next_of(name, pods, churn.draw) for _ in range(decisions)]
    gc.collect()
    gc.freeze()
    churn.reset()
    for workload in asked:
        churn.step(workload)
    gc.unfreeze()
    took = sorted(churn.took)
    return {
        "per_second": round(len(took) / sum(took)),
        "placed": churn.placed,
        "decided": len(took),
        "p50_us": round(took[len(took) // 2] * 1e6, 1),
        "p99_us": round(took[len(took) * 99 // 100] * 1e6, 1),
        "max_us": round(took[-1] * 1e6, 1),
    }


def run(
    options: argparse.Namespace, pods: Sequence[TracePod], seed: int
) -> dict[str, dict[str, float]]:
    """All streams with one seed."""
    rows: dict[str, dict[str, float]] = {}
    for name in STREAMS:
        cluster = fleet_of(load_nodes(options.machines), options.nodes, seed)
        churn = filled(Churn(cluster, Random(seed)), pods, name)
        rows[name] = measure(churn, pods, name, options.decisions)
        words = "  ".join(f"{key} {value}" for key, value in rows[name].items())
        print(f"seed {seed}  {name:<8} {words}", flush=True)
    return rows


def summary(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of one stream over all seeds: the mean rate and its spread, and the worst p99."""
    rates = [row["per_second"] for row in rows]
    return {
        "per_second": round(statistics.fmean(rates)),
        "sd": round(statistics.pstdev(rates)),
        "p99_us": max(row["p99_us"] for row in rows),
    }


def main() -> None:
    """Run all seeds, print means and standard deviations."""
    options = _options()
    pods = load_pods(options.pods)
    ready = statistics.median(ready_seconds() for _ in range(3))
    memory = memory_mib(options)
    print(
        f"{options.nodes} nodes, {8 * options.nodes} GPUs; ready in {ready:.2f} s, "
        f"at most {memory} MiB",
        flush=True,
    )
    runs = {seed: run(options, pods, seed) for seed in options.seeds}
    result = {
        "nodes": options.nodes,
        "seeds": options.seeds,
        "ready_seconds": round(ready, 3),
        "memory_mib": memory,
        "streams": {name: summary([run[name] for run in runs.values()]) for name in STREAMS},
        "runs": runs,
        "bounds": BOUNDS,
        "published_or_measured_earlier": PUBLISHED,
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _options() -> argparse.Namespace:
    data = data_folder() / "openb"
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks throughput --nodes 2000 --short",
    )
    parser.add_argument("--machines", type=Path, default=data / "openb_node_list_gpu_node.csv.gz")
    parser.add_argument("--pods", type=Path, default=data / "openb_pod_list_default.csv.gz")
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--seeds", default="1000-1002", help="such as 42-51, or 1,5,9")
    parser.add_argument("--decisions", type=int, default=10_000)
    parser.add_argument("--short", action="store_true", help="one seed, 2,000 nodes")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.seeds = numbers(options.seeds)
    if options.short:
        options.seeds, options.decisions = options.seeds[:1], 2_000
        options.nodes = 2_000
    return options


if __name__ == "__main__":
    main()
