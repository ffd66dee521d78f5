"""Where one pod fits best, by the shelves of the kinds it may run on.

Each form of request has its finder; all answer with a node and its devices, or None, and look at
a handful of entries however large the fleet is.
"""

from __future__ import annotations

from collections.abc import Container

from shared.core.demand import PodDemand
from shared.core.feasibility import Tiers
from shared.core.kind import Kind
from shared.core.mig import MigTable
from shared.core.model import WHOLE_MASK, GpuShare
from shared.core.node_state import NodeState
from shared.core.scoring import cpu_to_leave_milli, pick_gpus
from shared.core.shelf import Entry
from shared.core.units import GPU_MILLI, SLICES

Place = tuple[NodeState, tuple[GpuShare, ...]]
Nodes = Container[NodeState]


def find(tiers: Tiers, demand: PodDemand, team: str, exclude: Nodes = ()) -> Place | None:
    """The best place for one pod of `demand` outside `exclude`; nothing is charged."""
    for kinds in tiers:
        place = _find_in(kinds, demand, team, exclude)
        if place is not None:
            return place
    return None


def _find_in(
    kinds: tuple[Kind, ...], demand: PodDemand, team: str, exclude: Nodes
) -> Place | None:
    if demand.milli:
        return _find_share(kinds, demand, team, exclude)
    if demand.profile:
        return _find_instances(kinds, demand, exclude)
    entry = _find_free(kinds, demand, demand.gpus, exclude)
    return None if entry is None else (entry[3], whole_shares(entry[3], demand.gpus))


# ── whole GPUs, and pods without any ─────────────────────────────────────────


def _find_free(
    kinds: tuple[Kind, ...], demand: PodDemand, gpus: int, exclude: Nodes
) -> Entry | None:
    """The node with the fewest free GPUs of at least `gpus` that has the CPU and memory."""
    occupied = 0
    for kind in kinds:
        occupied |= kind.occupied
    occupied >>= gpus
    left = 0
    while occupied >> left:
        if occupied >> left & 1:
            best = _tightest(kinds, demand, gpus + left, left, exclude)
            if best is not None:
                return best
        left += 1
    return None


def _tightest(
    kinds: tuple[Kind, ...], demand: PodDemand, free: int, left: int, exclude: Nodes
) -> Entry | None:
    """Among nodes with exactly `free` GPUs: one that keeps CPU for the `left` ones, or any."""
    best: Entry | None = None
    spare_best = False
    for kind in kinds:
        if not kind.occupied >> free & 1:
            continue
        shelf = kind.by_free[free]
        cpu_milli, memory_mib = demand.cpu_milli, demand.memory_mib
        keep_milli = cpu_to_leave_milli(left, kind.cpu_per_gpu)
        entry = shelf.first(cpu_milli + keep_milli, cpu_milli, memory_mib, exclude=exclude)
        spare = entry is not None
        if entry is None and keep_milli and not spare_best:
            entry = shelf.first(cpu_milli, cpu_milli, memory_mib, exclude=exclude)
        if entry is None:
            continue
        if best is None or (not spare, entry) < (not spare_best, best):
            best, spare_best = entry, spare
    return best


def whole_shares(node: NodeState, gpus: int) -> tuple[GpuShare, ...]:
    """The ledger rows of `gpus` whole GPUs of `node`."""
    if not gpus:
        return ()
    return tuple(whole_share(node, index) for index in pick_gpus(node, gpus))


def whole_share(node: NodeState, index: int) -> GpuShare:
    """The ledger row of one whole GPU, with all of its memory."""
    gpu = node.uses[index].gpu
    assert gpu is not None
    return GpuShare(index=index, mask=WHOLE_MASK, milli=GPU_MILLI, memory_mib=gpu.memory_mib)


# ── shares of one GPU ────────────────────────────────────────────────────────


def _find_share(
    kinds: tuple[Kind, ...], demand: PodDemand, team: str, exclude: Nodes
) -> Place | None:
    """The tightest GPU that the team shares already; else the first share of a free one."""
    need_mib = demand.share_memory_mib

    def has_memory(node: NodeState, gpu: int) -> bool:
        return node.uses[gpu].free_memory_mib >= need_mib

    best: Entry | None = None
    for kind in kinds:
        shelf = kind.shared.get(team)
        if shelf is None:
            continue
        entry = shelf.first(
            demand.milli, demand.cpu_milli, demand.memory_mib, exclude=exclude, accept=has_memory
        )
        if entry is not None and (best is None or entry < best):
            best = entry
    if best is None:
        return _open_gpu(kinds, demand, exclude)
    return best[3], (_share(best[2], demand),)


def _open_gpu(kinds: tuple[Kind, ...], demand: PodDemand, exclude: Nodes) -> Place | None:
    large = tuple(kind for kind in kinds if kind.key.gpu_memory_mib >= demand.share_memory_mib)
    entry = _find_free(large, demand, 1, exclude)
    if entry is None:
        return None
    return entry[3], (_share(pick_gpus(entry[3], 1)[0], demand),)


def _share(gpu: int, demand: PodDemand) -> GpuShare:
    return GpuShare(index=gpu, mask=0, milli=demand.milli, memory_mib=demand.share_memory_mib)


# ── MIG ──────────────────────────────────────────────────────────────────────


def _find_instances(kinds: tuple[Kind, ...], demand: PodDemand, exclude: Nodes) -> Place | None:
    """The GPU state whose best start costs the fewest later choices; there, the first node."""
    offers = []
    for order, kind in enumerate(kinds):
        table = kind.table
        assert table is not None
        for name in kind.mig:
            best = table.best(int(name), demand.profile)
            if best is not None:
                offers.append((best[0], order, name))
    offers.sort()

    def has_room(node: NodeState, gpu: int) -> bool:
        del gpu
        return mig_room(node, demand.profile) >= demand.instances

    accept = has_room if demand.instances > 1 else None
    for _, order, name in offers:
        entry = (
            kinds[order]
            .mig[name]
            .first(0, demand.cpu_milli, demand.memory_mib, exclude=exclude, accept=accept)
        )
        if entry is not None:
            return entry[3], instance_shares(entry[3], demand)
    return None


def mig_room(node: NodeState, profile: str) -> int:
    """How many instances of `profile` the node can still take."""
    table = node.kind.table if node.kind else None
    if table is None or profile not in table.profiles:
        return 0
    return sum(table.room(use.state, profile) for use in node.uses.values() if use.offers_mig)


def instance_shares(node: NodeState, demand: PodDemand) -> tuple[GpuShare, ...]:
    """One row for each GPU used; each instance goes where it costs the fewest choices."""
    table = node.kind.table if node.kind else None
    assert table is not None
    size = table.profiles[demand.profile].size
    states = {index: use.state for index, use in node.uses.items() if use.offers_mig}
    masks: dict[int, int] = {}
    for _ in range(demand.instances):
        index, mask, state = _best_position(table, states, demand.profile)
        masks[index] = masks.get(index, 0) | mask
        states[index] = state
    return tuple(_instance_share(node, index, mask, size) for index, mask in sorted(masks.items()))


def _best_position(table: MigTable, states: dict[int, int], name: str) -> tuple[int, int, int]:
    """(GPU, mask of the new instance, state after it)."""
    profile = table.profiles[name]
    offers = []
    for index, state in states.items():
        best = table.best(state, name)
        if best is not None:
            offers.append((best[0], index, best[1]))
    _, index, start = min(offers)
    mask = profile.mask(start)
    return index, mask, profile.occupy(states[index], start)


def _instance_share(node: NodeState, index: int, mask: int, size: int) -> GpuShare:
    gpu = node.uses[index].gpu
    assert gpu is not None
    slices = mask.bit_count()
    assert slices % size == 0
    return GpuShare(
        index=index,
        mask=mask,
        milli=slices * GPU_MILLI // SLICES,
        memory_mib=gpu.memory_mib * slices // SLICES,
    )
