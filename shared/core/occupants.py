"""Who holds what, and what it would lose if it were evicted now: what evictions are planned on.

Lost is the work since the last checkpoint, times the GPUs, and the time to come back to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shared.core.model import WorkloadSpec
from shared.core.tenants import Tenant, Tenants
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


class Occupants:
    """All occupants of a cluster, kept as they come and go. O(pods) for each."""

    def __init__(self, occupants: Iterable[Occupant] = ()) -> None:
        self.tenants: Tenants[Occupant] = Tenants(occupants)

    def put(self, occupant: Occupant) -> None:
        """Add one, or replace what is known of it."""
        self.tenants.put(occupant)

    def remove(self, workload_id: str) -> None:
        """Forget one that holds nothing any more; an unknown one is ignored."""
        self.tenants.remove(workload_id)

    def of(self, workload_id: str) -> Occupant | None:
        """What is known of a workload."""
        return self.tenants.running.get(workload_id)

    def in_flavor(self, flavor: str) -> list[Occupant]:
        """Those charged to `flavor`, in order of id."""
        found = [each for each in self.tenants.running.values() if each.placement.flavor == flavor]
        return sorted(found, key=lambda each: each.id)
