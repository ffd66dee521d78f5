"""A gang that runs and changes its size: what it may give up, and what it then holds.

An elastic gang gives up its highest ranks, so that those that stay are 0..n-1
(`core/placement/gang/ranks.py` put there what it could do without), by whole outermost slices, and
never falls below `min_count` of any set. What can be added to it is found by
`core/placement/gang/grow.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from shared.core.model.charges import pod_resources
from shared.core.model.demand import PodDemand, gang_of
from shared.core.model.nouns import Placement, PodPlacement, Workload, WorkloadKind, WorkloadSpec
from shared.core.model.units import Resources
from shared.core.model.value import replace

REST_SECONDS: Final = 60
"""A gang that was just made smaller, or was refused growth, is not made larger for so long."""
REST_SECONDS_MAX: Final = 3_600
RESTARTS_PART: Final = 20
"""Meeting anew takes a gang that grows as often as it may at most one part in so many."""


def growth_rest_seconds(spec: WorkloadSpec) -> int:
    """How long a gang that grew is not made larger again, in seconds.

    Pods of a training begin anew from their last checkpoint when others join (torch elastic): one
    that is given a pod every few seconds would only restart. Others work each for itself.
    """
    if spec.kind is not WorkloadKind.TRAINING:
        return 0
    return min(max(REST_SECONDS, RESTARTS_PART * spec.restart_seconds), REST_SECONDS_MAX)


def sizes(workload: Workload, placement: Placement) -> tuple[int, ...]:
    """Numbers of pods that it may shrink to, the largest first; none for a gang at its least.

    Each is reached by giving up the ranks from there on. O(pods).
    """
    demands = {demand.pod_set: demand for demand in gang_of(workload).demands}
    left = Counter(pod.pod_set for pod in placement.pods)
    names = [pod.pod_set for pod in sorted(placement.pods, key=_rank)]
    found: list[int] = []
    while True:
        demand = demands[names[-1]]
        unit = names[-demand.unit :]
        spare = left[unit[0]] - demand.unit >= demand.min_count and len(names) > demand.unit
        if not spare or len({*unit}) > 1:
            return tuple(found)
        left[unit[0]] -= demand.unit
        del names[-demand.unit :]
        found.append(len(names))


def sizes_of(workload: Workload) -> tuple[int, ...]:
    """Numbers of pods that its owner may ask for, the largest first; it was submitted with that.

    Only one when no pod set is elastic, or several are: then a number would not say which.
    """
    elastic = _elastic(workload)
    if elastic is None:
        return (workload.pods,)
    least = workload.pods - elastic.count + elastic.min_count
    return tuple(range(workload.pods, least - 1, -elastic.unit))


def sized(workload: Workload, pods: int) -> Workload:
    """The workload as if it had been submitted with so many pods, one of `sizes_of`."""
    elastic = _elastic(workload)
    if elastic is None or pods == workload.pods:
        return workload
    pod_sets = tuple(
        replace(one, count=one.count - workload.pods + pods)
        if one.name == elastic.pod_set
        else one
        for one in workload.spec.pod_sets
    )
    return replace(workload, spec=replace(workload.spec, pod_sets=pod_sets))


def _elastic(workload: Workload) -> PodDemand | None:
    demands = gang_of(workload).demands
    elastic = [one for one in demands if one.count - one.min_count >= one.unit]
    return elastic[0] if len(elastic) == 1 else None


def surplus(placement: Placement, pods_kept: int) -> tuple[PodPlacement, ...]:
    """The pods that go when `pods_kept` stay."""
    return tuple(pod for pod in placement.pods if pod.rank >= pods_kept)


def shrunk_to(workload: Workload, placement: Placement, pods_kept: int) -> Placement:
    """What is held when the first `pods_kept` ranks stay."""
    kept = tuple(pod for pod in placement.pods if pod.rank < pods_kept)
    return replace(placement, pods=kept, charge=charge_of(workload, kept))


def joined(placement: Placement, added: Placement) -> Placement:
    """What is held with the pods that `grow` has found."""
    return replace(
        placement,
        pods=(*placement.pods, *added.pods),
        charge=placement.charge + added.charge,
        span=added.span,
    )


def charge_of(workload: Workload, pods: Iterable[PodPlacement]) -> Resources:
    """What quota counts for `pods` of the workload."""
    sizes_by_set = {one.name: pod_resources(one) for one in workload.spec.pod_sets}
    gpu_milli = cpu_milli = memory_mib = 0
    for pod in pods:
        gpu_milli += sum(share.milli for share in pod.shares)
        cpu_milli += sizes_by_set[pod.pod_set].cpu_milli
        memory_mib += sizes_by_set[pod.pod_set].memory_mib
    return Resources(gpu_milli=gpu_milli, cpu_milli=cpu_milli, memory_mib=memory_mib)


def _rank(pod: PodPlacement) -> int:
    return pod.rank
