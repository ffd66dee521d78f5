"""What a workload holds, and what it would lose if it were evicted now.

Lost is the work since the last checkpoint, times the GPUs, and the time to come back to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from shared.core.cluster.tenants import Tenant
from shared.core.model.nouns import PodPlacement, WorkloadSpec
from shared.core.model.units import GPU_MILLI
from shared.core.placement.resize import sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant(Tenant):
    """A workload with devices, as far as evicting it is concerned.

    `protected`: its priority class is never preempted. `evictable`: it runs, its spec lets it be
    preempted, and nothing evicts it already.
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
        """The team that owns it."""
        return self.workload.team

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of pods that an elastic gang can go on with, the least first; O(pods) if it is.

        It gives up its highest ranks (core/placement/resize.py), so those that lie where room is
        wanted may be no surplus.
        """
        elastic = any(pod_set.min_count is not None for pod_set in self.workload.spec.pod_sets)
        ranks = {pod.rank for pod in self.placement.pods} if elastic else set()
        if not elastic or ranks != set(range(len(self.placement.pods))):
            return ()
        return sizes(self.workload, self.placement)[::-1]

    def ranks_from(self, size: int) -> frozenset[int]:
        """The ranks that go when `size` pods stay; it must be one of `sizes`."""
        return frozenset(range(size, len(self.placement.pods)))

    def last_checkpoint_ms(self, now_ms: int) -> int:
        """When it last saved its work, as it promised to; its start if it does not."""
        interval_ms = checkpoint_interval_ms(self.workload.spec)
        return last_checkpoint_ms(self.started_at_ms, interval_ms, now_ms)

    def lost_gpu_ms(self, now_ms: int, gpu_milli: int | None = None) -> int:
        """GPU-milliseconds that go if `gpu_milli` of it (all by default) stop now."""
        held = self.placement.charge.gpu_milli if gpu_milli is None else gpu_milli
        since_ms = max(now_ms - self.last_checkpoint_ms(now_ms), 0)
        return held * (since_ms + self.restart_ms) // GPU_MILLI


def last_checkpoint_ms(started_at_ms: int, interval_ms: int, now_ms: int) -> int:
    """When work that saves itself every `interval_ms` did so last; its start if that is 0."""
    if not interval_ms:
        return started_at_ms
    ran_ms = max(now_ms - started_at_ms, 0)
    return started_at_ms + ran_ms // interval_ms * interval_ms


def checkpoint_interval_ms(spec: WorkloadSpec) -> int:
    """How often it saves its work; 0 for never."""
    return (spec.checkpoint_interval_seconds or 0) * 1000


def gpu_milli_of(pods: Iterable[PodPlacement]) -> int:
    """What `pods` hold of GPUs."""
    return sum(share.milli for pod in pods for share in pod.shares)


@dataclass(frozen=True, slots=True)
class Surplus:
    """What an elastic gang can give up: all ranks from one of its `sizes` on."""

    sizes: tuple[int, ...]
    """Numbers of pods that it can go on with, the least first."""
    weights_milli: tuple[int, ...]
    """By number of pods that stay, what stopping the others is counted by."""

    def size_without(self, rank: int) -> int | None:
        """The largest size without the pod of this rank; None if it must stay."""
        at = bisect_right(self.sizes, rank)
        return self.sizes[at - 1] if at else None
