"""Who runs where, and what it takes to move them: the index that defragmentation plans on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.core.cluster import pod_size
from shared.core.model import Placement, PodPlacement, Workload
from shared.core.node_state import NodeState
from shared.core.units import GPU_MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A workload that holds devices; `cost` is what a move of it loses, in any one unit."""

    workload: Workload
    placement: Placement
    cost: int = 0
    movable: bool = True

    @property
    def id(self) -> str:
        """The workload's."""
        return self.workload.id

    @property
    def nodes(self) -> frozenset[str]:
        """Where it has pods."""
        return frozenset(pod.node for pod in self.placement.pods)


class Tenants:
    """All that run, by id and by node. O(pods) to build."""

    def __init__(self, running: Iterable[Running]) -> None:
        self.running = {each.id: each for each in running}
        self._sizes = {
            each.id: {pod_set.name: pod_size(pod_set) for pod_set in each.workload.spec.pod_sets}
            for each in self.running.values()
        }
        self._on: dict[str, dict[str, list[PodPlacement]]] = {}
        for each in self.running.values():
            for pod in each.placement.pods:
                self._on.setdefault(pod.node, {}).setdefault(each.id, []).append(pod)

    def on(self, node: str) -> list[Running]:
        """Workloads with a pod on `node`, in order of id."""
        return [self.running[name] for name in sorted(self._on.get(node, ()))]

    def leave(self, tenant: Running, copy: NodeState) -> None:
        """Take the pods of `tenant` off a copy of a node."""
        for pod in self._on[copy.name][tenant.id]:
            cpu_milli, memory_mib, media = self._sizes[tenant.id][pod.pod_set]
            copy.free(pod.shares, cpu_milli, memory_mib, media=media)

    def come_back(self, tenant: Running, copy: NodeState) -> None:
        """Undo `leave`."""
        for pod in self._on[copy.name][tenant.id]:
            cpu_milli, memory_mib, media = self._sizes[tenant.id][pod.pod_set]
            copy.hold(tenant.workload.team, pod.shares, cpu_milli, memory_mib, media=media)

    def frees_milli(self, tenant: Running, node: NodeState) -> int:
        """GPU of `node` that its leaving frees; of a shared one, its part of what is held."""
        return sum(
            GPU_MILLI * share.milli // max(node.uses[share.index].milli, 1)
            for pod in self._on[node.name][tenant.id]
            for share in pod.shares
        )
