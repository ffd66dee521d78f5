"""What `muster-ops defragment` asks and prints: the moves that would let a workload start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.placement.offline.defragmentation import plan_for
from shared.adapters.postgres.pool import Database
from shared.core.preemption.defragmentation import DefragmentationLimits, Plan


async def report(url: str, workload: str, *, cell: int, seed: int, moves: int) -> dict[str, Any]:
    """The plan, or why there is none, ready for JSON. Raises NotWaiting as `plan_for` does."""
    database = Database(url, name="muster-defragment")
    try:
        limits = DefragmentationLimits(moves_max=moves)
        found = await plan_for(database, workload, cell=cell, seed=seed, limits=limits)
    finally:
        await database.close()
    if not isinstance(found, Plan):
        why = {"obstacle": found.obstacle.value, "message": found.message}
        return {"workload": workload, "plan": None, **why}
    plan = {
        "moves": msgspec.to_builtins(found.moves),
        "placement": msgspec.to_builtins(found.placement),
        "pods_moved": found.pods_moved,
        "gpu_milli_moved": found.cost,
    }
    return {"workload": workload, "plan": plan, "obstacle": "", "message": ""}


def lines_of(answer: Mapping[str, Any]) -> list[str]:
    """For people: one line for each move, in order, and where the workload goes then."""
    plan = answer["plan"]
    if plan is None:
        return [f"{answer['workload']}: no plan ({answer['obstacle']}). {answer['message']}"]
    moves = [
        f"{number}. move {move['workload_id']} from {_nodes(move['from_pods'])} to "
        f"{_nodes(move['to_pods'])}"
        for number, move in enumerate(plan["moves"], 1)
    ]
    size = f"{plan['pods_moved']} pods, {plan['gpu_milli_moved'] / 1000:g} GPUs"
    return [
        f"{answer['workload']} could start after {len(moves)} moves ({size}):",
        *moves,
        f"then it fits on {_nodes(plan['placement']['pods'])}. Nothing was changed.",
    ]


def _nodes(pods: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(dict.fromkeys(pod["node"] for pod in pods))
