"""Rows of the ledger that one batch charges and gives back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.core.model.charges import pod_resources
from shared.core.model.nouns import Placement, PodPlacement, Workload

AllocationRow = tuple[str, int, int, str, int, str, str, str, int, int, int, int, int]


@dataclass(slots=True)
class LedgerRows:
    """Allocations of one batch."""

    charged: list[AllocationRow] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    shrunk: dict[str, int] = field(default_factory=dict)
    """Pods kept, by workload."""
    released_rows: int = 0

    def charge(self, workload: Workload, attempt: int, placement: Placement) -> None:
        """A row for each (pod, GPU); CPU and memory stand with the first GPU of a pod."""
        sizes = {one.name: pod_resources(one) for one in workload.spec.pod_sets}
        for pod in placement.pods:
            size = sizes[pod.pod_set]
            owner = (workload.team, workload.queue, placement.flavor)
            cpu_milli, memory_mib = size.cpu_milli, size.memory_mib
            for gpu, mask, milli, gpu_memory_mib in _shares(pod):
                place = (workload.id, attempt, pod.rank, pod.node, gpu)
                self.charged.append(
                    (*place, *owner, mask, milli, gpu_memory_mib, cpu_milli, memory_mib)
                )
                cpu_milli = memory_mib = 0

    def recharge(self, workload: Workload, attempt: int, placement: Placement) -> None:
        """Its rows anew, on other GPUs of the same nodes: as many as there are."""
        others = [row for row in self.charged if row[0] != workload.id]
        if len(others) == len(self.charged):
            self.release(workload, placement)
        self.charged = others
        self.charge(workload, attempt, placement)

    def release(self, workload: Workload, placement: Placement) -> None:
        """All rows of the workload."""
        self.released.append(workload.id)
        self.released_rows += sum(len(_shares(pod)) for pod in placement.pods)

    def shrink(self, workload: Workload, pods_kept: int, gone: Iterable[PodPlacement]) -> None:
        """The rows of the ranks from `pods_kept` on."""
        self.shrunk[workload.id] = pods_kept
        self.released_rows += sum(len(_shares(pod)) for pod in gone)


def _shares(pod: PodPlacement) -> list[tuple[int, int, int, int]]:
    shares = [(one.index, one.mask, one.milli, one.memory_mib) for one in pod.shares]
    return shares or [(-1, 0, 0, 0)]
