"""Last among shared GPUs: one with a rest worth something, so that many sizes find a partner.

What a rest is worth: core/scoring/share_values.py (ADR 55).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from shared.core.model.demand import PodDemand
from shared.core.scoring.cells import Ints
from shared.core.scoring.policy import GpuPlaces, Learned, NodePlaces
from shared.core.scoring.share_values import rest_values


class OpenRest:
    """1 for a GPU with a rest that is still worth something to others."""

    least: ClassVar[int] = 0
    most: ClassVar[int] = 1

    def __init__(self, learned: Learned) -> None:
        self._worth = rest_values(learned.counts) > 0

    def of_nodes(self, _places: NodePlaces, _demand: PodDemand) -> None:
        """A share would open a GPU there."""

    def of_gpus(self, places: GpuPlaces, _demand: PodDemand) -> Ints:
        """By the free part that is left."""
        return self._worth[places.after].astype(np.int64)
