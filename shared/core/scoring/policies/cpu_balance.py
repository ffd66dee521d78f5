"""No GPU is left without CPU: the CPU that lacks beside free GPUs grows least (ADR 14).

It is measured by the demand's mean CPU per GPU. Where the fleet has less CPU per GPU than is asked
in all, pods without GPU count in that mean.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from shared.core.model.demand import PodDemand
from shared.core.model.units import GPU_MILLI
from shared.core.scoring.policy import Floats, GpuPlaces, Learned, NodePlaces, Places

CPU_BIN_MILLI: Final = 2_000


class CpuBalance:
    """By how many bins the missing CPU shrinks."""

    least: ClassVar[int] = -255
    most: ClassVar[int] = 255

    def __init__(self, learned: Learned) -> None:
        self._per_milli = _cpu_per_gpu(learned) / GPU_MILLI

    def of_nodes(self, places: NodePlaces, demand: PodDemand) -> Floats:
        """Beside all free GPU of the node."""
        return self._of(places, demand)

    def of_gpus(self, places: GpuPlaces, demand: PodDemand) -> Floats:
        """The same."""
        return self._of(places, demand)

    def _of(self, places: Places, demand: PodDemand) -> Floats:
        before = np.maximum(0, places.free_milli * self._per_milli - places.cores * 1000)
        left_milli = places.free_milli - (demand.gpus * GPU_MILLI + demand.milli)
        after = np.maximum(0, left_milli * self._per_milli - places.cores_after * 1000)
        bins: Floats = np.floor((before - after) / CPU_BIN_MILLI)
        return bins


def _cpu_per_gpu(learned: Learned) -> float:
    """Mean CPU per GPU of what is asked, in milli; in all if the fleet has less than that.

    While no work asks for GPUs, what the fleet has beside them: CPU work that comes first must not
    leave the GPUs without CPU.
    """
    counts, fleet = learned.counts, [each for each in learned.classes if each.key.gpus]
    gpus = sum(each.gpu_milli * count for each, count in counts.items()) / GPU_MILLI
    gpus_there = sum(each.nodes * each.key.gpus for each in fleet)
    if not gpus_there:
        return 0.0
    there = sum(each.nodes * each.key.cpu_milli for each in fleet) / gpus_there
    if not gpus:
        return there
    beside = sum(each.cpu_milli * count for each, count in counts.items() if each.gpu_milli)
    asked = sum(each.cpu_milli * count for each, count in counts.items()) / gpus
    return asked if asked > there else beside / gpus
