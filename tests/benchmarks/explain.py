"""How long a refusal takes, with its explanation, on a large full fleet (issue: p99 <= 1 ms).

    python -m tests.benchmarks explain --nodes 10000 --json FILE

The fleet is filled with openb's sizes until pods are refused, then work of all of it ends until
85 % are in use: nearly no node is free, and none is like another. Then each kind of request that
cannot be placed is asked for again and again while work ends and other work is placed, so that
what was worked out is out of date each time. Measured are `explain` alone and the whole refusal,
as CPU time of the thread; the first call for a shape, which builds its index, is shown apart.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from shared.core.model.decision import Refusal
from shared.core.model.nouns import GpuChoice, Level, Placement, TopologyRequest, Workload
from shared.core.placement.place import explain, place
from shared.runtime.garbage import relax_garbage_collection
from tests.benchmarks.explain_fleet import fleet, single
from tests.benchmarks.options import machine
from tests.support import placing
from tests.support.churn import Churn

FILL = 0.85
REFUSED_MAX = 500
"""Pods that find no place before the fleet counts as full."""
CHANGES = 4
"""Workloads that end, and are replaced, between two refusals."""

ASKED: dict[str, Workload] = {
    "no such product": placing.workload(
        placing.pods(placing.whole(1)), choice=GpuChoice(products=("TPU",))
    ),
    "too much CPU on one node": placing.workload(placing.pods(placing.whole(1), cpu_milli=97_000)),
    "too much memory on one node": placing.workload(
        placing.pods(placing.whole(1), cpu_milli=1_000, memory_mib=1 << 30)
    ),
    "a gang of whole nodes": placing.workload(
        placing.pods(placing.whole(8), 256, cpu_milli=64_000)
    ),
    "in one rack": placing.workload(
        placing.pods(placing.whole(1), 40, cpu_milli=1_000),
        topology=TopologyRequest(required=Level.RACK),
    ),
    "in one block": placing.workload(
        placing.pods(placing.whole(1), 1000, cpu_milli=1_000),
        topology=TopologyRequest(required=Level.BLOCK),
    ),
    "unlike pods in one rack": placing.workload(
        placing.pods(placing.whole(2), 20, name="worker", cpu_milli=1_000),
        placing.pods(placing.whole(1), 20, name="loader", cpu_milli=1_000),
        topology=TopologyRequest(required=Level.RACK),
    ),
    "8 MIG GPUs on one node": placing.workload(placing.pods(placing.mig("7g.80gb", 8), 2000)),
    "60 instances on one node": placing.workload(placing.pods(placing.mig("1g.10gb", 60))),
    "4,096 shares": placing.workload(
        placing.pods(placing.share(900, 70_000), 4096, cpu_milli=1_000)
    ),
    "4,096 pods without GPU in one rack": placing.workload(
        placing.pods(placing.whole(0), 4096, cpu_milli=1_000),
        topology=TopologyRequest(required=Level.RACK),
    ),
    "4,096 MIG pods in one block": placing.workload(
        placing.pods(placing.mig("1g.10gb"), 4096),
        topology=TopologyRequest(required=Level.BLOCK),
    ),
}


def measure(churn: Churn, asked: Workload, times: int) -> dict[str, Any]:
    """Milliseconds over `times` refusals, with changes between."""
    first, _ = _decide(churn, asked)
    whole: list[float] = []
    alone: list[float] = []
    reasons: Counter[str] = Counter()
    for _ in range(times):
        _change(churn)
        took, answer = _decide(churn, asked)
        if isinstance(answer, Refusal):
            whole.append(took)
        _change(churn)
        took = _timed(lambda: explain(churn.cluster, placing.request(asked)))
        _, answer = _decide(churn, asked)
        if isinstance(answer, Refusal):
            alone.append(took)
            reasons[answer.reason.value] += 1
    assert alone, f"{asked.spec} fits"
    return {
        "reasons": dict(reasons),
        "first_ms": round(first, 3),
        "explain_p50_ms": _percentile(alone, 50),
        "explain_p99_ms": _percentile(alone, 99),
        "refusal_p99_ms": _percentile(whole, 99),
    }


def _decide(churn: Churn, asked: Workload) -> tuple[float, Placement | Refusal]:
    """(milliseconds, answer); what fits, because enough came free just now, goes at once."""
    request = placing.request(asked)
    start = time.thread_time()
    answer = place(churn.cluster, request)
    took = 1000 * (time.thread_time() - start)
    if isinstance(answer, Placement):
        churn.cluster.release(asked.team, answer.pods, asked.spec.pod_sets)
    return took, answer


def _fill(churn: Churn) -> None:
    refused = 0
    while refused < REFUSED_MAX:
        refused += not _come(churn)
    while churn.cluster.gpu_milli_used() > FILL * churn.cluster.gpu_milli_total():
        _go(churn)


def _come(churn: Churn) -> bool:
    """Whether the next pod finds a place."""
    workload = single(churn.draw)
    answer = place(churn.cluster, placing.request(workload))
    if isinstance(answer, Placement):
        churn.live.append((workload, answer))
    return isinstance(answer, Placement)


def _go(churn: Churn) -> None:
    old, held = churn.live.pop(churn.draw.randrange(len(churn.live)))
    churn.cluster.release(old.team, held.pods, old.spec.pod_sets)


def _change(churn: Churn) -> None:
    """Work ends, and other work is placed."""
    for _ in range(CHANGES):
        _go(churn)
    for _ in range(CHANGES):
        _come(churn)


def _timed(call: Callable[[], object]) -> float:
    start = time.thread_time()
    call()
    return 1000 * (time.thread_time() - start)


def _percentile(values: list[float], percent: int) -> float:
    return round(sorted(values)[min(len(values) * percent // 100, len(values) - 1)], 3)


def main() -> None:
    """Fill the fleet, print a line for each request."""
    options = _options()
    cluster, _ = fleet(options.nodes)
    churn = Churn(cluster, Random(options.seed), [])
    _fill(churn)
    relax_garbage_collection()
    rows = {}
    for name, asked in ASKED.items():
        rows[name] = measure(churn, asked, options.times)
        print(f"{name:<34} {rows[name]}", flush=True)
    worst = max(row["explain_p99_ms"] for row in rows.values())
    print(f"{options.nodes} nodes, worst p99 of an explanation {worst} ms")
    result = {
        "nodes": options.nodes,
        "seed": options.seed,
        "filled_percent": round(100 * cluster.gpu_milli_used() / cluster.gpu_milli_total(), 2),
        "requests": rows,
        "explain_p99_ms_worst": worst,
        "first_ms_worst": max(row["first_ms"] for row in rows.values()),
        "limits": {"explain_p99_ms": 1.0, "first_ms": 20.0},
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=500, help="refusals of each kind")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--short", action="store_true", help="2,000 nodes, 200 refusals")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.nodes, options.times = 2_000, 200
    return options


if __name__ == "__main__":
    main()
