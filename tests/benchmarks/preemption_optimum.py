"""The cheapest victims by CP-SAT, on clusters small enough for a proof.

Whole workloads of whole GPUs, some on several nodes; the gang that comes wants pods of some GPUs
each, anywhere. A workload that goes leaves all its nodes; a node has room for as many pods as its
free GPUs hold. Costs are those that the search compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from ortools.sat.python import cp_model

from shared.core.model.charges import least_amount
from shared.core.model.nouns import Workload
from shared.core.preemption.eligibility.occupants import Occupants
from shared.core.preemption.eligibility.rules import EligibilityJudge
from shared.core.preemption.eligibility.screen import Screen
from shared.core.preemption.victims.choose import EvictionPlan, choose_victims
from tests.benchmarks.baselines.evictions import SERVICE_RULES
from tests.benchmarks.preemption_mix import (
    CHECKPOINT_SECONDS,
    FLAVOR,
    GANG_PRIORITY,
    GPUS,
    State,
    Work,
    request,
    workload_of,
)

NOW_MS: Final = 100_000_000
SCALE: Final = 1000
"""CP-SAT minimises GPU-seconds."""


@dataclass(frozen=True, slots=True)
class Case:
    """A full cluster, and who comes."""

    state: State
    gang: Workload


def case(nodes: int, seed: int) -> Case:
    """Spot work of 1 to 8 GPUs and gangs of 2 to 4 nodes, until nothing fits."""
    draw = Random(seed)
    state = State(nodes)
    shapes = [(GPUS, draw.choice((2, 3, 4))) for _ in range(nodes // 8)]
    while len(shapes) < nodes * GPUS:
        shapes.append((draw.choice((1, 1, 1, 2, 2, 4, 8)), draw.choice((1, 1, 1, 1, 2))))
    for number, (gpus, pods) in enumerate(shapes):
        state.now_ms = NOW_MS - draw.choice((600, 7_200, 86_400)) * draw.randrange(1, 1000)
        checkpoint = draw.choice(CHECKPOINT_SECONDS)
        priority = draw.choice((0, 10, 20))
        work = workload_of(
            f"s{number:04}", gpus, pods, priority=priority, checkpoint_seconds=checkpoint
        )
        state.start(Work(work, 0, 0, checkpoint * 1000))
    state.now_ms = NOW_MS
    pods = draw.randint(1, nodes // 2)
    gang = workload_of("gang", draw.choice((1, 2, 4, 8, 8, 8)), pods, priority=GANG_PRIORITY)
    return Case(state, gang)


def compare(nodes: int, seed: int, seconds: float) -> tuple[int, int, bool] | None:
    """(our cost, the best known, whether it is proven), in GPU-seconds; None if it fits as is."""
    made = case(nodes, seed)
    state, gang = made.state, made.gang
    plan = choose_victims(
        state.cluster, state.tree, state.occupants, request(gang), SERVICE_RULES, now_ms=NOW_MS
    )
    if not isinstance(plan, EvictionPlan):
        return None
    best, proven = _optimum(state, gang, seconds)
    return plan.cost_gpu_ms // SCALE, best, proven


def _optimum(state: State, gang: Workload, seconds: float) -> tuple[int, bool]:
    model = cp_model.CpModel()
    costs = _costs(state, gang)
    goes = {name: model.new_bool_var(name) for name in costs}
    (pod_set,) = gang.spec.pod_sets
    room = []
    for node in state.cluster.nodes.values():
        pods = model.new_int_var(0, GPUS // pod_set.gpu.count, f"room {node.name}")
        freed = [
            sum(len(pod.shares) for pod in state.occupants.tenants.pods_on(each, node.name))
            * goes[each.id]
            for each in state.occupants.tenants.on(node.name)
        ]
        model.add(pod_set.gpu.count * pods <= node.free_count + sum(freed))
        room.append(pods)
    model.add(sum(room) >= pod_set.count)
    model.minimize(sum(cost * goes[name] for name, cost in costs.items()))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status in {cp_model.OPTIMAL, cp_model.FEASIBLE}
    return int(solver.objective_value), status == cp_model.OPTIMAL


def _costs(state: State, gang: Workload) -> dict[str, int]:
    occupants: Occupants = state.occupants
    judge = EligibilityJudge(
        state.tree,
        SERVICE_RULES,
        gang,
        least_amount(gang.spec),
        flavor=FLAVOR,
        now_ms=NOW_MS,
    )
    screen = Screen(occupants, judge)
    return {
        name: int(screen.rate_ms[row]) * int(occupants.workloads["weight"][row]) // 1000 // SCALE
        for name, row in occupants.row_of.items()
    }
