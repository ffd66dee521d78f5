"""How many decisions a second the bare placement core makes on one core, and how that grows.

    python -m tests.benchmarks.core_throughput --nodes 1000,10000,30000 --json FILE

Each line is one scenario on a fleet of `nodes` x 8 GPUs (racks of 8 nodes, blocks of 32 racks).
Churn: the fleet is filled to 85 % with the mix, then every decision follows a release, so the
fleet stays full and the shelves stay busy. Refusals include their explanation. Times are CPU time
of the one thread: other programs on the machine do not count.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from shared.core.cluster import Cluster
from shared.core.model import (
    GpuRequest,
    Level,
    Placement,
    TopologyRequest,
    Workload,
)
from shared.core.placement import place
from tests.support import placing

FILL = 0.85


@dataclass
class Churn:
    """A fleet kept full: every placement is preceded by a release once it is filled."""

    cluster: Cluster
    draw: Random
    live: list[tuple[Workload, Placement]]

    def step(self, workload: Workload) -> tuple[float, bool]:
        """Seconds that the decision took, and whether it placed."""
        while self.live and self._full():
            at = self.draw.randrange(len(self.live))
            self.live[at], self.live[-1] = self.live[-1], self.live[at]
            old, placement = self.live.pop()
            self.cluster.release(old.team, placement.pods, old.spec.pod_sets)
        request = placing.request(workload)
        start = time.thread_time()
        answer = place(self.cluster, request)
        took = time.thread_time() - start
        if isinstance(answer, Placement):
            self.live.append((workload, answer))
            return took, True
        return took, False

    def _full(self) -> bool:
        return self.cluster.gpu_milli_used() >= FILL * self.cluster.gpu_milli_total()


def fleet(nodes: int, *, mig_every: int = 10) -> tuple[Cluster, float]:
    """A cluster of `nodes`, one in `mig_every` in MIG mode; and the seconds to report it."""
    reports = [
        placing.node(
            f"node-{number:05d}",
            rack=f"r{number // 8}",
            block=f"b{number // 256}",
            zone="z",
            mig=range(8) if number % mig_every == 0 else (),
        )
        for number in range(nodes)
    ]
    start = time.thread_time()
    cluster = placing.cluster(*reports)
    return cluster, time.thread_time() - start


def single(draw: Random) -> Workload:
    """One pod, in openb's shares of request sizes, with some MIG."""
    pick = draw.random()
    gpu = GpuRequest(count=draw.choice((2, 4, 8)))
    if pick < 0.10:
        gpu = GpuRequest()
    elif pick < 0.45:
        milli = draw.choice((810, 810, 470, 320, 650, 230, 460))
        gpu = placing.share(milli, placing.A100_MIB * milli // 1000)
    elif pick < 0.55:
        gpu = placing.mig(draw.choice(("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb")))
    elif pick < 0.97:
        gpu = GpuRequest(count=1)
    cpu_milli = draw.choice((2000, 4000, 6000, 8000, 11000))
    pods = placing.pods(gpu, cpu_milli=cpu_milli, memory_mib=draw.choice((8192, 16384, 65536)))
    return placing.workload(pods, team=f"team-{draw.randrange(20)}")


def gang(draw: Random) -> Workload:
    """2 to 8 pods with whole GPUs, anywhere."""
    return placing.workload(_gang_pods(draw))


def gang_in_rack(draw: Random) -> Workload:
    """The same inside one rack."""
    return placing.workload(_gang_pods(draw), topology=TopologyRequest(required=Level.RACK))


def _gang_pods(draw: Random) -> placing.PodSet:
    gpus = draw.choice((1, 2, 4, 8))
    return placing.pods(
        placing.whole(gpus), draw.randint(2, 8), cpu_milli=8000 * gpus, memory_mib=65536
    )


def too_large(draw: Random) -> Workload:
    """A gang that no full fleet can hold: refused, with the reason."""
    return placing.workload(
        placing.pods(placing.whole(8), draw.randint(100, 120), cpu_milli=80_000),
        topology=TopologyRequest(required=Level.RACK),
    )


SCENARIOS: dict[str, Callable[[Random], Workload]] = {
    "singles": single,
    "gangs": gang,
    "gangs in one rack": gang_in_rack,
    "refusals": too_large,
}


def measure(name: str, nodes: int, decisions: int, seed: int) -> dict[str, object]:
    """Fill, then time `decisions`."""
    draw = Random(seed)
    cluster, load_seconds = fleet(nodes)
    churn = Churn(cluster, draw, [])
    make = SCENARIOS[name]
    filler = single if name == "refusals" else make
    while not churn._full():
        churn.step(filler(draw))
    asked = [make(draw) for _ in range(decisions)]
    gc.collect()
    gc.freeze()
    took = []
    placed = 0
    for workload in asked:
        seconds, done = churn.step(workload)
        took.append(seconds)
        placed += done
    gc.unfreeze()
    took.sort()
    return {
        "scenario": name,
        "nodes": nodes,
        "decisions_per_second": round(decisions / sum(took)),
        "p50_us": round(took[len(took) // 2] * 1e6, 1),
        "p99_us": round(took[len(took) * 99 // 100] * 1e6, 1),
        "max_us": round(took[-1] * 1e6, 1),
        "placed": placed,
        "decisions": decisions,
        "load_seconds": round(load_seconds, 3),
    }


def main() -> None:
    """Run the scenarios asked for, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", default="10000", help="fleet sizes, by comma")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--decisions", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for nodes in map(int, options.nodes.split(",")):
        for name in options.scenarios.split(","):
            row = measure(name, nodes, options.decisions, options.seed)
            rows.append(row)
            print(
                f"{nodes:>6} nodes  {name:<18} {row['decisions_per_second']:>7}/s  "
                f"p50 {row['p50_us']} us  p99 {row['p99_us']} us  max {row['max_us']} us  "
                f"placed {row['placed']}/{row['decisions']}  load {row['load_seconds']} s",
                flush=True,
            )
    if options.json:
        result = {"machine": platform.machine(), "python": platform.python_version(), "runs": rows}
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
