"""A gang is charged pod by pod, and taken back to any earlier point if the rest finds no place.

Undo is exact: amounts are integers and the free lists depend on amounts alone, so after a rollback
`Cluster.digest` and every later decision are as if nothing had been tried.
"""

from __future__ import annotations

from shared.core.cluster.node_state import NodeState
from shared.core.cluster.state import ClusterState, FlavorIndex
from shared.core.model.demand import PodDemand
from shared.core.model.nouns import GpuShare
from shared.core.model.units import Resources


class Statement:
    """Pods charged so far, in order."""

    __slots__ = ("_cluster", "_team", "pods")

    def __init__(self, cluster: ClusterState[FlavorIndex], team: str) -> None:
        self._cluster = cluster
        self._team = team
        self.pods: list[tuple[PodDemand, NodeState, tuple[GpuShare, ...]]] = []

    def charge(self, demand: PodDemand, node: NodeState, shares: tuple[GpuShare, ...]) -> None:
        """Charge one pod of `demand` to `node`."""
        self._cluster.hold(
            node, self._team, shares, demand.cpu_milli, demand.memory_mib, media=demand.media
        )
        self.pods.append((demand, node, shares))

    def checkpoint(self) -> int:
        """A point to roll back to."""
        return len(self.pods)

    def rollback(self, checkpoint: int = 0) -> None:
        """Undo everything charged since `checkpoint`, the latest first."""
        while len(self.pods) > checkpoint:
            demand, node, shares = self.pods.pop()
            self._cluster.free(
                node, shares, demand.cpu_milli, demand.memory_mib, media=demand.media
            )

    def charge_sum(self) -> Resources:
        """What quota counts for everything charged."""
        gpu_milli = cpu_milli = memory_mib = 0
        for demand, _, shares in self.pods:
            for share in shares:
                gpu_milli += share.milli
            cpu_milli += demand.cpu_milli
            memory_mib += demand.memory_mib
        return Resources(gpu_milli=gpu_milli, cpu_milli=cpu_milli, memory_mib=memory_mib)
