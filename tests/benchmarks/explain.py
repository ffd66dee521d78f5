"""How long a refusal takes, with its explanation, on a large full fleet (issue: p99 <= 1 ms).

    python -m tests.benchmarks explain --nodes 10000 --json FILE

The fleet is filled to 85 % with openb's sizes. Then each kind of request that cannot be placed
is asked for again and again while work ends and other work is placed, so that what was worked out
is out of date each time. Measured are `explain` alone and the whole refusal, as CPU time of the
thread; the first call for a shape, which builds its index, is shown apart.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from shared.core.decision import Refusal
from shared.core.model import GpuChoice, Level, Placement, TopologyRequest, Workload
from shared.core.placement import explain, place
from tests.benchmarks.core_throughput import Churn, fleet, single
from tests.benchmarks.options import machine
from tests.support import placing

FILL = 0.85
CHANGES = 4
"""Workloads that end, and are replaced, between two refusals."""

ASKED: dict[str, Workload] = {
    "no such product": placing.workload(
        placing.pods(placing.whole(1)), choice=GpuChoice(products=("TPU",))
    ),
    "too much CPU on one node": placing.workload(placing.pods(placing.whole(1), cpu_milli=95_000)),
    "a gang of whole nodes": placing.workload(
        placing.pods(placing.whole(8), 256, cpu_milli=64_000)
    ),
    "in one rack": placing.workload(
        placing.pods(placing.whole(1), 40, cpu_milli=1_000),
        topology=TopologyRequest(required=Level.RACK),
    ),
    "in one block": placing.workload(
        placing.pods(placing.whole(1), 200, cpu_milli=1_000),
        topology=TopologyRequest(required=Level.BLOCK),
    ),
    "unlike pods in one rack": placing.workload(
        placing.pods(placing.whole(2), 20, name="worker", cpu_milli=1_000),
        placing.pods(placing.whole(1), 20, name="loader", cpu_milli=1_000),
        topology=TopologyRequest(required=Level.RACK),
    ),
    "8 MIG GPUs on one node": placing.workload(placing.pods(placing.mig("7g.80gb", 8), 4)),
}


def measure(churn: Churn, asked: Workload, times: int) -> dict[str, Any]:
    """Milliseconds over `times` refusals, with changes between."""
    request = placing.request(asked)
    first = _timed(lambda: place(churn.cluster, request))
    whole, alone = [], []
    for _ in range(times):
        _change(churn)
        whole.append(_timed(lambda: place(churn.cluster, request)))
        _change(churn)
        alone.append(_timed(lambda: explain(churn.cluster, request)))
    answer = place(churn.cluster, request)
    assert isinstance(answer, Refusal), answer
    return {
        "reason": answer.reason.value,
        "first_ms": round(first, 3),
        "explain_p50_ms": _percentile(alone, 50),
        "explain_p99_ms": _percentile(alone, 99),
        "refusal_p99_ms": _percentile(whole, 99),
    }


def _change(churn: Churn) -> None:
    """Work ends, and other work is placed."""
    for _ in range(CHANGES):
        old, held = churn.live.pop(churn.draw.randrange(len(churn.live)))
        churn.cluster.release(old.team, held.pods, old.spec.pod_sets)
    for _ in range(CHANGES):
        workload = single(churn.draw)
        answer = place(churn.cluster, placing.request(workload))
        if isinstance(answer, Placement):
            churn.live.append((workload, answer))


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
    while cluster.gpu_milli_used() < FILL * cluster.gpu_milli_total():
        workload = single(churn.draw)
        answer = place(cluster, placing.request(workload))
        if isinstance(answer, Placement):
            churn.live.append((workload, answer))
        elif len(churn.live) > 12 * options.nodes:
            break
    rows = {}
    for name, asked in ASKED.items():
        rows[name] = measure(churn, asked, options.times)
        print(f"{name:<26} {rows[name]}", flush=True)
    worst = max(row["explain_p99_ms"] for row in rows.values())
    print(f"{options.nodes} nodes, worst p99 of an explanation {worst} ms")
    result = {
        "nodes": options.nodes,
        "seed": options.seed,
        "filled_percent": round(100 * cluster.gpu_milli_used() / cluster.gpu_milli_total(), 2),
        "requests": rows,
        "explain_p99_ms_worst": worst,
        "limits": {"pass": 1.0},
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
