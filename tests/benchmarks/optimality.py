"""How far policies are from the best packing of small clusters.

    python -m tests.benchmarks optimality --instances 1-15 --seconds 30 --json FILE

Instance n is 12 to 24 nodes drawn from a trace, and pods that arrive until their GPUs are all
asked for, both by seed n. CP-SAT knows all pods at once and may refuse some; the policies see one
pod after another and place what fits. What FILE has already is not run again, so a long run can be
made in parts. FGD knows the frequencies of the trace; `muster` has seen 1,000 requests before, of
pods drawn from the trace by another seed, `muster-cold` none.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from tests.benchmarks.baselines.fgd import Fgd, Fragmentation
from tests.benchmarks.baselines.fleet import Fleet, Scan
from tests.benchmarks.baselines.kubernetes import BestFit
from tests.benchmarks.baselines.muster import Muster
from tests.benchmarks.openb import (
    GPU_MILLI,
    TraceNode,
    TracePod,
    arrivals,
    load_nodes,
    load_pods,
)
from tests.benchmarks.optimum import Packing, best_packing, gpu_milli
from tests.benchmarks.options import data_folder, machine, numbers

NODES_MIN, NODES_MAX = 12, 24
HISTORY_PODS: Final = 1_000
GAP_MAX, AHEAD_MIN = 3.0, 1.0
"""Points that Muster may be away from CP-SAT, and has to be nearer to it than FGD."""


class Instance(NamedTuple):
    """Nodes, and pods in order of arrival."""

    seed: int
    nodes: list[TraceNode]
    pods: list[TracePod]

    @property
    def capacity_milli(self) -> int:
        """All GPUs."""
        return GPU_MILLI * sum(node.gpus for node in self.nodes)


class Placer(Protocol):
    """A policy at work."""

    def place(self, pod: TracePod) -> tuple[int, Sequence[int]] | None:
        """(node, GPUs), charged already; or None, and nothing changed."""


def _muster(fleet: Fleet, instance: Instance, trace: list[TracePod]) -> Placer:
    muster = Muster(fleet, instance.nodes, instance.seed)
    muster.learn(Random(~instance.seed).choices(trace, k=HISTORY_PODS))
    return muster


Make = Callable[[Fleet, Instance, list[TracePod]], Placer]

POLICIES: Final[dict[str, Make]] = {
    "muster": _muster,
    "muster-cold": lambda fleet, instance, _: Muster(fleet, instance.nodes, instance.seed),
    "fgd": lambda fleet, _, trace: Scan(fleet, Fgd(fleet, Fragmentation(fleet, trace))),
    "bestfit": lambda fleet, _, __: Scan(fleet, BestFit(fleet)),
}


def instance_of(seed: int, nodes: list[TraceNode], pods: list[TracePod]) -> Instance:
    """The instance of a seed."""
    draw = Random(seed)
    sample = draw.sample(nodes, draw.randint(NODES_MIN, NODES_MAX))
    left_milli = GPU_MILLI * sum(node.gpus for node in sample)
    arrived = []
    for pod in arrivals(pods, left_milli, seed):
        left_milli -= pod.gpu_milli
        if left_milli < 0:
            break
        arrived.append(pod)
    return Instance(seed, sample, arrived)


def placed_by(policy: str, instance: Instance, trace: list[TracePod]) -> Packing:
    """What a policy places, one pod after another."""
    fleet = Fleet(instance.nodes)
    placer = POLICIES[policy](fleet, instance, trace)
    places = [(placer.place(pod), pod) for pod in instance.pods]
    return Counter((place[0], pod) for place, pod in places if place is not None)


# ── the command ──────────────────────────────────────────────────────────────


def main() -> None:
    """Run the instances that are not in the file yet, print a line for each and the means."""
    options = _options()
    nodes, pods = load_nodes(options.nodes), load_pods(options.pods)
    rows = _known(options.json, options.seconds)
    for seed in numbers(options.instances):
        if str(seed) not in rows:
            instance = instance_of(seed, nodes, pods)
            rows[str(seed)] = _measure(instance, pods, options)
            _save(options, rows)
        _print(seed, rows[str(seed)])
    chosen = [rows[str(seed)] for seed in numbers(options.instances)]
    for name, figure in _summary(chosen)["policies"].items():
        print(f"{name:<12} mean gap {figure['gap']:.2f}, sd {figure['sd']:.2f}")
    _save(options, rows)


def _options() -> argparse.Namespace:
    data = data_folder() / "openb"
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="example: python -m tests.benchmarks optimality --instances 1-15 --seconds 30",
    )
    parser.add_argument("--nodes", type=Path, default=data / "openb_node_list_gpu_node.csv.gz")
    parser.add_argument("--pods", type=Path, default=data / "openb_pod_list_default.csv.gz")
    parser.add_argument("--instances", help="seeds, such as 1-50 or 3,9; 1-50 unless told")
    parser.add_argument("--seconds", type=float, help="for CP-SAT on each; 60 unless told")
    parser.add_argument("--workers", type=int, default=2, help="threads of CP-SAT")
    parser.add_argument("--short", action="store_true", help="instances 1-4, 10 seconds each")
    parser.add_argument("--json", type=Path, help="kept up to date, and read again")
    options = parser.parse_args()
    options.instances = options.instances or ("1-4" if options.short else "1-50")
    options.seconds = options.seconds or (10.0 if options.short else 60.0)
    return options


def _measure(
    instance: Instance, trace: list[TracePod], options: argparse.Namespace
) -> dict[str, Any]:
    placed = {name: placed_by(name, instance, trace) for name in POLICIES}
    found = best_packing(
        instance.nodes,
        instance.pods,
        hint=max(placed.values(), key=gpu_milli),
        seconds=options.seconds,
        workers=options.workers,
    )
    return {
        "nodes": len(instance.nodes),
        "gpus": instance.capacity_milli // GPU_MILLI,
        "pods": len(instance.pods),
        "seconds": options.seconds,
        "cpsat": {
            "allocation_percent": _percent(found.gpu_milli, instance),
            "bound_percent": _percent(found.bound_milli, instance),
        },
        "policies": {
            name: _percent(gpu_milli(packing), instance) for name, packing in placed.items()
        },
    }


def _percent(milli: int, instance: Instance) -> float:
    return round(100 * milli / instance.capacity_milli, 3)


def _summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    policies = {}
    for name in POLICIES:
        gaps = [row["cpsat"]["allocation_percent"] - row["policies"][name] for row in rows]
        policies[name] = {
            "gap": round(statistics.fmean(gaps), 3),
            "sd": round(statistics.stdev(gaps), 3) if gaps[1:] else 0.0,
            "worst": round(max(gaps), 3),
        }
    ahead = policies["fgd"]["gap"] - policies["muster"]["gap"]
    return {
        "instances": len(rows),
        "policies": policies,
        "bound_gap": round(
            statistics.fmean(
                row["cpsat"]["bound_percent"] - row["cpsat"]["allocation_percent"] for row in rows
            ),
            3,
        ),
        "passed": policies["muster"]["gap"] <= GAP_MAX and ahead >= AHEAD_MIN,
    }


def _print(seed: int, row: dict[str, Any]) -> None:
    best = row["cpsat"]
    policies = "  ".join(f"{name} {percent:.2f}" for name, percent in row["policies"].items())
    print(
        f"{seed:>4}: {row['nodes']} nodes, {row['gpus']} GPUs, {row['pods']} pods: CP-SAT "
        f"{best['allocation_percent']:.2f} (bound {best['bound_percent']:.2f})  {policies}",
        flush=True,
    )


def _known(path: Path | None, seconds: float) -> dict[str, Any]:
    """Rows of an earlier run that gave CP-SAT at least as long."""
    if path is None or not path.exists():
        return {}
    rows = json.loads(path.read_text())["rows"]
    return {seed: row for seed, row in rows.items() if row["seconds"] >= seconds}


def _save(options: argparse.Namespace, rows: dict[str, Any]) -> None:
    if options.json:
        result = {
            **_summary(list(rows.values())),
            "rows": rows,
            **machine(),
        }
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
