"""CPU work goes to nodes without GPUs first: it is worth half a bin of fragments, and no more."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from shared.core.model.demand import PodDemand
from shared.core.scoring.cells import Ints
from shared.core.scoring.policy import GpuPlaces, Learned, NodePlaces


class GpuFreeNodes:
    """1 for a node that has no GPU at all."""

    least: ClassVar[int] = 0
    most: ClassVar[int] = 1

    def __init__(self, learned: Learned) -> None:
        self._bare = np.array([not each.key.gpus for each in learned.classes])

    def of_nodes(self, places: NodePlaces, _demand: PodDemand) -> Ints:
        """By the class of the node."""
        return self._bare[places.number].astype(np.int64)

    def of_gpus(self, _places: GpuPlaces, _demand: PodDemand) -> None:
        """These have a GPU."""
