"""The best packing of a small cluster by integer programming (ortools' CP-SAT).

Pods of one class are counted, not told apart: how many of a class on a node, and how many GPUs of
a node are cut by a pattern of shares. Only patterns to which no share can be added are needed.
Maximal is the GPU given away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ortools.sat.python import cp_model

from tests.benchmarks.openb import GPU_MILLI, TraceNode, TracePod

ROOM_MAX: Final = 1 << 20
"""Of pods that ask for nothing."""


Packing = Counter[tuple[int, TracePod]]
"""Pods by number of the node and class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The best packing found, and what none can exceed."""

    gpu_milli: int
    bound_milli: int


def gpu_milli(packing: Packing) -> int:
    """The GPU that it gives away."""
    return sum(pod.gpu_milli * count for (_, pod), count in packing.items())


def best_packing(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    *,
    hint: Packing,
    seconds: float,
    workers: int,
) -> Optimum:
    """Search for `seconds`, beginning at `hint`; any subset of `pods` may be placed.

    `hint` is a packing too: what a search that is cut short finds below it does not count.
    """
    model: Any = cp_model.CpModel()
    counts = Counter(pods)
    sizes = sorted({pod.milli for pod in counts if is_share(pod)})
    patterns = list(maximal_patterns(sizes))
    placed: dict[TracePod, list[Any]] = {pod: [] for pod in counts}
    for number, node in enumerate(nodes):
        for pod, amount in _add_node(model, node, counts, patterns).items():
            placed[pod].append(amount)
            model.add_hint(amount, hint[number, pod])
    for pod, count in counts.items():
        model.add(sum(placed[pod]) <= count)
    model.maximize(sum(pod.gpu_milli * sum(amounts) for pod, amounts in placed.items()))
    solver: Any = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    asked_milli = sum(pod.gpu_milli for pod in pods)
    return Optimum(
        gpu_milli=max(round(solver.objective_value), gpu_milli(hint)),
        bound_milli=min(round(solver.best_objective_bound), asked_milli),
    )


def _add_node(
    model: Any,
    node: TraceNode,
    counts: Counter[TracePod],
    patterns: list[dict[int, int]],
) -> dict[TracePod, Any]:
    """The pods on one node, by class."""
    here: dict[TracePod, Any] = {}
    for pod, count in counts.items():
        most = min(count, _room(pod, node))
        if most:
            here[pod] = model.new_int_var(0, most, "")
    cut = [model.new_int_var(0, node.gpus, "") for _ in patterns]
    model.add(sum(pod.cpu_milli * amount for pod, amount in here.items()) <= node.cpu_milli)
    model.add(sum(pod.memory_mib * amount for pod, amount in here.items()) <= node.memory_mib)
    whole = sum(pod.gpus * amount for pod, amount in here.items() if not is_share(pod))
    model.add(whole + sum(cut) <= node.gpus)
    for milli in {pod.milli for pod in here if is_share(pod)}:
        shares = sum(amount for pod, amount in here.items() if is_share(pod, milli))
        room = sum(
            pattern.get(milli, 0) * gpus for pattern, gpus in zip(patterns, cut, strict=True)
        )
        model.add(shares <= room)
    return here


def maximal_patterns(sizes: Sequence[int], room: int = GPU_MILLI) -> Iterator[dict[int, int]]:
    """Every way to cut one GPU into shares of `sizes` (ascending) so that no other fits."""
    if not sizes or room < sizes[0]:
        yield {}
        return
    *smaller, largest = sizes
    for shares in range(room // largest, -1, -1):
        left = room - shares * largest
        if not smaller and left >= largest:
            return
        for pattern in maximal_patterns(smaller, left):
            rest = left - sum(milli * count for milli, count in pattern.items())
            if rest < largest:
                yield {**pattern, largest: shares} if shares else pattern


def is_share(pod: TracePod, milli: int | None = None) -> bool:
    """Whether a pod wants a part of one GPU, of `milli` if that is given."""
    share = pod.gpus == 1 and pod.milli < GPU_MILLI
    return share and (milli is None or pod.milli == milli)


def _room(pod: TracePod, node: TraceNode) -> int:
    """How many such pods the empty node takes."""
    if pod.gpus and pod.models and node.model not in pod.models:
        return 0
    room = node.gpus * (GPU_MILLI // pod.milli) // pod.gpus if pod.gpus else ROOM_MAX
    if pod.cpu_milli:
        room = min(room, node.cpu_milli // pod.cpu_milli)
    if pod.memory_mib:
        room = min(room, node.memory_mib // pod.memory_mib)
    return room
