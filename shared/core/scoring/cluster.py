"""The fleet with the demand that its flavors have learned: what placement decides on."""

from __future__ import annotations

from collections.abc import Iterator

from shared.core.cluster.state import ClusterState
from shared.core.scoring.market import Market


class Cluster(ClusterState[Market]):
    """State of one cell, each flavor with its market (core/scoring/market.py)."""

    def __init__(self, *, seed: int = 0) -> None:
        """`seed` decides ties only."""
        super().__init__(Market, seed=seed)

    def market(self, flavor: str) -> Market:
        """What is known of the demand for `flavor`; empty at first."""
        return self.index(flavor)

    def flavors(self) -> Iterator[str]:
        """Those that have a market."""
        return iter(self._indexes)
