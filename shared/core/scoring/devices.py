"""Inside one node: how many pods of a demand still fit there, and which devices one of them gets.

Nothing here chooses between nodes (core/placement/search.py does), and nothing charges.
"""

from __future__ import annotations

from shared.core.cluster.gpu_use import GpuUse
from shared.core.cluster.node_state import NodeState
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import WHOLE_MASK, GpuShare
from shared.core.model.units import GPU_MILLI, SLICES, UNLIMITED, pods_within, shares_within
from shared.core.scoring.spare_cpu import pick_gpus


def node_room(node: NodeState, demand: PodDemand, team: str) -> int:
    """How many pods of `demand` the node can still take; exact. O(GPUs).

    The node must be of a permitted node class; one that takes no new work has no room.
    """
    if not node.schedulable:
        return 0
    return pods_within(
        gpu_room(node, demand, team),
        node.free_cpu_milli,
        demand.cpu_milli,
        node.free_memory_mib,
        demand.memory_mib,
    )


def gpu_room(node: NodeState, demand: PodDemand, team: str) -> int:
    """The same by GPUs alone; `UNLIMITED` for pods without one."""
    if demand.aligned:
        free = node.free_mask
        return sum((free & domain).bit_count() // demand.gpus for domain in node.numa_masks)
    if demand.gpus:
        return node.free_count // demand.gpus
    if demand.milli:
        return sum(_shares_room(use, demand, team) for use in node.uses.values())
    if demand.profile:
        return mig_room(node, demand.profile) // demand.instances
    return UNLIMITED


def mig_room(node: NodeState, profile: str) -> int:
    """How many instances of `profile` the node can still take; exact (core/model/mig/table.py)."""
    table = node.node_class.table if node.node_class else None
    if table is None or not node.in_mig_mode or profile not in table.profiles:
        return 0
    return sum(table.room(use.state, profile) for use in node.uses.values() if use.offers_mig)


def shares_on(node: NodeState, demand: PodDemand, team: str) -> tuple[GpuShare, ...]:
    """The ledger rows of one pod on a node that has room for it."""
    if demand.gpus:
        return whole_shares(node, demand)
    if demand.milli:
        return (share_of(_tightest_gpu(node, demand, team), demand),)
    if demand.profile:
        return instance_shares(node, demand)
    return ()


# ── whole GPUs ───────────────────────────────────────────────────────────────


def whole_shares(node: NodeState, demand: PodDemand) -> tuple[GpuShare, ...]:
    """The ledger rows of the whole GPUs of a pod, each with all of its memory."""
    if not demand.gpus:
        return ()
    return tuple(
        GpuShare(
            index=index, mask=WHOLE_MASK, milli=GPU_MILLI, memory_mib=node.gpu_memory_mib(index)
        )
        for index in pick_gpus(node, demand.gpus, aligned=demand.aligned)
    )


# ── shares ───────────────────────────────────────────────────────────────────


def share_of(gpu: int, demand: PodDemand) -> GpuShare:
    """The ledger row of a time-sliced share: no slices, but memory of its own."""
    return GpuShare(index=gpu, mask=0, milli=demand.milli, memory_mib=demand.share_memory_mib)


def takes_share(use: GpuUse, demand: PodDemand, team: str) -> bool:
    """Whether one more share of `team` fits: a GPU has one team, its memory is never over-sold."""
    return _shares_room(use, demand, team) > 0


def _shares_room(use: GpuUse, demand: PodDemand, team: str) -> int:
    if not (use.offers_whole or (use.offers_shares and use.team == team)):
        return 0
    return shares_within(use.milli, use.free_memory_mib, demand.milli, demand.share_memory_mib)


def _tightest_gpu(node: NodeState, demand: PodDemand, team: str) -> int:
    """The fullest GPU that the team shares already, before a free one is opened."""
    fitting = [
        (-use.milli, index)
        for index, use in node.uses.items()
        if use.milli and takes_share(use, demand, team)
    ]
    return min(fitting)[1] if fitting else pick_gpus(node, 1)[0]


# ── MIG ──────────────────────────────────────────────────────────────────────


def instance_shares(node: NodeState, demand: PodDemand) -> tuple[GpuShare, ...]:
    """One row for each GPU used; each instance goes where it costs least (scoring/mig_pool.py)."""
    node_class = node.node_class
    assert node_class is not None
    assert node_class.table is not None
    assert node_class.pool is not None
    profile = node_class.table.profiles[demand.profile]
    states = {index: use.state for index, use in node.uses.items() if use.offers_mig}
    masks: dict[int, int] = {}
    for _ in range(demand.instances):
        index, start = node_class.pool.cheapest(states, demand.profile)
        masks[index] = masks.get(index, 0) | profile.mask(start)
        states[index] = profile.occupy(states[index], start)
    return tuple(instance_share(node, index, mask) for index, mask in sorted(masks.items()))


def instance_share(node: NodeState, index: int, mask: int) -> GpuShare:
    """The ledger row of the slices in `mask`, with their part of the memory."""
    slices = mask.bit_count()
    return GpuShare(
        index=index,
        mask=mask,
        milli=slices * GPU_MILLI // SLICES,
        memory_mib=node.gpu_memory_mib(index) * slices // SLICES,
    )
