"""The fleet with the demand that its flavors have learned: what placement decides on."""

from __future__ import annotations

from collections.abc import Iterator

from shared.core.cluster.state import ClusterState
from shared.core.scoring.packing_index import PackingIndex


class Cluster(ClusterState[PackingIndex]):
    """State of one cell, each flavor with its packing index (core/scoring/packing_index.py)."""

    def __init__(self, *, seed: int = 0) -> None:
        """`seed` decides ties only."""
        super().__init__(PackingIndex, seed=seed)

    def packing(self, flavor: str) -> PackingIndex:
        """What is known of the demand for `flavor`; empty at first."""
        return self.index(flavor)

    def flavors(self) -> Iterator[str]:
        """Those that have a packing index."""
        return iter(self._indexes)
