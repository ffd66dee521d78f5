"""What no scheduler can exceed: a linear program over all pods that arrived, some may be refused.

Nodes that are alike are one group, pods may be cut across its nodes, and single-GPU shares fill
GPUs by cutting patterns (Gilmore and Gomory 1961), which are found as they are needed: so what the
sizes of shares waste on every GPU counts, what CPU wastes on single nodes does not. Maximal is the
GPU given away. Solved by ortools' GLOP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ortools.linear_solver import pywraplp

from tests.benchmarks.openb import GPU_MILLI, TraceNode, TracePod

EPSILON: Final = 1e-7
MISSING_MILLI: Final = 100 * GPU_MILLI
"""Price of a pod that must be placed and is not: beyond what its place could ever be worth."""
ROUNDS_MAX: Final = 200
"""Of new patterns; each round finds the best one of each group."""


class NoBound(Exception):  # noqa: N818  # says what is missing
    """The solver ends without an optimum: nothing is known of what can be allocated at most."""


class Group(NamedTuple):
    """Nodes of one shape."""

    model: str
    cpu_milli: int
    memory_mib: int
    gpus: int


def allocation_bound_percent(
    nodes: Sequence[TraceNode], pods: Iterable[TracePod], taken: Counter[TracePod] | None = None
) -> float:
    """Percent of the GPUs of `nodes` that can be given to `pods` at the very most.

    All of `taken`, which are among them, must be placed.

    Raises:
        NoBound: the solver gives up, as GLOP does on some traces for want of precision.
    """
    groups = Counter(
        Group(node.model, node.cpu_milli, node.memory_mib, node.gpus) for node in nodes
    )
    program = _Program(groups, Counter(pods), taken or Counter())
    capacity_milli = GPU_MILLI * sum(node.gpus for node in nodes)
    return 100 * program.solve() / capacity_milli


class _Program:
    """The variables: pods of a class in a group, and GPUs of a group cut by a pattern."""

    def __init__(
        self, groups: Counter[Group], pods: Counter[TracePod], taken: Counter[TracePod]
    ) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._goal = self._solver.Objective()
        self._goal.SetMaximization()
        self._short: list[Any] = []
        self._groups = [_GroupRows(self._solver, each, nodes) for each, nodes in groups.items()]
        self._sizes = sorted({pod.milli for pod in pods if _is_share(pod)})
        for rows in self._groups:
            for milli in self._sizes:
                rows.shares[milli] = self._solver.Constraint(-self._solver.infinity(), 0)
                self._cut(rows, {milli: GPU_MILLI // milli})
        for pod, count in pods.items():
            arrived = self._solver.Constraint(taken[pod], count)
            if taken[pod]:
                self._missing(arrived)
            for rows in self._groups:
                if _fits(pod, rows.group):
                    self._place(pod, rows, arrived)

    def solve(self) -> float:
        """Milli-GPU given away; raises NoBound."""
        for _ in range(ROUNDS_MAX):
            status = self._solver.Solve()
            if status != pywraplp.Solver.OPTIMAL:
                raise NoBound(f"GLOP ends with status {status}")
            better = [(rows, self._better_pattern(rows)) for rows in self._groups]
            for rows, pattern in better:
                self._cut(rows, pattern)
            if not any(pattern for _, pattern in better):
                assert all(each.solution_value() < EPSILON * GPU_MILLI for each in self._short)
                return float(self._solver.Objective().Value())
        raise AssertionError("patterns without end")

    def _missing(self, arrived: Any) -> None:
        """Pods that must be placed may be missing, dearly, until there are patterns for them."""
        missing = self._solver.NumVar(0, self._solver.infinity(), "")
        arrived.SetCoefficient(missing, 1)
        self._goal.SetCoefficient(missing, -MISSING_MILLI)
        self._short.append(missing)

    def _place(self, pod: TracePod, rows: _GroupRows, arrived: Any) -> None:
        amount = self._solver.NumVar(0, self._solver.infinity(), "")
        arrived.SetCoefficient(amount, 1)
        rows.cpu.SetCoefficient(amount, pod.cpu_milli)
        rows.memory.SetCoefficient(amount, pod.memory_mib)
        if _is_share(pod):
            rows.shares[pod.milli].SetCoefficient(amount, 1)
        else:
            rows.gpus.SetCoefficient(amount, pod.gpus)
        self._goal.SetCoefficient(amount, pod.gpu_milli)

    def _cut(self, rows: _GroupRows, pattern: dict[int, int]) -> None:
        """GPUs of the group may be cut by `pattern`: shares by size; nothing if it is empty."""
        if pattern:
            amount = self._solver.NumVar(0, self._solver.infinity(), "")
            rows.gpus.SetCoefficient(amount, 1)
            for milli, shares in pattern.items():
                rows.shares[milli].SetCoefficient(amount, -shares)

    def _better_pattern(self, rows: _GroupRows) -> dict[int, int]:
        """The pattern worth most at the present prices, if it is worth more than a GPU."""
        prices = {milli: rows.shares[milli].dual_value() for milli in self._sizes}
        worth, pattern = best_pattern(prices)
        return pattern if worth > rows.gpus.dual_value() + EPSILON * GPU_MILLI else {}


class _GroupRows:
    """What the nodes of a group have together."""

    def __init__(self, solver: Any, group: Group, nodes: int) -> None:
        self.group = group
        self.cpu = solver.Constraint(0, group.cpu_milli * nodes)
        self.memory = solver.Constraint(0, group.memory_mib * nodes)
        self.gpus = solver.Constraint(0, group.gpus * nodes)
        self.shares: dict[int, Any] = {}
        """By size: shares placed less those that patterns make room for."""


def best_pattern(prices: dict[int, float]) -> tuple[float, dict[int, int]]:
    """(worth, shares by size) of the dearest way to cut one GPU: an unbounded knapsack."""
    worth = [0.0] * (GPU_MILLI + 1)
    last = [0] * (GPU_MILLI + 1)
    for room in range(1, GPU_MILLI + 1):
        worth[room] = worth[room - 1]
        for milli, price in prices.items():
            if milli <= room and worth[room - milli] + price > worth[room]:
                worth[room], last[room] = worth[room - milli] + price, milli
    pattern: dict[int, int] = {}
    room = GPU_MILLI
    while room > 0:
        if last[room]:
            pattern[last[room]] = pattern.get(last[room], 0) + 1
        room -= last[room] or 1
    return worth[GPU_MILLI], pattern


def _is_share(pod: TracePod) -> bool:
    return pod.gpus == 1 and pod.milli < GPU_MILLI


def _fits(pod: TracePod, group: Group) -> bool:
    """Whether one empty node of the group takes the pod."""
    return (
        pod.cpu_milli <= group.cpu_milli
        and pod.memory_mib <= group.memory_mib
        and pod.gpus <= group.gpus
        and (not pod.gpus or not pod.models or group.model in pod.models)
    )
