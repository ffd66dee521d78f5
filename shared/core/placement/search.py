"""Where one pod fits best, by the free lists of the node classes it may run on.

Each form of request has its finder; all answer with a node and its devices, or None, and look at
a handful of entries however large the fleet is.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import chain

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.free_list import Entry, FreeList
from shared.core.cluster.images import missing
from shared.core.cluster.node_state import NodeState
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import GpuShare
from shared.core.placement.feasibility import Tiers
from shared.core.placement.mig_search import find_instances
from shared.core.scoring import (
    PackingIndex,
    cpu_to_leave_milli,
    node_room,
    pick_gpus,
    share_of,
    whole_shares,
)

Place = tuple[NodeState, tuple[GpuShare, ...]]
Nodes = Container[NodeState]


def find(tiers: Tiers, demand: PodDemand, team: str, exclude: Nodes = ()) -> Place | None:
    """The best place for one pod of `demand` outside `exclude`; nothing is charged."""
    for node_classes in tiers:
        place = _find_in(node_classes, demand, team, exclude)
        if place is not None:
            return place
    return None


def find_by_mix(
    packing: PackingIndex, tiers: Tiers, demand: PodDemand, team: str, exclude: Nodes = ()
) -> Place | None:
    """The same by what the learned mix of demand leaves useful; not for MIG (packing_index.py)."""
    for node_classes in tiers:
        found = packing.find(node_classes, demand, team, exclude)
        if found is not None:
            node, gpu = found
            if not demand.milli:
                return node, whole_shares(node, demand)
            return node, (share_of(gpu if gpu >= 0 else pick_gpus(node, 1)[0], demand),)
    return None


def _find_in(
    node_classes: tuple[CapacityIndex, ...], demand: PodDemand, team: str, exclude: Nodes
) -> Place | None:
    if demand.milli:
        return _find_share(node_classes, demand, team, exclude)
    if demand.profile:
        return find_instances(node_classes, demand, exclude)
    entry = _find_free(node_classes, demand, demand.gpus, exclude)
    return None if entry is None else (entry[3], whole_shares(entry[3], demand))


# ── whole GPUs, and pods without any ─────────────────────────────────────────


def _find_free(
    node_classes: tuple[CapacityIndex, ...], demand: PodDemand, gpus: int, exclude: Nodes
) -> Entry | None:
    """The node with the fewest free GPUs of at least `gpus` that has the CPU and memory."""
    occupied = 0
    for node_class in node_classes:
        occupied |= node_class.occupied
    occupied >>= gpus
    left = 0
    while occupied >> left:
        if occupied >> left & 1:
            best = _tightest(node_classes, demand, gpus + left, left, exclude)
            if best is not None:
                return _at_hand(node_classes, demand, best, exclude)
        left += 1
    return None


def _at_hand(
    node_classes: tuple[CapacityIndex, ...], demand: PodDemand, best: Entry, exclude: Nodes
) -> Entry:
    """The entry of an equal node that has weights or image already, or the best itself."""
    images, artifacts = node_classes[0].images, demand.artifacts
    if not images.has_any(artifacts):
        return best
    free, amount, whole = best[3].free_count, best[0], best[3].whole
    alike = [best]
    for node in chain.from_iterable(map(images.holders, artifacts)):
        node_class = next((each for each in node_classes if each is node.node_class), None)
        if node_class is None or node.free_memory_mib < demand.memory_mib:
            continue
        found = node_class.entry_of(node)
        if found is not None and node not in exclude:
            on_shelf, entry = found
            if (on_shelf, entry[0], node.whole) == (free, amount, whole):
                alike.append(entry)
    return min(alike, key=lambda entry: (missing(entry[3], artifacts), entry))


def _tightest(
    node_classes: tuple[CapacityIndex, ...],
    demand: PodDemand,
    free: int,
    left: int,
    exclude: Nodes,
) -> Entry | None:
    """Among nodes with exactly `free` GPUs: one that keeps CPU for the `left` ones, or any."""
    best: Entry | None = None
    spare_best = False
    for node_class in node_classes:
        if not node_class.occupied >> free & 1:
            continue
        free_list = node_class.by_free[free]
        cpu_milli, memory_mib = demand.cpu_milli, demand.memory_mib
        keep_milli = cpu_to_leave_milli(left, node_class.cpu_per_gpu)
        entry = free_list.first(cpu_milli + keep_milli, cpu_milli, memory_mib, exclude=exclude)
        spare = entry is not None
        if entry is None and keep_milli and not spare_best:
            entry = free_list.first(cpu_milli, cpu_milli, memory_mib, exclude=exclude)
        if entry is None:
            continue
        if best is None or (not spare, entry) < (not spare_best, best):
            best, spare_best = entry, spare
    return best


# ── shares of one GPU ────────────────────────────────────────────────────────


def _find_share(
    node_classes: tuple[CapacityIndex, ...], demand: PodDemand, team: str, exclude: Nodes
) -> Place | None:
    """The tightest GPU that the team shares already; else the first share of a free one."""
    need_mib = demand.share_memory_mib

    def has_memory(node: NodeState, gpu: int) -> bool:
        return node.uses[gpu].free_memory_mib >= need_mib

    best: Entry | None = None
    for node_class in node_classes:
        free_list = node_class.shared.get(team)
        if free_list is None:
            continue
        entry = free_list.first(
            demand.milli, demand.cpu_milli, demand.memory_mib, exclude=exclude, accept=has_memory
        )
        if entry is not None and (best is None or entry < best):
            best = entry
    if best is None:
        return _open_gpu(node_classes, demand, exclude)
    return best[3], (share_of(best[2], demand),)


def _open_gpu(
    node_classes: tuple[CapacityIndex, ...], demand: PodDemand, exclude: Nodes
) -> Place | None:
    large = tuple(
        node_class
        for node_class in node_classes
        if node_class.key.gpu_memory_mib >= demand.share_memory_mib
    )
    entry = _find_free(large, demand, 1, exclude)
    if entry is None:
        return None
    return entry[3], (share_of(pick_gpus(entry[3], 1)[0], demand),)


# ── every node with room, for what needs more than the best ─────────────────


def candidates(
    node_classes: Iterable[CapacityIndex], demand: PodDemand, team: str
) -> Iterator[NodeState]:
    """Nodes with room for a pod, once each; the cluster must not change meanwhile."""
    return (node for node in possible(node_classes, demand, team) if node_room(node, demand, team))


def possible(
    node_classes: Iterable[CapacityIndex], demand: PodDemand, team: str
) -> Iterator[NodeState]:
    """Those that no free list rules out: nodes that are full are not even looked at."""
    seen: set[NodeState] = set()
    for node_class in node_classes:
        for free_list, amount in _free_lists(node_class, demand, team):
            for entry in free_list.fitting(amount, demand.cpu_milli, demand.memory_mib):
                if entry[3] not in seen:
                    seen.add(entry[3])
                    yield entry[3]


def _free_lists(
    node_class: CapacityIndex, demand: PodDemand, team: str
) -> Iterator[tuple[FreeList, int]]:
    """(free list, smallest amount) on which nodes with room may lie."""
    if demand.profile:
        table = node_class.table
        assert table is not None
        for state in sorted(node_class.mig, key=int):
            if table.room(int(state), demand.profile):
                yield node_class.mig[state], 0
        return
    if demand.milli and team in node_class.shared:
        yield node_class.shared[team], demand.milli
    if node_class.key.gpu_memory_mib < demand.share_memory_mib:
        return
    for free in range(demand.gpus or bool(demand.milli), len(node_class.by_free)):
        yield node_class.by_free[free], demand.cpu_milli
