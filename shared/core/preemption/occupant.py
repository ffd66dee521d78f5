"""Who holds what, and what it would lose if it were evicted now.

Lost is the work since the last checkpoint, times the GPUs, and the time to come back to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.core.charges import least_count
from shared.core.model import PodPlacement, WorkloadSpec
from shared.core.tenants import Tenant
from shared.core.units import GPU_MILLI


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant(Tenant):
    """A workload with devices, as far as evicting it is concerned.

    `protected`: its priority class is never preempted. `evictable`: it runs, its spec lets it be
    preempted, and nobody evicts it already.
    """

    priority: int
    attempt: int
    version: int
    started_at_ms: int
    protected: bool = False
    evictable: bool = True
    restart_ms: int = 0
    """From the start of its next attempt until it is where its last checkpoint was."""

    @property
    def queue(self) -> str:
        """Where its quota is charged."""
        return self.workload.queue

    @property
    def team(self) -> str:
        """Whose it is."""
        return self.workload.team

    @property
    def spare_ranks(self) -> tuple[int, ...]:
        """Ranks that an elastic gang can give up, in the order in which it would."""
        ranks: list[int] = []
        for pod_set in self.workload.spec.pod_sets:
            if pod_set.slices or pod_set.min_count is None:
                continue
            mine = [pod.rank for pod in self.placement.pods if pod.pod_set == pod_set.name]
            ranks += sorted(mine)[least_count(pod_set) :]
        return tuple(reversed(ranks))

    def last_checkpoint_ms(self, now_ms: int) -> int:
        """When it last saved its work, as it promised to; its start if it does not."""
        interval_ms = checkpoint_interval_ms(self.workload.spec)
        if not interval_ms:
            return self.started_at_ms
        ran_ms = max(now_ms - self.started_at_ms, 0)
        return self.started_at_ms + ran_ms // interval_ms * interval_ms

    def lost_gpu_ms(self, now_ms: int, gpu_milli: int | None = None) -> int:
        """GPU-milliseconds that go if `gpu_milli` of it (all by default) stop now."""
        held = self.placement.charge.gpu_milli if gpu_milli is None else gpu_milli
        since_ms = max(now_ms - self.last_checkpoint_ms(now_ms), 0)
        return held * (since_ms + self.restart_ms) // GPU_MILLI


def checkpoint_interval_ms(spec: WorkloadSpec) -> int:
    """How often it saves its work; 0 for never."""
    return (spec.checkpoint_interval_seconds or 0) * 1000


def gpu_milli_of(pods: Iterable[PodPlacement]) -> int:
    """What `pods` hold of GPUs."""
    return sum(share.milli for pod in pods for share in pod.shares)


def least_gpu_milli(occupant: Occupant) -> int:
    """What the smallest piece of it that can go holds of GPUs."""
    spare = set(occupant.spare_ranks)
    pods = [pod for pod in occupant.placement.pods if pod.rank in spare]
    whole = occupant.placement.charge.gpu_milli
    return min((gpu_milli_of((pod,)) for pod in pods), default=whole)
