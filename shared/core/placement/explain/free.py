"""What is free for a demand, in each form that a pod can ask for, on open nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import NodeState
from shared.core.model.demand import PodDemand
from shared.core.model.mig.table import MEDIA_BIT
from shared.core.model.nouns import Level
from shared.core.model.units import GPU_MILLI, SLICES
from shared.core.placement.explain.miss import nearest
from shared.core.placement.room import room_index
from shared.core.placement.search import candidates
from shared.core.scoring import Cluster

LOOKED_AT_MAX: Final = 64
"""Nodes looked at one by one for a nearest miss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeGpus:
    """Open nodes by what a demand for whole GPUs (or for CPU alone) finds on them."""

    with_gpus: int
    """Nodes with enough whole GPUs free ..."""
    with_cpu: int
    """... and of these, with enough CPU too."""
    free: int
    """Whole GPUs free anywhere."""
    best_free: int
    """Most of them on one node ..."""
    best_node: str
    """... which is this one."""
    in_mig_mode: int
    """GPUs beside them on which nothing lies: they take MIG instances alone."""

    @property
    def more(self) -> str:
        """What is to be added to the number of free GPUs."""
        more = f"; {self.in_mig_mode} more with nothing on them, but in MIG mode"
        return more if self.in_mig_mode else ""

    @property
    def evidence(self) -> dict[str, int]:
        """Free GPUs by name."""
        empty = {"gpus_empty_in_mig_mode": self.in_mig_mode} if self.in_mig_mode else {}
        return {"gpus_free": self.free} | empty


def free_gpus(node_classes: tuple[CapacityIndex, ...], demand: PodDemand) -> FreeGpus:
    """Count whole GPUs on open nodes of `node_classes`. O(node classes x GPUs of a node)."""
    with_gpus = with_cpu = free = 0
    best_free, best_node = -1, ""
    for node_class in node_classes:
        for count, free_list in enumerate(node_class.by_free):
            if not free_list.size:
                continue
            free += count * free_list.size
            if count > best_free:
                best_free, best_node = count, free_list.last()[3].name
            if count >= demand.gpus:
                with_gpus += free_list.size
                with_cpu += free_list.count_from(demand.cpu_milli)
    return FreeGpus(
        with_gpus=with_gpus,
        with_cpu=with_cpu,
        free=free,
        best_free=max(best_free, 0),
        best_node=best_node,
        in_mig_mode=sum(_empty_in_mig_mode(node_class) for node_class in node_classes),
    )


def best_beside(
    node_classes: tuple[CapacityIndex, ...], demand: PodDemand, gpus: int
) -> NodeState | None:
    """Of open nodes with `gpus` free: with most memory of those with the CPU, else with most CPU.

    None if no node has the GPUs. O(node classes x GPUs of a node), and the chunks of a free list.
    """
    free_lists = [
        free_list
        for node_class in node_classes
        for free_list in node_class.by_free[gpus:]
        if free_list.size
    ]
    rich = (free_list.most_memory(demand.cpu_milli) for free_list in free_lists)
    with_cpu = [entry for entry in rich if entry is not None]
    if with_cpu:
        return max(with_cpu, key=lambda entry: (entry[3].free_memory_mib, entry))[3]
    return max(free_list.last() for free_list in free_lists)[3] if free_lists else None


def _empty_in_mig_mode(node_class: CapacityIndex) -> int:
    return sum(
        free_list.size for name, free_list in node_class.mig.items() if not _used(int(name))
    )


def _used(state: int) -> int:
    """Slices of a state that are taken."""
    return (state & ((1 << SLICES) - 1)).bit_count()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeByNuma:
    """What a demand for whole GPUs in one NUMA domain finds on nodes with enough of them free."""

    nodes: int
    """Nodes that have them in one domain, whatever their CPU and memory ..."""
    best: NodeState
    """... and of these the nearest; if there is none, the one with most in a domain ..."""
    looked_at: int
    """... of so many."""


def free_by_numa(
    cluster: Cluster, node_classes: tuple[CapacityIndex, ...], demand: PodDemand
) -> FreeByNuma:
    """Nodes are counted in an index of rooms; `LOOKED_AT_MAX` are looked at one by one."""
    by_gpus = replace(demand, cpu_milli=0, memory_mib=0, slices=())
    index = room_index(cluster, node_classes, by_gpus, "", distinct=False)
    together = [place for _, _, place in index.at_least(Level.NODE, 1, LOOKED_AT_MAX)]
    nodes = [node for node in together if isinstance(node, NodeState)]
    if not nodes:
        nodes = list(
            islice(candidates(node_classes, replace(by_gpus, aligned=False), ""), LOOKED_AT_MAX)
        )
    best = nearest(nodes, demand)
    assert best is not None, "there are nodes with the GPUs"
    return FreeByNuma(nodes=index.count_at_least(Level.NODE, 1), best=best, looked_at=len(nodes))


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSlices:
    """What a demand for MIG instances finds on healthy GPUs in MIG mode; sizes in eighths."""

    gpus: int
    free_slices: int
    best_free_slices: int
    positions: int
    """Legal starts free for one instance of the profile."""
    size: int
    """Slices of one instance, on the board where it is smallest."""
    media_taken: int
    """GPUs where one could begin, were it not the second with media engines."""


def free_slices(node_classes: tuple[CapacityIndex, ...], demand: PodDemand) -> FreeSlices:
    """Count slices and legal starts. O(node classes x states), of which there are 192 at most."""
    gpus = slices = best = positions = media_taken = 0
    sizes = []
    for node_class in node_classes:
        assert node_class.table is not None
        sizes.append(node_class.mig_milli(demand.profile) * SLICES // GPU_MILLI)
        for name, free_list in node_class.mig.items():
            state = int(name)
            free = SLICES - _used(state)
            gpus += free_list.size
            slices += free * free_list.size
            best = max(best, free)
            room = node_class.table.room(state, demand.profile)
            positions += room * free_list.size
            if not room and node_class.table.room(state & ~MEDIA_BIT, demand.profile):
                media_taken += free_list.size
    return FreeSlices(
        gpus=gpus,
        free_slices=slices,
        best_free_slices=best,
        positions=positions,
        size=min(sizes),
        media_taken=media_taken,
    )
