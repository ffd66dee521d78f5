"""What the least of a gang asks of nodes: only GPUs count, and how near together they must be."""

from __future__ import annotations

from shared.core.model.charges import gpu_milli, least_count
from shared.core.model.nouns import Level, PodSet, Spread, WorkloadSpec
from shared.core.model.units import GPU_MILLI
from shared.core.model.value import Value

EqualPods = tuple[int, int, int]
"""(pods, whole GPUs of each, milli-GPU of each where it shares one; one of both is 0)."""


class GangNeed(Value, frozen=True, kw_only=True):
    """The pods that must run together, without those that ask for no GPU."""

    pods: tuple[EqualPods, ...] = ()
    """The most whole GPUs first."""
    level: Level | None = None
    """All lie within one domain of it; None: anywhere."""
    apart: bool = False
    """Each on a node of its own."""

    @property
    def alike(self) -> bool:
        """Whether its pods are equal and may lie anywhere: many such gangs are one large one."""
        return len(self.pods) == 1 and self.level is None and not self.apart

    @property
    def largest(self) -> int:
        """Whole GPUs that one node must have free for it."""
        return max((gpus or 1 for _, gpus, _ in self.pods), default=0)


def gang_need(spec: WorkloadSpec) -> GangNeed:
    """The need of a submission; O(pod sets).

    What must lie within one node counts as one pod, MIG instances that take more than a GPU as
    whole ones, and so does a share that must lie apart from others of its gang.
    """
    apart = spec.spread is Spread.REQUIRED
    pods = sorted(
        (_equal_pods(one, apart=apart) for one in spec.pod_sets if gpu_milli(one.gpu)),
        key=lambda one: (-one[1], -one[2]),
    )
    level = spec.topology.required
    if level is Level.NODE:
        milli = sum(count * (gpus * GPU_MILLI + part) for count, gpus, part in pods)
        return GangNeed(pods=((1, -(-milli // GPU_MILLI), 0),) if pods else ())
    return GangNeed(pods=tuple(pods), level=level, apart=apart)


def _equal_pods(pod_set: PodSet, *, apart: bool) -> EqualPods:
    whole, part = divmod(gpu_milli(pod_set.gpu), GPU_MILLI)
    if whole or apart:
        return least_count(pod_set), whole + bool(part), 0
    return least_count(pod_set), 0, part
