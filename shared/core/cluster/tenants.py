"""Which workloads run where: the index that plans of moves and of evictions are made on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.core.cluster.node_state import NodeState
from shared.core.cluster.state import pod_size
from shared.core.model.nouns import Placement, PodPlacement, Workload
from shared.core.model.units import GPU_MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A workload that holds devices."""

    workload: Workload
    placement: Placement

    @property
    def id(self) -> str:
        """The workload's."""
        return self.workload.id

    @property
    def nodes(self) -> frozenset[str]:
        """Where it has pods."""
        return frozenset(pod.node for pod in self.placement.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(Tenant):
    """One that may be moved; `cost` is what a move of it loses, in any one unit."""

    cost: int = 0
    movable: bool = True


Held = TypeVar("Held", bound=Tenant)


class Tenants(Generic[Held]):
    """All that run, by id and by node. O(pods) for each."""

    def __init__(self, running: Iterable[Held] = ()) -> None:
        self.running: dict[str, Held] = {}
        self._sizes: dict[str, dict[str, tuple[int, int, bool]]] = {}
        self._on: dict[str, dict[str, list[PodPlacement]]] = {}
        for each in running:
            self.put(each)

    def put(self, tenant: Held) -> None:
        """Add a workload, or replace what is known of it."""
        self.remove(tenant.id)
        self.running[tenant.id] = tenant
        pod_sets = tenant.workload.spec.pod_sets
        self._sizes[tenant.id] = {pod_set.name: pod_size(pod_set) for pod_set in pod_sets}
        for pod in tenant.placement.pods:
            self._on.setdefault(pod.node, {}).setdefault(tenant.id, []).append(pod)

    def remove(self, workload_id: str) -> Held | None:
        """Forget a workload; what was known of it."""
        tenant = self.running.pop(workload_id, None)
        if tenant is not None:
            del self._sizes[workload_id]
            for node in tenant.nodes:
                del self._on[node][workload_id]
                if not self._on[node]:
                    del self._on[node]
        return tenant

    def on(self, node: str) -> list[Held]:
        """Workloads with a pod on `node`, in order of id."""
        return [self.running[name] for name in sorted(self._on.get(node, ()))]

    def pods_on(self, tenant: Held, node: str) -> list[PodPlacement]:
        """Its pods on `node`."""
        return self._on[node][tenant.id]

    def size(self, tenant: Held, pod: PodPlacement) -> tuple[int, int, bool]:
        """What `pod` holds beside its GPUs: (milli-CPU, MiB, whether it has media engines)."""
        return self._sizes[tenant.id][pod.pod_set]

    def leave(
        self, tenant: Held, copy: NodeState, pods: Iterable[PodPlacement] | None = None
    ) -> None:
        """Take `pods` (all by default) of `tenant` off a copy of a node."""
        for pod in self._on[copy.name][tenant.id] if pods is None else pods:
            cpu_milli, memory_mib, media = self._sizes[tenant.id][pod.pod_set]
            copy.free(pod.shares, cpu_milli, memory_mib, media=media)

    def come_back(
        self, tenant: Held, copy: NodeState, pods: Iterable[PodPlacement] | None = None
    ) -> None:
        """Undo `leave`."""
        for pod in self._on[copy.name][tenant.id] if pods is None else pods:
            cpu_milli, memory_mib, media = self._sizes[tenant.id][pod.pod_set]
            copy.hold(tenant.workload.team, pod.shares, cpu_milli, memory_mib, media=media)

    def frees_milli(self, tenant: Held, node: NodeState) -> int:
        """GPU of `node` that its leaving frees; of a shared one, its part of what is held."""
        return sum(
            GPU_MILLI * share.milli // max(node.uses[share.index].milli, 1)
            for pod in self._on[node.name][tenant.id]
            for share in pod.shares
        )
