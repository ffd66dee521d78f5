"""How many decisions a second the compiled kernels make on one core (scenario S7), beside others.

    python -m tests.benchmarks throughput --nodes 10000 --seeds 1000-1002 --json FILE

The fleet is churned at 85 % utilisation (tests/support/kernel_churn.py): single pods of the trace,
gangs, and nine in ten of the one and one in ten of the other. A decision is one pod or gang placed
or refused; what was released for it, and the tables of the learned mix, are part of its cost.
Requests go in batches of `--batch`, as a service hands them over; p50 and p99 are of calls with
one decision each. The same stream is decided by the NumPy reference and by the core in Python.
Times are CPU time of the one thread; memory and readiness are those of fresh processes.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from shared.core.kernels import BackEnd, back_end
from shared.core.kernels.fleet import Fleet
from shared.core.kernels.reference import Reference
from shared.core.model import Placement, Workload
from shared.core.placement import place
from tests.benchmarks.openb import TracePod, load_nodes, load_pods
from tests.benchmarks.options import data_folder, machine, numbers
from tests.support import placing
from tests.support.kernel_churn import FLAVOR, UTILISATION, Churn, fleet_of, gang, single

STREAMS = {"singles": 1.0, "gangs": 0.0, "mixed": 0.9}
"""Share of single pods."""
PUBLISHED = {
    "KAI, 512 nodes": "2111 pods/s, 287 gangs/s",
    "KAI, 2048 nodes": "312 pods/s, 40 gangs/s",
    "Volcano": "702 pods/s, 94 gangs/s",
}
"""Published or measured earlier on such a machine, in memory; not run here."""
BOUNDS = {
    "decisions_per_second": 100_000,
    "gangs_per_second": 20_000,
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
    """What a process does before it is ready: load the kernels and decide once."""
    fleet = Fleet(placing.cluster(placing.node("node", flavor=FLAVOR)), FLAVOR)
    draw = Random(0)
    churn = Churn(fleet, back_end(fleet), draw)
    asked = placing.workload(placing.pods(placing.whole(1)))
    churn.learn([asked] * 64)
    churn.step([asked])
    assert churn.placed == 1


def ready_seconds() -> float:
    """Wall time from the first import to the first decision, in a fresh process; cached."""
    return float(_output(READY))


def memory_mib(options: argparse.Namespace) -> int:
    """Most memory of a fresh process that builds the fleet, fills and churns it."""
    arguments = (str(options.machines), str(options.pods), str(options.nodes))
    return int(_output(MEMORY, *arguments))


def fill_once(machines: str, trace: str, nodes: str) -> int:
    """The same in this process: the most memory that it ever had, in MiB."""
    pods, cluster = load_pods(Path(trace)), fleet_of(load_nodes(Path(machines)), int(nodes), 0)
    fleet = Fleet(cluster, FLAVOR)
    filled(fleet, back_end(fleet), pods, "mixed", 0)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _output(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stream(name: str, pods: Sequence[TracePod], draw: Random, count: int) -> list[Workload]:
    """The next requests."""
    return [
        single(pods, draw) if draw.random() < STREAMS[name] else gang(draw) for _ in range(count)
    ]


def filled(fleet: Fleet, kernel: BackEnd, pods: Sequence[TracePod], name: str, seed: int) -> Churn:
    """A fleet at its utilisation by the stream, and churned through one and a half times."""
    draw = Random(seed)
    churn = Churn(fleet, kernel, draw)
    churn.learn([single(pods, draw) for _ in range(64)])
    while not churn.full():
        churn.step(stream(name, pods, draw, 256))
    for _ in range(3 * churn.placed // 512):
        churn.step(stream(name, pods, draw, 256))
    return churn


def measure(
    churn: Churn, pods: Sequence[TracePod], name: str, decisions: int, batch: int
) -> dict[str, float]:
    """Decisions in batches, then one by one."""
    gc.collect()
    gc.freeze()
    churn.reset()
    for _ in range(decisions // batch):
        churn.step(stream(name, pods, churn.draw, batch))
    row = {
        "per_second": round(churn.decided / churn.seconds),
        "placed": churn.placed,
        "decided": churn.decided,
    }
    churn.reset()
    for _ in range(decisions // 8):
        churn.step(stream(name, pods, churn.draw, 1))
    took = sorted(churn.took)
    gc.unfreeze()
    return {
        **row,
        "one_by_one_per_second": round(len(took) / sum(took)),
        "p50_us": round(took[len(took) // 2] * 1e6, 1),
        "p99_us": round(took[len(took) * 99 // 100] * 1e6, 1),
        "max_us": round(took[-1] * 1e6, 1),
    }


def of_reference(churn: Churn, pods: Sequence[TracePod], name: str, decisions: int) -> int:
    """Decisions a second of the NumPy reference, from the state that the kernels left."""
    churn.kernel = Reference(churn.fleet)
    churn.reset()
    for _ in range(decisions):
        churn.step(stream(name, pods, churn.draw, 1))
    return round(churn.decided / churn.seconds)


def of_core(options: argparse.Namespace, pods: Sequence[TracePod], name: str, seed: int) -> int:
    """Decisions a second of `core.placement.place` at the same utilisation and stream."""
    cluster = fleet_of(load_nodes(options.machines), options.nodes, seed)
    draw = Random(seed)
    live: list[tuple[Workload, Placement]] = []
    seconds, decided = 0.0, 0
    while decided < options.baseline:
        for workload in stream(name, pods, draw, 256):
            full = cluster.gpu_milli_used() >= UTILISATION * cluster.gpu_milli_total()
            start = time.thread_time()
            while live and cluster.gpu_milli_used() >= UTILISATION * cluster.gpu_milli_total():
                at = draw.randrange(len(live))
                live[at], live[-1] = live[-1], live[at]
                old, placement = live.pop()
                cluster.release(old.team, placement.pods, old.spec.pod_sets)
            answer = place(cluster, placing.request(workload))
            if full:
                seconds += time.thread_time() - start
                decided += 1
            if isinstance(answer, Placement):
                live.append((workload, answer))
    return round(decided / seconds)


def run(
    options: argparse.Namespace, pods: Sequence[TracePod], seed: int
) -> dict[str, dict[str, float]]:
    """All streams with one seed."""
    rows: dict[str, dict[str, float]] = {}
    for name in STREAMS:
        cluster = fleet_of(load_nodes(options.machines), options.nodes, seed)
        start = time.thread_time()
        fleet = Fleet(cluster, FLAVOR)
        kernel = back_end(fleet)
        load_seconds = time.thread_time() - start
        del cluster
        churn = filled(fleet, kernel, pods, name, seed)
        row = measure(churn, pods, name, options.decisions, options.batch)
        row["load_seconds"] = round(load_seconds, 3)
        row["reference_per_second"] = of_reference(churn, pods, name, options.baseline // 10)
        row["core_per_second"] = of_core(options, pods, name, seed)
        rows[name] = row
        print(
            f"seed {seed}  {name:<8} " + "  ".join(f"{k} {v}" for k, v in row.items()), flush=True
        )
    return rows


def summary(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Of one stream over all seeds: the mean rate and its spread, and the worst p99."""
    rates = [row["per_second"] for row in rows]
    return {
        "per_second": round(statistics.fmean(rates)),
        "sd": round(statistics.pstdev(rates)),
        "p99_us": max(row["p99_us"] for row in rows),
        "reference_per_second": round(
            statistics.fmean(row["reference_per_second"] for row in rows)
        ),
        "core_per_second": round(statistics.fmean(row["core_per_second"] for row in rows)),
    }


def main() -> None:
    """Run all seeds, print means and standard deviations."""
    options = _options()
    pods = load_pods(options.pods)
    decide_one()
    ready = statistics.median(ready_seconds() for _ in range(3))
    memory = memory_mib(options)
    print(
        f"{options.nodes} nodes, {8 * options.nodes} GPUs; ready in {ready:.2f} s (cached), "
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
    parser.add_argument("--decisions", type=int, default=51_200)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--baseline", type=int, default=3000, help="decisions of the core")
    parser.add_argument("--short", action="store_true", help="one seed, few decisions")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.seeds = numbers(options.seeds)
    if options.short:
        options.seeds, options.decisions, options.baseline = options.seeds[:1], 10_240, 300
    return options


if __name__ == "__main__":
    main()
