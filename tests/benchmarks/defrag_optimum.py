"""The fewest moves that any plan needs, by CP-SAT: the measure of defragmentation.

Each workload may be anywhere at the end; it counts as moved unless it is on its node (a share: on
its GPU). The gang's nodes end up with nobody else. In which order the moves are made is left out:
a plan that needs a spare place in between may be impossible for us, so the optimum is a bound.
Only single pods without MIG, which is what the traces have.
"""

from __future__ import annotations

from dataclasses import dataclass

from ortools.sat.python import cp_model

from shared.core.model.nouns import Node, PodSet
from tests.benchmarks.fragmented import Fragmented

GPU_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Optimum:
    """`moves` of the best plan found, None if there is none; `bound` below which there is none."""

    moves: int | None
    bound: int
    proven: bool


def fewest_moves(state: Fragmented, gang: PodSet, seconds: float) -> Optimum:
    """Moves after which `gang.count` nodes can hold a pod of `gang` that takes all their GPUs."""
    model = cp_model.CpModel()
    nodes = [each.inventory for each in state.cluster.nodes.values() if each.inventory]
    held = {node.name: _Held(model, node, gang) for node in nodes}
    stays = []
    for name in sorted(state.running):
        running = state.running[name]
        (pod,) = running.placement.pods
        products = running.workload.spec.gpu_choice.products
        (pod_set,) = running.workload.spec.pod_sets
        places: list[cp_model.IntVar] = []
        for node in nodes:
            if products and node.product not in products:
                continue
            gpu = pod.shares[0].index if pod.shares and node.name == pod.node else -1
            places += held[node.name].admit(pod_set, name, at=gpu, here=node.name == pod.node)
            if node.name == pod.node:
                stays.append(held[node.name].same)
        model.add_exactly_one(places)
    whole = [each.given for each in held.values() if each.given is not None]
    for each in held.values():
        each.close()
    model.add(sum(whole) == gang.count)
    model.minimize(len(stays) - sum(stays))
    return _solve(model, seconds)


def _solve(model: cp_model.CpModel, seconds: float) -> Optimum:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    status = solver.solve(model)
    proven = status in {cp_model.OPTIMAL, cp_model.INFEASIBLE}
    found = status in {cp_model.OPTIMAL, cp_model.FEASIBLE}
    moves = round(solver.objective_value) if found else None
    return Optimum(moves, round(solver.best_objective_bound) if found else 0, proven)


class _Held:
    """What one node holds at the end, as sums of variables."""

    def __init__(self, model: cp_model.CpModel, node: Node, gang: PodSet) -> None:
        self._model = model
        self._node = node
        self._gang = gang
        self._cpu_milli: list[tuple[cp_model.IntVar, int]] = []
        self._memory_mib: list[tuple[cp_model.IntVar, int]] = []
        self._gpus: list[tuple[cp_model.IntVar, int]] = []
        self._shares: dict[int, list[tuple[cp_model.IntVar, int]]] = {}
        self.same: cp_model.IntVar
        """Whether the last one admitted stays where it is."""
        fits = len(node.gpus) == gang.gpu.count and node.cpu_milli >= (gang.cpu_milli or 0)
        self.given = model.new_bool_var(f"gang {node.name}") if fits else None

    def admit(self, pods: PodSet, name: str, *, at: int, here: bool) -> list[cp_model.IntVar]:
        """The places that a pod may take here; `at` is its GPU if it is `here` now."""
        places = []
        gpus = range(len(self._node.gpus)) if pods.gpu.milli else (-1,)
        if pods.gpu.count > len(self._node.gpus) or (pods.cpu_milli or 0) > self._node.cpu_milli:
            return []
        for gpu in gpus:
            taken = self._model.new_bool_var(f"{name} {self._node.name} {gpu}")
            places.append(taken)
            self._cpu_milli.append((taken, pods.cpu_milli or 0))
            self._memory_mib.append((taken, pods.memory_mib or 0))
            if pods.gpu.milli:
                self._shares.setdefault(gpu, []).append((taken, pods.gpu.milli))
            elif pods.gpu.count:
                self._gpus.append((taken, pods.gpu.count))
            if here and (gpu == at or not pods.gpu.milli):
                self.same = taken
        return places

    def close(self) -> None:
        """Nothing is given twice."""
        model = self._model
        opened = {gpu: model.new_bool_var(f"open {gpu}") for gpu in self._shares}
        for gpu, shares in self._shares.items():
            model.add(sum(var * milli for var, milli in shares) <= GPU_MILLI * opened[gpu])
        for amounts, capacity, wanted in (
            (self._cpu_milli, self._node.cpu_milli, self._gang.cpu_milli or 0),
            (self._memory_mib, self._node.memory_mib, self._gang.memory_mib or 0),
            (
                [*self._gpus, *((var, 1) for var in opened.values())],
                len(self._node.gpus),
                self._gang.gpu.count,
            ),
        ):
            total = sum(var * amount for var, amount in amounts)
            if self.given is not None:
                total += self.given * wanted
            model.add(total <= capacity)
