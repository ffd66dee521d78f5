"""No GPU has room for one more share: what the nearest shared one has, and the best free one."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import NodeState
from shared.core.model.decision import Reason, Refusal
from shared.core.model.demand import PodDemand
from shared.core.model.wording import count
from shared.core.placement.explain.free import LOOKED_AT_MAX, FreeGpus, best_beside
from shared.core.placement.explain.miss import short_of
from shared.core.placement.explain.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeShares:
    """What a demand for a share finds on the GPUs that its team shares already."""

    team_gpus: int
    best_milli: int
    near: tuple[tuple[NodeState, int], ...]
    """(node, GPU) of those with enough milli-GPU, of each node class those with least of it; they
    lack
    something else."""


def free_shares(
    node_classes: tuple[CapacityIndex, ...], demand: PodDemand, team: str
) -> FreeShares:
    """Count GPUs shared by `team` on open nodes of `node_classes`; look at a few."""
    free_lists = [
        node_class.shared[team] for node_class in node_classes if team in node_class.shared
    ]
    near = (entry for free_list in free_lists for entry in free_list.fitting(demand.milli, 0, 0))
    return FreeShares(
        team_gpus=sum(free_list.size for free_list in free_lists),
        best_milli=max((free_list.last()[0] for free_list in free_lists), default=0),
        near=tuple((entry[3], entry[2]) for entry in islice(near, LOOKED_AT_MAX)),
    )


def no_share(found: Survey, team: str, demand: PodDemand, needs: str, whole: FreeGpus) -> Refusal:
    """The refusal; `needs` in words."""
    shares = free_shares(found.node_classes, demand, team)
    near = _nearest_shared(shares, demand) + _best_free(found, demand)
    why = " and ".join(near) or "no GPU is free to be opened"
    return Refusal(
        reason=Reason.NO_CAPACITY,
        message=f"One GPU must have {needs}; team {team} shares "
        f"{count(shares.team_gpus, 'GPU')} with at most {shares.best_milli} milli-GPU free, "
        f"{count(whole.free, 'GPU')} {'is' if whole.free == 1 else 'are'} free, and "
        f"{why}{whole.more}.",
        next_step="Wait for shares to end, or ask for less of a GPU, CPU or memory.",
        evidence=found.evidence()
        | whole.evidence
        | {
            "gpus_shared_by_team": shares.team_gpus,
            "best_shared_milli_free": shares.best_milli,
        },
    )


def _nearest_shared(shares: FreeShares, demand: PodDemand) -> list[str]:
    """Of shared GPUs with enough milli-GPU, the one that lacks least of anything else."""
    if not shares.near:
        return []
    node, gpu = max(
        shares.near, key=lambda each: (_part(each[0], each[1], demand), -each[0].rank, -each[1])
    )
    free, need = node.uses[gpu].free_memory_mib, demand.share_memory_mib
    lacks = [f"{free} of {need} MiB of GPU memory"] if free < need else []
    beside = short_of(node, demand)
    lacks += [beside] if beside else []
    looked_at = len(shares.near)
    of = f" of {looked_at} looked at" if looked_at == LOOKED_AT_MAX else ""
    return [f"the nearest shared one{of}, on {node.name}, has {' and '.join(lacks)}"]


def _part(node: NodeState, gpu: int, demand: PodDemand) -> int:
    """How much of the scarcest it has, in thousandths."""
    pairs = (
        (node.uses[gpu].free_memory_mib, demand.share_memory_mib),
        (node.free_cpu_milli, demand.cpu_milli),
        (node.free_memory_mib, demand.memory_mib),
    )
    return min(1000 * max(have, 0) // need for have, need in pairs if have < need)


def _best_free(found: Survey, demand: PodDemand) -> list[str]:
    """What free GPUs lack, which suffice by themselves."""
    with_free = tuple(node_class for node_class in found.node_classes if node_class.occupied >> 1)
    if not with_free:
        return []
    need = demand.share_memory_mib
    large = tuple(node_class for node_class in with_free if node_class.key.gpu_memory_mib >= need)
    if not large:
        most = max(node_class.key.gpu_memory_mib for node_class in with_free)
        return [f"the largest free one has {most} of {need} MiB of GPU memory"]
    best = best_beside(large, demand, 1)
    assert best is not None, "their GPUs are free"
    return [f"the best node with a free one, {best.name}, has {short_of(best, demand)}"]
