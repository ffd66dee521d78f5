"""All that hold devices, as far as evictions are planned on them.

What all of them would lose changes with the clock, so it is worked out for each decision, but
for all of them at once: `Occupants` keeps their figures in columns (arrays), one row for each
occupant and one for each node on which it has pods, changed as occupants come and go.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Final

import numpy as np

from shared.core.cluster.tenants import Tenants
from shared.core.model.nouns import PodPlacement
from shared.core.model.units import GPU_MILLI
from shared.core.preemption.eligibility.columns import Codes, Column, Rows
from shared.core.preemption.eligibility.occupant import (
    Occupant,
    Surplus,
    checkpoint_interval_ms,
    gpu_milli_of,
)
from shared.core.scoring import Cluster

CPU_MILLI_PER_GPU: Final = 16_000
"""Work without a GPU weighs as much as one GPU for so much CPU."""
WORKLOAD_COLUMNS: Final = (
    "flavor",
    "queue",
    "team",
    "priority",
    "start",
    "interval",
    "restart",
    "gpu",
    "cpu",
    "memory",
    "weight",  # what cost is counted by
    "least",  # milli-GPU of the smallest piece that can go
    "open",  # 1 for those that may go, 2 for the protected, 3 for the others, 0 for no row
)


class Occupants:
    """All occupants of a cluster, kept as they come and go. O(pods) for each."""

    def __init__(self, occupants: Iterable[Occupant] = ()) -> None:
        self.tenants: Tenants[Occupant] = Tenants()
        self.workloads = Rows(*WORKLOAD_COLUMNS)
        self.holdings = Rows("workload", "node", "gpu", "gpus", "weight")
        self.ids: dict[int, str] = {}
        """By row of `workloads`."""
        self.row_of: dict[str, int] = {}
        self.flavors, self.queues, self.teams, self.nodes = Codes(), Codes(), Codes(), Codes()
        self.surplus: dict[str, Surplus] = {}
        """By workload, of elastic gangs that are above their least."""
        self._held: dict[str, list[int]] = {}
        self._node_ranks = np.zeros(1, dtype=np.int64)
        for each in occupants:
            self.put(each)

    def put(self, occupant: Occupant) -> None:
        """Add one, or replace what is known of it."""
        self.remove(occupant.id)
        self.tenants.put(occupant)
        if sizes := occupant.sizes:
            self.surplus[occupant.id] = Surplus(sizes, self._weights_milli(occupant))
        charge = occupant.placement.charge
        row = self.workloads.take(
            flavor=self.flavors.of(occupant.placement.flavor),
            queue=self.queues.of(occupant.queue),
            team=self.teams.of(occupant.team),
            priority=occupant.priority,
            start=occupant.started_at_ms,
            interval=checkpoint_interval_ms(occupant.workload.spec),
            restart=occupant.restart_ms,
            gpu=charge.gpu_milli,
            cpu=charge.cpu_milli,
            memory=charge.memory_mib,
            least=self._least_gpu_milli(occupant),
            weight=self.weight_milli(occupant, occupant.placement.pods),
            open=2 if occupant.protected else 1 if occupant.evictable else 3,
        )
        self.ids[row] = occupant.id
        self.row_of[occupant.id] = row
        held: dict[str, list[PodPlacement]] = {}
        for pod in occupant.placement.pods:
            held.setdefault(pod.node, []).append(pod)
        self._held[occupant.id] = [
            self.holdings.take(
                workload=row,
                node=self.nodes.of(node),
                gpu=gpu_milli_of(pods),
                gpus=sum(len(pod.shares) for pod in pods),
                weight=self.weight_milli(occupant, pods),
            )
            for node, pods in held.items()
        ]

    def weight_milli(self, occupant: Occupant, pods: Iterable[PodPlacement]) -> int:
        """What the cost of stopping `pods` is counted by: their GPUs, or else their CPU."""
        if occupant.placement.charge.gpu_milli:
            return gpu_milli_of(pods)
        cpu_milli = sum(self.tenants.size(occupant, pod)[0] for pod in pods)
        return _weight_of_cpu(cpu_milli)

    def _weights_milli(self, occupant: Occupant) -> tuple[int, ...]:
        pods = sorted(occupant.placement.pods, key=lambda pod: -pod.rank)
        if occupant.placement.charge.gpu_milli:
            gpus = (gpu_milli_of((pod,)) for pod in pods)
            return tuple(accumulate(gpus, initial=0))[::-1]
        cpus = (self.tenants.size(occupant, pod)[0] for pod in pods)
        return tuple(map(_weight_of_cpu, accumulate(cpus, initial=0)))[::-1]

    def _least_gpu_milli(self, occupant: Occupant) -> int:
        """What the smallest piece of it that can go holds of GPUs."""
        surplus = self.surplus.get(occupant.id)
        if surplus is None:
            return occupant.placement.charge.gpu_milli
        return gpu_milli_of(
            pod for pod in occupant.placement.pods if pod.rank >= surplus.sizes[-1]
        )

    def remove(self, workload_id: str) -> None:
        """Forget one that holds nothing any more; an unknown one is ignored."""
        if self.tenants.remove(workload_id) is None:
            return
        row = self.row_of.pop(workload_id)
        del self.ids[row]
        self.surplus.pop(workload_id, None)
        self.workloads.drop(row)
        for holding in self._held.pop(workload_id):
            self.holdings.drop(holding)

    def of(self, workload_id: str) -> Occupant | None:
        """What is known of a workload."""
        return self.tenants.running.get(workload_id)

    def sizes_of(self, workload_id: str) -> tuple[int, ...]:
        """Numbers of pods that a workload can go on with, the least first; none for most."""
        surplus = self.surplus.get(workload_id)
        return () if surplus is None else surplus.sizes

    def node_ranks(self, cluster: Cluster) -> Column:
        """By number of the node: the rank by which `cluster` breaks ties."""
        known = len(self._node_ranks)
        if known < len(self.nodes.names):
            more = [cluster.rank_of(name) for name in self.nodes.names[known:]]
            self._node_ranks = np.append(self._node_ranks, np.array(more, dtype=np.int64))
        return self._node_ranks

    def lost_ms(self, now_ms: int) -> Column:
        """By row of `workloads`: milliseconds of each of its GPUs that go if it stops now."""
        rows = self.workloads
        ran = np.maximum(now_ms - rows["start"], 0)
        interval = rows["interval"]
        since = np.where(interval > 0, ran % np.maximum(interval, 1), ran)
        return since + rows["restart"]


def _weight_of_cpu(cpu_milli: int) -> int:
    return max(cpu_milli * GPU_MILLI // CPU_MILLI_PER_GPU, 1)
