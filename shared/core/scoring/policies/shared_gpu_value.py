"""A share goes to a GPU that is shared already, where the rest loses least of its worth.

What a rest is worth: core/scoring/share_values.py (Gilmore and Gomory, 1961; ADR 55).
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np

from shared.core.model.demand import PodDemand
from shared.core.scoring.policy import Floats, GpuPlaces, Learned, NodePlaces, steps_of
from shared.core.scoring.share_values import rest_values

LOST_BIN_MILLI: Final = 100
"""Step in which lost values of rests are told apart; 20 to 100 are alike."""
LOST_NONE_MILLI: Final = 1
"""Less is rounding."""


class SharedGpuValue:
    """`most` where no value is lost, less for each bin that is; a GPU that is opened gets 0."""

    least: ClassVar[int] = 0
    most: ClassVar[int] = 3

    def __init__(self, learned: Learned) -> None:
        self._rests = rest_values(learned.counts)

    def of_nodes(self, _places: NodePlaces, _demand: PodDemand) -> None:
        """A share would open a GPU there."""

    def of_gpus(self, places: GpuPlaces, demand: PodDemand) -> Floats:
        """What the free part loses beyond what the share is worth."""
        size = steps_of(demand)
        left = self._rests[np.maximum(places.free - size, 0)]
        lost = self._rests[places.free] - left - self._rests[size]
        kept: Floats = self.most - np.ceil((lost - LOST_NONE_MILLI) / LOST_BIN_MILLI)
        return kept
