"""Which idle GPU to move between the two baskets of a flavor: whole GPUs, and GPUs in MIG mode.

Each GPU is in one of them, and a switch costs: it must be idle and takes no work meanwhile (an
Ampere board is reset). So one is moved at a time; the time between two is the caller's. In order:

1. Work waits for both baskets: towards the share of MIG in what is asked for
   (core/scoring/mix.py).
2. Work waits for one of them: it gets what the other has idle. Beyond the share by more than a
   band, a tenth of the other basket is left idle: shares are learned slowly, work comes back.
3. No work waits: towards the share, while the split is off by more than the band and the basket
   that is too small has less than the band idle. What is idle already helps work that comes.

A node that is kept for other work is left as it is. Two baskets after GRMU (arXiv 2502.01909;
ADR 49).
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Final, NamedTuple

from shared.core.cluster.capacity_index import CapacityIndex
from shared.core.cluster.node_state import NodeState
from shared.core.model.charges import least_count
from shared.core.model.nouns import PodSet
from shared.core.scoring import Cluster

BAND_PERCENT: Final = 10
"""Of the GPUs that can have MIG; at least one GPU."""
IDLE_PART: Final = 10
LOOKED_MAX: Final = 64
EMPTY: Final = "0"
"""The free list of GPUs in MIG mode on which nothing is held."""


class Waiting(NamedTuple):
    """What work that was refused for room waits for.

    `whole`: whether some of it waits for whole GPUs (or shares); `mig_gpus`: how many empty GPUs
    in MIG mode would surely hold the widest of it that asks for instances.
    """

    whole: bool = False
    mig_gpus: int = 0


class Switch(NamedTuple):
    """An idle GPU and whether it is to be in MIG mode."""

    node: str
    gpu: int
    mig: bool


class Split(NamedTuple):
    """GPUs of a flavor that can have MIG, by mode, and how many of each are idle."""

    whole: int
    mig: int
    idle_whole: int
    idle_mig: int
    missing: int | None
    """GPUs that would be in MIG mode by what is asked for, less those that are; None: unknown."""

    @property
    def band(self) -> int:
        """By how much the split may differ from what is asked for."""
        return max(1, (self.whole + self.mig) * BAND_PERCENT // 100)


def plan_switch(
    cluster: Cluster, flavor: str, waiting: Waiting, kept: Collection[str] = ()
) -> Switch | None:
    """The next switch in `flavor`; None when none is worth it. O(node classes x MIG states).

    Args:
        cluster: all that is known of the fleet.
        flavor: the flavor of the GPUs to switch.
        waiting: what was refused for room there.
        kept: names of nodes with GPUs that stay as they are.
    """
    node_classes = _node_classes(cluster, flavor)
    to_mig = _wanted(_split(cluster, flavor, node_classes), waiting)
    if to_mig is None:
        return None
    return _to_mig(node_classes, kept) if to_mig else _to_whole(node_classes, kept)


def mig_gpus_for(cluster: Cluster, flavor: str, pod_sets: Collection[PodSet]) -> int:
    """Empty GPUs in MIG mode that surely hold all instances of a gang; 0 where none can."""
    tables = [
        node_class.table
        for node_class in _node_classes(cluster, flavor)
        if node_class.table is not None
    ]
    needed = 0
    for one in pod_sets:
        if one.gpu.mig_profile:
            profile = one.gpu.mig_profile
            rooms = [each.room(0, profile) for each in tables if profile in each.profiles]
            if not rooms:
                return 0
            needed += -(-least_count(one) * max(one.gpu.mig_count, 1) // min(rooms))
    return needed


def _node_classes(cluster: Cluster, flavor: str) -> list[CapacityIndex]:
    """Those that can have MIG."""
    node_classes = [
        cluster.node_classes[key] for key in sorted(cluster.node_classes) if key.flavor == flavor
    ]
    return [node_class for node_class in node_classes if node_class.table is not None]


def _split(cluster: Cluster, flavor: str, node_classes: list[CapacityIndex]) -> Split:
    modes = cluster.packing(flavor).mix.modes
    total = sum(node_class.nodes * node_class.key.gpus for node_class in node_classes)
    mig = sum(
        free_list.size for node_class in node_classes for free_list in node_class.mig.values()
    )
    return Split(
        whole=total - mig,
        mig=mig,
        idle_whole=sum(
            free * free_list.size
            for node_class in node_classes
            for free, free_list in enumerate(node_class.by_free)
        ),
        idle_mig=sum(
            node_class.mig[EMPTY].size for node_class in node_classes if EMPTY in node_class.mig
        ),
        missing=modes.mig_share_of(total) - mig if modes.known else None,
    )


def _wanted(split: Split, waiting: Waiting) -> bool | None:
    """Whether the next GPU goes into MIG mode (True), out of it (False), or neither."""
    spare, missing, band = split.idle_mig - waiting.mig_gpus, split.missing, split.band
    if spare < 0 and waiting.whole:
        return missing > 0 if missing else None
    if spare < 0:
        within = missing is not None and missing > -band
        return True if split.idle_whole > (0 if within else split.whole // IDLE_PART) else None
    if waiting.whole:
        within = missing is not None and missing < band
        return False if spare > (0 if within else split.mig // IDLE_PART) else None
    if missing is None:
        return None
    if missing > band and split.idle_mig < band:
        return True
    return False if missing < -band and split.idle_whole < band and spare > 0 else None


def _to_mig(node_classes: list[CapacityIndex], kept: Collection[str]) -> Switch | None:
    """A free GPU of the node with the fewest of them: whole nodes are kept for gangs."""

    def free_to_switch(node: NodeState, _gpu: int) -> bool:
        return node.name not in kept

    entries = (
        (free, entry[1], entry[3])
        for node_class in node_classes
        for free, free_list in enumerate(node_class.by_free)
        if free and (entry := free_list.first(0, 0, 0, accept=free_to_switch)) is not None
    )
    found = min(entries, default=None, key=lambda each: each[:2])
    if found is None:
        return None
    node = found[2]
    gpu = min(index for index, use in node.uses.items() if use.offers_whole)
    return Switch(node.name, gpu, mig=True)


def _to_whole(node_classes: list[CapacityIndex], kept: Collection[str]) -> Switch | None:
    """An empty GPU of the node that has most whole ones free already."""
    found: list[tuple[int, int, int, NodeState]] = []
    for node_class in node_classes:
        for _, rank, gpu, node in islice(node_class.mig.get(EMPTY, ()), LOOKED_MAX):
            if node.name not in kept:
                found.append((-node.free_count, rank, gpu, node))
    best = min(found, default=None, key=lambda each: each[:3])
    return None if best is None else Switch(best[3].name, best[2], mig=False)
