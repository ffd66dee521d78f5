"""The GPU that becomes useless grows least: fragments, and room that scarce classes need.

Fragments are the milli-GPU of no use in expectation over the classes of pods that are asked for
(FGD: Weng et al., "Beware of Fragmentation", USENIX ATC'23). For classes of one GPU it is a sum
over the GPUs of a node, which is why a table suffices. The price of scarce room
(core/scoring/scarcity.py) counts only when it is a whole bin. Bins: ADR 14.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np

from shared.core.model.demand import PodDemand
from shared.core.model.units import GPU_MILLI
from shared.core.scoring.mix import PodClass
from shared.core.scoring.policy import (
    CORES,
    GPUS,
    PART_MILLI,
    PARTS,
    Floats,
    GpuPlaces,
    Learned,
    NodePlaces,
)
from shared.core.scoring.scarcity import Scarcity
from shared.core.scoring.share_values import MILLI_STEP

BIN_MILLI: Final = 500
"""Differences of useless GPU below this are noise (100 to 400 are alike)."""


class Fragmentation:
    """By how many bins the useless GPU shrinks."""

    least: ClassVar[int] = -1000
    most: ClassVar[int] = 1000

    def __init__(self, learned: Learned) -> None:
        self._gpu = _gpu_table(learned.counts)
        self._nodes = _node_table(learned.counts, self._gpu)
        self._scarcity = Scarcity(learned)

    def of_nodes(self, places: NodePlaces, demand: PodDemand) -> Floats:
        """A share that opens a GPU leaves the rest of it beside the node's other free GPU."""
        free, after = places.free, places.after
        before = self._nodes[free, places.parts, places.cores]
        fragments = before - self._nodes[after, places.parts, places.cores_after]
        if demand.milli:
            fragments -= self._gpu[(GPU_MILLI - demand.milli) // MILLI_STEP, places.cores_after]
        return _binned(fragments, self._scarcity.of_nodes(places, demand))

    def of_gpus(self, places: GpuPlaces, demand: PodDemand) -> Floats:
        """CPU that the pod takes lacks beside the other free GPUs of the node, too."""
        cores, cores_after = places.cores, places.cores_after
        fragments = self._gpu[places.free, cores] - self._gpu[places.after, cores_after]
        fragments += places.rest * (self._gpu[-1, cores] - self._gpu[-1, cores_after])
        return _binned(fragments, self._scarcity.of_gpus(places, demand))


def _binned(fragments: Floats, scarce: Floats) -> Floats:
    """Prices are rounded towards zero: what is not scarce must not disturb the rest."""
    bins: Floats = np.floor(fragments / BIN_MILLI) + np.ceil(scarce / BIN_MILLI)
    return bins


def _gpu_table(counts: Mapping[PodClass, int]) -> Floats:
    """(free milli / 10, cores): free milli times the share of pods that cannot use them."""
    useful = np.zeros((GPU_MILLI // MILLI_STEP + 1, CORES))
    for each, count in counts.items():
        cores = _cores_up(each.cpu_milli)
        if each.gpus <= 1 and each.gpu_milli and cores < CORES:
            useful[-(-each.gpu_milli // MILLI_STEP), cores] += count
        elif each.gpus > 1:
            # Of free GPUs of its own; `_node_table` knows whether there are enough.
            useful[-1, 0] += count
    useless = sum(counts.values()) - useful.cumsum(axis=0).cumsum(axis=1)
    free_milli = MILLI_STEP * np.arange(len(useless))
    table: Floats = free_milli[:, None] * useless / sum(counts.values())
    return table


def _node_table(counts: Mapping[PodClass, int], gpu: Floats) -> Floats:
    """(free GPUs, parts, cores): the sum over its GPUs, and what large pods cannot use."""
    free = np.arange(GPUS + 1)
    parts_milli = PART_MILLI * np.arange(PARTS + 1)
    part = gpu[PART_MILLI // MILLI_STEP] / PART_MILLI
    table: Floats = free[:, None, None] * gpu[-1] + parts_milli[:, None] * part
    total = sum(counts.values())
    useless = np.zeros((GPUS + 1, CORES))
    for each, count in counts.items():
        if each.gpus > 1:
            useless += count / total
            useless[each.gpus :, _cores_up(each.cpu_milli) :] -= count / total
    table += (GPU_MILLI * free[:, None] * useless)[:, None, :]
    return table


def _cores_up(cpu_milli: int) -> int:
    return -(-cpu_milli // 1000)
