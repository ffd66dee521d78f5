"""How many moves it takes to let blocked gangs start.

    python -m tests.benchmarks defrag --seeds 42-44 --gangs 20 --instances 20 --json FILE

1. On the whole fleet: openb filled to 100 % arrival, 30 % of the workloads gone, then gangs of 2
   to 8 whole nodes one after the other. Beside the moves of each stands what counting gives: the
   sum of the fewest workloads on as many nodes, which ignores that they must go somewhere.
2. On samples of 24 nodes, one gang each: the moves of our plan beside the fewest by CP-SAT, which
   may use any order of moves (tests/benchmarks/defrag_optimum.py).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from shared.core.model.nouns import Placement
from shared.core.placement.place import PlacementRequest, place
from shared.core.preemption.defragmentation.defragment import NoPlan, Plan, defragment
from tests.benchmarks.fragmented import (
    GANG_CPU_MILLI,
    WHOLE_NODE_GPUS,
    Fragmented,
    fragmented,
    whole_nodes,
)
from tests.benchmarks.openb import TraceNode, TracePod, load_nodes, load_pods
from tests.benchmarks.options import data_folder, machine, numbers

SAMPLE_NODES = 24
GANG_NODES = (2, 8)


def on_the_fleet(
    nodes: list[TraceNode], pods: list[TracePod], seed: int, gangs: int
) -> list[dict[str, Any]]:
    """One row for each gang that was blocked."""
    state = fragmented(nodes, pods, seed)
    draw = Random(seed)
    rows = []
    for number in range(gangs):
        request = whole_nodes(number, draw.randint(*GANG_NODES))
        answer = place(state.cluster, request)
        if not isinstance(answer, Placement):
            rows.append(_unblock(state, request))
            answer = place(state.cluster, request)
            assert isinstance(answer, Placement) == ("moves" in rows[-1]), answer
        if isinstance(answer, Placement):
            state.start(request.workload, answer)
    return rows


def _unblock(state: Fragmented, request: PlacementRequest) -> dict[str, Any]:
    """Carry out a plan for the gang, if there is one; what it took."""
    pods = request.workload.pods
    row: dict[str, Any] = {"nodes": pods, "counting_bound": counted(state, pods)}
    start = time.thread_time()
    plan = defragment(state.cluster, state.running.values(), request)
    row["cpu_seconds"] = round(time.thread_time() - start, 3)
    if isinstance(plan, NoPlan):
        return row | {"no_plan": plan.obstacle.value}
    state.carry_out(plan)
    return row | {"moves": len(plan.moves), "pods_moved": plan.pods_moved}


def counted(state: Fragmented, nodes: int) -> int:
    """Moves without which `nodes` machines cannot be free: fewest tenants with GPUs on as many.

    Machines with one tenant on all GPUs are left out: wherever it went, another would have to be
    emptied for it.
    """
    on = Counter[str]()
    full = set[str]()
    for each in state.running.values():
        for pod in each.placement.pods:
            on[pod.node] += bool(pod.shares)
            if len(pod.shares) == WHOLE_NODE_GPUS:
                full.add(pod.node)
    machines = (each.inventory for each in state.cluster.nodes.values())
    able = [
        on[each.name]
        for each in machines
        if each
        and len(each.gpus) == WHOLE_NODE_GPUS
        and each.cpu_milli >= GANG_CPU_MILLI
        and each.name not in full
    ]
    return sum(sorted(able)[:nodes])


def on_a_sample(
    nodes: list[TraceNode], pods: list[TracePod], seed: int, seconds: float
) -> dict[str, Any]:
    """Our moves and the fewest, for one gang on a few machines with 8 GPUs."""
    from tests.benchmarks.defrag_optimum import fewest_moves  # noqa: PLC0415  # optional extra

    draw = Random(seed)
    whole = [node for node in nodes if node.gpus == WHOLE_NODE_GPUS]
    state = fragmented(draw.sample(whole, SAMPLE_NODES), pods, seed)
    size = draw.randint(*GANG_NODES)
    while _fits(state, whole_nodes(0, size)):
        size += 1
    request = whole_nodes(0, size)
    ours = defragment(state.cluster, state.running.values(), request)
    best = fewest_moves(state, request.workload.spec.pod_sets[0], seconds)
    return {
        "seed": seed,
        "nodes": size,
        "moves": len(ours.moves) if isinstance(ours, Plan) else None,
        "cp_sat_moves": best.moves,
        "cp_sat_bound": best.bound,
        "proven": best.proven,
        "counting_bound": counted(state, size),
    }


def _fits(state: Fragmented, request: PlacementRequest) -> bool:
    answer = place(state.cluster, request)
    if isinstance(answer, Placement):
        workload = request.workload
        state.cluster.release(workload.team, answer.pods, workload.spec.pod_sets)
        return True
    return False


def main() -> None:
    """Run both parts, print what they found."""
    options = _options()
    nodes, pods = load_nodes(options.nodes), load_pods(options.pods)
    seeds = numbers(options.seeds)
    fleet = {seed: on_the_fleet(nodes, pods, seed, options.gangs) for seed in seeds}
    for seed, rows in fleet.items():
        print(f"seed {seed}: {_fleet_line(rows)}", flush=True)
    samples = []
    for number in range(options.instances):
        samples.append(on_a_sample(nodes, pods, seeds[0] + number, options.seconds))
        print(samples[-1], flush=True)
    summary = compared(samples)
    print(summary)
    result = {
        "seeds": seeds,
        "fleet": fleet,
        "samples": samples,
        "compared_with_cp_sat": summary,
        "limits": {"pass": 1.2, "aim": 1.1},
        **machine(),
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


def _fleet_line(rows: list[dict[str, Any]]) -> str:
    planned = [row for row in rows if "moves" in row]
    moves = sum(row["moves"] for row in planned)
    bound = sum(row["counting_bound"] for row in planned)
    seconds = [row["cpu_seconds"] for row in rows]
    return (
        f"{len(rows)} gangs blocked, {len(planned)} unblocked by "
        f"{moves / max(len(planned), 1):.1f} moves each, {sum(r['pods_moved'] for r in planned)} "
        f"pods disturbed; counting bound {bound} of {moves}; "
        f"{statistics.fmean(seconds or [0]):.2f} s each"
    )


def compared(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Moves in all over the instances that both solve, and how often only one does."""
    both = [row for row in samples if row["moves"] and row["cp_sat_moves"]]
    ours, best = sum(r["moves"] for r in both), sum(r["cp_sat_moves"] for r in both)
    bound = sum(r["cp_sat_bound"] for r in both)
    return {
        "instances": len(samples),
        "solved_by_both": len(both),
        "proven_optimal": sum(row["proven"] for row in both),
        "only_by_cp_sat": sum(not r["moves"] and bool(r["cp_sat_moves"]) for r in samples),
        "only_by_muster": sum(bool(r["moves"]) and not r["cp_sat_moves"] for r in samples),
        "moves": ours,
        "cp_sat_moves": best,
        "cp_sat_bound": bound,
        "ratio": round(ours / best, 3) if best else None,
        "ratio_to_bound": round(ours / bound, 3) if bound else None,
        "ratio_worst": max((round(r["moves"] / r["cp_sat_moves"], 2) for r in both), default=None),
    }


def _options() -> argparse.Namespace:
    data = data_folder() / "openb"
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=Path, default=data / "openb_node_list_gpu_node.csv.gz")
    parser.add_argument("--pods", type=Path, default=data / "openb_pod_list_default.csv.gz")
    parser.add_argument("--seeds", default="42-44", help="such as 42-51, or 1,5,9")
    parser.add_argument("--gangs", type=int, default=20, help="asked for on the whole fleet")
    parser.add_argument("--instances", type=int, default=20, help="samples for CP-SAT, 0: none")
    parser.add_argument("--seconds", type=float, default=20.0, help="for CP-SAT, each sample")
    parser.add_argument("--short", action="store_true", help="one seed, 6 gangs, 4 samples")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.short:
        options.seeds, options.gangs, options.instances = "42", 6, 4
    return options


if __name__ == "__main__":
    main()
