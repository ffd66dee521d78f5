"""Does packing depend on what it should not: order of arrival, names of nodes, nodes that fail?

    python -m tests.benchmarks robustness --seeds 42-44 --json FILE

Each scenario asks a fleet of openb for the same set of pods (130 % of its GPUs), beside the
published procedure, which shuffles them. Figures are allocated GPU in percent of the capacity when
all was asked for; what a scenario loses or gains is in points of it.
- ascending, descending, by-name, mix: orders of arrival (tests/benchmarks/robustness_orders.py);
- report-order, names-reversed, names-by-size: the same machines, told in another order or
  with other names; names decide nothing but ties;
- failing: one machine in ten goes and one GPU in ten of the others turns unhealthy at 50 %, what
  ran on lost machines is asked for again, all is back at 90 %.
After each phase the ledger is summed up anew from what was placed, and a cluster rebuilt from it
must have the same digest. FGD is run on the same orders, for what an order costs by itself:
whoever takes what comes holds more shares of GPUs when these come first, and each leaves a
remainder. The bound beside an order is that of a clairvoyant who must place what Muster had placed
before it first refused a pod, and may refuse all else: what is missing to it is Muster's, what is
missing from it to the bound of the shuffled run is the order's.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from shared.core.model.nouns import Placement, Workload
from shared.core.placement.place import PlacementRequest, place
from shared.core.scoring.cluster import Cluster
from tests.benchmarks.baselines.fgd import Fgd, Fragmentation
from tests.benchmarks.baselines.fleet import Fleet, Scan
from tests.benchmarks.baselines.muster import node_of, request_of
from tests.benchmarks.openb import (
    TraceNode,
    TracePod,
    arrivals,
    load_nodes,
    load_pods,
    permuted,
)
from tests.benchmarks.options import data_folder, machine, numbers
from tests.benchmarks.robustness_orders import (
    ORDERS,
    NamedPod,
    class_of,
    order_bound_percent,
)

FAIL_AT, RETURN_AT = 0.5, 0.9
"""Asked for so far, as a part of the capacity."""
FAILING = 0.1


@dataclass
class Run:
    """A cluster, what was placed on it, and what was asked for so far."""

    cluster: Cluster
    nodes: dict[str, TraceNode]
    requests: dict[TracePod, PlacementRequest] = field(default_factory=dict)
    live: dict[int, tuple[TracePod, Workload, Placement]] = field(default_factory=dict)
    placed: int = 0
    asked: int = 0
    taken_first: int | None = None
    """Pods before the first that was refused."""

    def ask(self, pod: TracePod) -> None:
        """Place one pod, if it fits."""
        bare = class_of(pod)
        request = self.requests.get(bare)
        if request is None:
            request = self.requests[bare] = request_of(bare)
        answer = place(self.cluster, request)
        if isinstance(answer, Placement):
            self.live[self.placed] = pod, request.workload, answer
            self.placed += 1
        elif self.taken_first is None:
            self.taken_first = self.asked
        self.asked += 1

    def lose(self, name: str) -> list[TracePod]:
        """A machine goes; the pods that ran there."""
        self.cluster.remove_node(name)
        lost = [at for at, (_, _, held) in self.live.items() if held.pods[0].node == name]
        pods = []
        for at in lost:
            pod, workload, held = self.live.pop(at)
            self.cluster.release(workload.team, held.pods, workload.spec.pod_sets)
            pods.append(pod)
        return pods

    def check(self) -> None:
        """Every amount agrees with the sum over what was placed, and no limit is passed."""
        cpu_milli, memory_mib = Counter[str](), Counter[str]()
        gpu_milli = Counter[tuple[str, int]]()
        for pod, _, held in self.live.values():
            (one,) = held.pods
            cpu_milli[one.node] += pod.cpu_milli
            memory_mib[one.node] += pod.memory_mib
            for share in one.shares:
                gpu_milli[one.node, share.index] += share.milli
            assert not pod.models or self.nodes[one.node].model in pod.models
            assert len(one.shares) == pod.gpus
        assert sum(gpu_milli.values()) == self.cluster.gpu_milli_used()
        assert max(gpu_milli.values(), default=0) <= 1000
        for name, node in self.nodes.items():
            assert cpu_milli[name] <= node.cpu_milli
            assert memory_mib[name] <= node.memory_mib
            state = self.cluster.nodes.get(name)
            if state is not None:
                assert state.cpu_used_milli == cpu_milli[name]
                assert state.memory_used_mib == memory_mib[name]
                for index in range(node.gpus):
                    use = state.uses.get(index)
                    assert gpu_milli[name, index] == (use.milli if use else 0)
        assert self._rebuilt().digest() == self.cluster.digest()

    def _rebuilt(self) -> Cluster:
        anew = Cluster()
        for state in self.cluster.nodes.values():
            if state.inventory is not None:
                anew.put_node(state.inventory)
        for _, workload, held in self.live.values():
            anew.charge(workload.team, held.pods, workload.spec.pod_sets)
        return anew

    def allocated_percent(self) -> float:
        """Of all GPUs of the machines, there or not."""
        capacity_milli = 1000 * sum(node.gpus for node in self.nodes.values())
        return 100 * self.cluster.gpu_milli_used() / capacity_milli


def start(nodes: Sequence[TraceNode], seed: int) -> Run:
    """An empty fleet."""
    run = Run(Cluster(seed=seed), {node.name: node for node in nodes})
    for node in nodes:
        run.cluster.put_node(node_of(node))
    return run


def all_of(run: Run, pods: Sequence[TracePod]) -> float:
    """Ask for all in order, in four phases; percent allocated then."""
    quarter = -(-len(pods) // 4)
    for first in range(0, len(pods), quarter):
        for pod in pods[first : first + quarter]:
            run.ask(pod)
        run.check()
    return run.allocated_percent()


# ── the same machines under other names ──────────────────────────────────────


def renamed(nodes: Sequence[TraceNode], order: Sequence[TraceNode]) -> list[TraceNode]:
    """`nodes`, of which the first of `order` gets the first name, and so on."""
    names = dict(zip((node.name for node in order), sorted(n.name for n in nodes), strict=True))
    return [replace(node, name=names[node.name]) for node in nodes]


Rename = Callable[[Sequence[TraceNode]], Sequence[TraceNode]]
NAMES: dict[str, Rename] = {
    "report-order": lambda nodes: nodes[::-1],
    "names-reversed": lambda nodes: renamed(nodes, sorted(nodes, key=lambda n: n.name)[::-1]),
    "names-by-size": lambda nodes: renamed(
        nodes, sorted(nodes, key=lambda n: (n.gpus, n.model, n.cpu_milli, n.name))
    ),
}


# ── failures ─────────────────────────────────────────────────────────────────


def failing(run: Run, pods: Sequence[TracePod], seed: int) -> float:
    """Machines and GPUs go and come back while pods arrive; percent allocated at the end."""
    draw = Random(seed)
    names = sorted(run.nodes)
    lost = draw.sample(names, int(FAILING * len(names)))
    sick = [
        (name, gpu)
        for name in sorted(set(names) - set(lost))
        for gpu in range(run.nodes[name].gpus)
        if draw.random() < FAILING
    ]
    capacity_milli = run.cluster.gpu_milli_total()
    asked_milli, phase = 0, 0
    for pod in pods:
        run.ask(pod)
        asked_milli += pod.gpu_milli
        if phase == 0 and asked_milli >= FAIL_AT * capacity_milli:
            phase = 1
            run.check()
            _fail(run, lost, sick)
        elif phase == 1 and asked_milli >= RETURN_AT * capacity_milli:
            phase = 2
            run.check()
            _return(run, lost, sick)
    run.check()
    assert phase == 2
    return run.allocated_percent()


def _fail(run: Run, lost: Sequence[str], sick: Sequence[tuple[str, int]]) -> None:
    for name, gpu in sick:
        run.cluster.set_gpu_health(name, gpu, False)
    again = [pod for name in lost for pod in run.lose(name)]
    run.check()
    for pod in again:
        run.ask(pod)
    run.check()


def _return(run: Run, lost: Sequence[str], sick: Sequence[tuple[str, int]]) -> None:
    for name in lost:
        run.cluster.put_node(node_of(run.nodes[name]))
    for name, gpu in sick:
        run.cluster.set_gpu_health(name, gpu, True)
    run.check()


# ── all of it ────────────────────────────────────────────────────────────────


def scenarios(
    nodes: list[TraceNode], pods: list[NamedPod], seed: int, bounds: dict[str, list[float]] | None
) -> dict[str, float]:
    """Percent allocated in each, for one seed; adds the bounds of the orders to `bounds`."""
    fleet = permuted(nodes, seed)
    capacity_milli = 1000 * sum(node.gpus for node in nodes)
    arriving = arrivals(list(pods), capacity_milli, seed)
    assert all(isinstance(pod, NamedPod) for pod in arriving)
    found = {}
    for name, order in ORDERS.items():
        run, asked = start(fleet, seed), order(arriving, seed)  # type: ignore[arg-type]
        found[name] = all_of(run, asked)
        if bounds is not None:
            taken = len(asked) if run.taken_first is None else run.taken_first
            bounds.setdefault(name, []).append(order_bound_percent(nodes, asked, taken))
    for name, rename in NAMES.items():
        found[name] = all_of(start(rename(fleet), seed), arriving)
    found["failing"] = failing(start(fleet, seed), arriving, seed)
    return found


def fgd_orders(nodes: list[TraceNode], pods: list[NamedPod], seed: int) -> dict[str, float]:
    """The same orders for FGD, which knows the frequencies of the whole trace."""
    found = {}
    classes = [class_of(pod) for pod in pods]
    for name, order in ORDERS.items():
        fleet = Fleet(permuted(nodes, seed))
        policy = Scan(fleet, Fgd(fleet, Fragmentation(fleet, classes)))
        arriving = arrivals(list(pods), fleet.capacity_milli, seed)
        asked = [class_of(pod) for pod in order(arriving, seed)]  # type: ignore[arg-type]
        placed_milli = sum(pod.gpu_milli for pod in asked if policy.place(pod) is not None)
        found[name] = 100 * placed_milli / fleet.capacity_milli
    return found


def compared(runs: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """By scenario: the mean, its sd, and the difference to the shuffled run of the same seed."""
    rows = {}
    for name in runs[0]:
        values = [run[name] for run in runs]
        differences = [run[name] - run["shuffled"] for run in runs]
        rows[name] = {
            "allocation_percent": round(statistics.fmean(values), 3),
            "sd": round(statistics.stdev(values), 3) if len(values) > 1 else 0.0,
            "difference": round(statistics.fmean(differences), 3),
            "worst": round(min(differences), 3),
            "widest": round(max(map(abs, differences)), 3),
        }
    return rows


def main() -> None:
    """Run all scenarios for each seed, print a line for each scenario."""
    options = _options()
    nodes = load_nodes(options.nodes)
    pods = [
        NamedPod(
            cpu_milli=pod.cpu_milli,
            memory_mib=pod.memory_mib,
            gpus=pod.gpus,
            milli=pod.milli,
            models=pod.models,
            number=number,
        )
        for number, pod in enumerate(load_pods(options.pods))
    ]
    seeds = numbers(options.seeds)
    found_bounds: dict[str, list[float]] | None = {} if options.bound else None
    muster = compared([scenarios(nodes, pods, seed, found_bounds) for seed in seeds])
    bounds = {name: statistics.fmean(each) for name, each in (found_bounds or {}).items()}
    by_order = {name: each - bounds["shuffled"] for name, each in bounds.items()}
    fgd = compared([fgd_orders(nodes, pods, seed) for seed in seeds]) if options.fgd else {}
    for name, row in muster.items():
        beside = f"   FGD {fgd[name]['difference']:+.2f}" if name in fgd else ""
        if name in bounds:
            beside += f"   bound {bounds[name]:.2f} ({by_order[name]:+.2f} by the order)"
        print(
            f"{name:<15} {row['allocation_percent']:6.2f} (sd {row['sd']:.2f})  "
            f"{row['difference']:+.2f} points, worst seed {row['worst']:+.2f}{beside}"
        )
    result: dict[str, Any] = {
        "workload": options.pods.name.partition(".")[0],
        "seeds": seeds,
        "policies": {"muster": muster, "fgd": fgd},
        "bound": {
            "allocation_percent": {name: round(each, 3) for name, each in bounds.items()},
            "difference": {name: round(each, 3) for name, each in by_order.items()},
        },
        "invariants": "checked after every phase",
        "limits": {"pass": 0.5, "aim": 0.3},
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _options() -> argparse.Namespace:
    data = data_folder() / "openb"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=Path, default=data / "openb_node_list_gpu_node.csv.gz")
    parser.add_argument("--pods", type=Path, default=data / "openb_pod_list_default.csv.gz")
    parser.add_argument("--seeds", default="42-46", help="such as 42-51, or 1,5,9")
    parser.add_argument("--fgd", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument(
        "--bound", action=argparse.BooleanOptionalAction, default=True, help="by ortools"
    )
    parser.add_argument("--short", action="store_true", help="two seeds, without FGD and bounds")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.seeds, options.fgd, options.bound = "42-43", False, False
    return options


if __name__ == "__main__":
    main()
